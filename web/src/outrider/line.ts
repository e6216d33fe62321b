// The page's end of the line to its worker.

import { OutriderError } from './errors.js';
import { startWorker } from './files.js';
import type { FromWorker } from './messages.js';

/** Most time that a closing worker may take to end its session. */
const CLOSE_GRACE_MS = 1_000;

/** Starts the worker of a page. @throws {@link OutriderError} if it is of another origin, or not allowed by the page. */
export function openWorker(
  url: string | URL | undefined,
  receive: (message: FromWorker) => void,
  fail: (error: OutriderError) => void,
): Worker {
  let worker: Worker;
  try {
    worker = startWorker(url);
  } catch (cause) {
    const isRequired = String(cause).includes('TrustedScriptURL');
    const remedy = isRequired ? ': the page requires Trusted Types and has to allow `trusted-types outrider`' : '';
    throw new OutriderError('worker-crashed', `the worker could not be started${remedy}`, { cause });
  }
  worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => receive(data));
  worker.addEventListener('error', ({ message }) => {
    const unknown =
      'the worker could not be started (a Content-Security-Policy needs worker-src blob:, or else workerUrl)';
    fail(new OutriderError('worker-crashed', message || unknown));
  });
  return worker;
}

/** Resolves once a worker that is to close has ended, or was terminated because it was busy. */
export function ended(worker: Worker): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      worker.terminate();
      resolve();
    };
    const timer = setTimeout(end, CLOSE_GRACE_MS);
    worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
      if (data.type === 'closed') end();
    });
    worker.addEventListener('error', end);
  });
}
