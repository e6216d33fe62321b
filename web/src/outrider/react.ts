/**
 * Outrider as a React hook: `import { useOutrider } from 'outrider/react'`.
 * @module react
 */

import { useCallback, useEffect, useRef, useState } from 'react';
import { Outrider } from './index.js';
import type { Generation, GenerateOptions, LoadOptions, Prompt, Summary } from './index.js';

/** State of a component's instance, and the functions that change it. The functions stay the same between renders. */
export interface UseOutrider {
  /** The instance; null until it has been loaded. */
  outrider: Outrider | null;
  /** True once `generate` writes. */
  isReady: boolean;
  /** True while a text is being written. */
  isWriting: boolean;
  /** The text that has been written so far. */
  text: string;
  /** Its totals; null until it has ended. */
  summary: Summary | null;
  /** The error of loading or of the last text; null after `generate` has been called again. */
  error: Error | null;
  /** Writes a text, in place of the one that is being written. Does nothing until the instance has been loaded. */
  generate: (prompt: Prompt, options?: GenerateOptions) => Promise<void>;
  /** Ends the text that is being written. */
  stop: () => void;
}

/**
 * Loads an instance with the options of the first render, and closes it when the component is unmounted. Errors are in
 * the state; nothing is thrown.
 */
export function useOutrider(options: LoadOptions = {}): UseOutrider {
  const [outrider, setOutrider] = useState<Outrider | null>(null);
  const [isWriting, setIsWriting] = useState(false);
  const [text, setText] = useState('');
  const [summary, setSummary] = useState<Summary | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const first = useRef(options);
  const running = useRef<Generation | null>(null);

  useEffect(() => {
    const { signal: given } = first.current;
    const controller = new AbortController();
    const { signal } = controller;
    const abort = (): void => controller.abort(given?.reason);
    if (given?.aborted) abort();
    given?.addEventListener('abort', abort, { signal });
    let isMounted = true;
    // In strict mode React unmounts a component once while it loads, and mounts it again.
    const loading = Outrider.load({ ...first.current, signal });
    loading.then(
      (loaded) => isMounted && setOutrider(loaded),
      (reason: Error) => isMounted && setError(reason),
    );
    return () => {
      isMounted = false;
      controller.abort();
      running.current = null;
      setOutrider(null);
      setIsWriting(false);
      loading.then(
        (loaded) => loaded.close(),
        () => {},
      );
    };
  }, []);

  const generate = useCallback(
    async (prompt: Prompt, generateOptions: GenerateOptions = {}) => {
      if (!outrider) return;
      running.current?.stop();
      running.current = null;
      setText('');
      setSummary(null);
      setError(null);
      let generation: Generation | null = null;
      // Another text may have taken its place, or the component may be gone.
      const isCurrent = (): boolean => running.current === generation;
      try {
        generation = running.current = outrider.generate(prompt, generateOptions);
        setIsWriting(true);
        for await (const { text } of generation) if (isCurrent()) setText((before) => before + text);
        const totals = await generation.summary;
        if (isCurrent()) setSummary(totals);
      } catch (reason) {
        if (isCurrent()) setError(reason as Error);
      }
      if (isCurrent()) setIsWriting(false);
    },
    [outrider],
  );
  const stop = useCallback(() => running.current?.stop(), []);

  return { outrider, isReady: outrider !== null, isWriting, text, summary, error, generate, stop };
}
