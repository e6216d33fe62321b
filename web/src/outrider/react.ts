/**
 * Outrider as a React hook: `import { useOutrider } from 'outrider/react'`.
 * @module react
 */

import { useCallback, useEffect, useRef, useState } from 'react';
import type { DetailedHTMLProps, HTMLAttributes } from 'react';
import type { OutriderChat } from './chat-element.js';
import { abortion, Outrider, unlessAborted } from './index.js';
import type { GenerateOptions, LoadOptions, Prompt, Summary } from './index.js';

/** State of a component's instance, and the functions that change it. The functions stay the same between renders. */
export interface UseOutrider {
  /** The instance; null until it has been loaded. */
  outrider: Outrider | null;
  /** True once the instance has been loaded. */
  isReady: boolean;
  /** True while a text is being written, or waits for the instance. */
  isWriting: boolean;
  /** The text that has been written so far. */
  text: string;
  /** Its totals; null until it has ended. */
  summary: Summary | null;
  /** The error of loading or of the last text; null after `generate` has been called again. */
  error: Error | null;
  /**
   * Writes a text, in place of the one that is being written, and resolves to its totals: null if it failed, or ended
   * before the instance was there. Waits for the instance, and loads it again after a failure.
   */
  generate: (prompt: Prompt, options?: GenerateOptions) => Promise<Summary | null>;
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
  const load = useRef<() => Promise<Outrider>>(() => Promise.reject(new Error('the component is not mounted')));
  /** Ends the text that is being written; null if there is none. */
  const running = useRef<AbortController | null>(null);

  useEffect(() => {
    const { signal: given } = first.current;
    const controller = new AbortController();
    const { signal } = controller;
    const abort = (): void => controller.abort(given?.reason);
    if (given?.aborted) abort();
    given?.addEventListener('abort', abort, { signal });
    let isMounted = true;
    let loading: Promise<Outrider> | null = null;
    load.current = () => {
      if (loading) return loading;
      const begun = (loading = Outrider.load({ ...first.current, signal }));
      begun.then(
        (loaded) => isMounted && setOutrider(loaded),
        // The next text tries again.
        () => (loading = null),
      );
      return begun;
    };
    // In strict mode React unmounts a component once while it loads, and mounts it again.
    load.current().catch((reason: Error) => isMounted && setError(reason));
    return () => {
      isMounted = false;
      controller.abort();
      running.current?.abort();
      running.current = null;
      setOutrider(null);
      setIsWriting(false);
      loading?.then(
        (loaded) => loaded.close(),
        () => {},
      );
    };
  }, []);

  const generate = useCallback(async (prompt: Prompt, generateOptions: GenerateOptions = {}) => {
    running.current?.abort();
    const { controller, signal, forget } = abortion(generateOptions);
    running.current = controller;
    // Another text may have taken its place, or the component may be gone.
    const isCurrent = (): boolean => running.current === controller;
    setText('');
    setSummary(null);
    setError(null);
    setIsWriting(true);
    try {
      const loaded = await unlessAborted(load.current(), signal);
      const generation = loaded.generate(prompt, { ...generateOptions, signal });
      for await (const { text } of generation) if (isCurrent()) setText((before) => before + text);
      const totals = await generation.summary;
      if (isCurrent()) setSummary(totals);
      return totals;
    } catch (reason) {
      if (isCurrent() && !signal.aborted) setError(reason as Error);
      return null;
    } finally {
      forget();
      if (isCurrent()) setIsWriting(false);
    }
  }, []);
  const stop = useCallback(() => running.current?.abort(), []);

  return { outrider, isReady: outrider !== null, isWriting, text, summary, error, generate, stop };
}

/** Attributes and properties of `<outrider-chat>` in JSX. */
export interface OutriderChatProps extends DetailedHTMLProps<HTMLAttributes<OutriderChat>, OutriderChat> {
  /** The address of the server; the page's own origin if not given. */
  server?: string | undefined;
  /** The system message of the conversation. */
  system?: string | undefined;
  /** The accessible name of the conversation. */
  label?: string | undefined;
  /** {@link OutriderChat.loadOptions}; React sets properties from version 19 on. */
  loadOptions?: LoadOptions | undefined;
  /** {@link OutriderChat.generateOptions} */
  generateOptions?: GenerateOptions | undefined;
}

declare module 'react' {
  namespace JSX {
    interface IntrinsicElements {
      'outrider-chat': OutriderChatProps;
    }
  }
}
