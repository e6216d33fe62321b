// Outrider as a React hook: one draft model for a component, and the text that it writes as state.

import { Outrider } from "outrider";
import type {
  Generation,
  GenerateOptions,
  LoadOptions,
  Prompt,
  Summary,
} from "outrider";
import { useCallback, useEffect, useRef, useState } from "react";

/** Loads once, with the options of the first render; closes when the component goes. */
export function useOutrider(options: LoadOptions = {}) {
  const [outrider, setOutrider] = useState<Outrider | null>(null);
  const [text, setText] = useState("");
  const [summary, setSummary] = useState<Summary | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const first = useRef(options);
  const running = useRef<Generation | null>(null);

  useEffect(() => {
    const controller = new AbortController();
    const loading = Outrider.load({
      ...first.current,
      signal: controller.signal,
    });
    loading.then(
      setOutrider,
      (reason: Error) => controller.signal.aborted || setError(reason),
    );
    return () => {
      controller.abort();
      loading.then(
        (loaded) => loaded.close(),
        () => {},
      );
    };
  }, []);

  const generate = useCallback(
    async (prompt: Prompt, generateOptions: GenerateOptions = {}) => {
      running.current?.stop();
      setText("");
      setSummary(null);
      setError(null);
      try {
        const generation = outrider?.generate(prompt, generateOptions) ?? null;
        running.current = generation;
        if (!generation) return;
        for await (const token of generation) {
          // A newer text has taken its place.
          if (running.current !== generation) return;
          setText((before) => before + token.text);
        }
        setSummary(await generation.summary);
      } catch (reason) {
        setError(reason as Error);
      }
    },
    [outrider],
  );
  const stop = useCallback(() => running.current?.stop(), []);

  return { isReady: outrider !== null, text, summary, error, generate, stop };
}
