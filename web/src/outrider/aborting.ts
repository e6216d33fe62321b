/** Options of a call beside the parameters, as in OpenAI's client. */
export interface RequestOptions {
  /** Stops the generation. The text so far is the answer, and a stream ends. */
  signal?: AbortSignal | null | undefined;
}

/** A controller that follows a caller's signal until `forget` is called. */
export function abortion({ signal }: RequestOptions): {
  controller: AbortController;
  signal: AbortSignal;
  forget: () => void;
} {
  const controller = new AbortController();
  if (!signal) return { controller, signal: controller.signal, forget: () => {} };
  const abort = (): void => controller.abort();
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  return { controller, signal: controller.signal, forget: () => signal.removeEventListener('abort', abort) };
}

/** Waits for a promise, or rejects with the reason of the signal. The promise goes on. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | null | undefined): Promise<T> {
  if (!signal) return promise;
  let abort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
  });
  try {
    return await Promise.race([aborted, promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
