// The dedicated worker. Everything it does is in `host.ts`; here it is tied to the worker's global scope.

import init, * as engine from '../wasm/outrider_edge.js';
import { download, downloadInto, downloadOptional } from './download.js';
import type { Engine } from './edge.js';
import { describe, OutriderError } from './errors.js';
import { EdgeHost } from './host.js';
import type { FromWorker, ToWorker } from './messages.js';

/** What is used of DedicatedWorkerGlobalScope; its full types exclude the page's. */
interface WorkerScope {
  postMessage(message: FromWorker): void;
  close(): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<ToWorker>) => void): void;
  addEventListener(type: 'unhandledrejection', listener: (event: PromiseRejectionEvent) => void): void;
}
const scope = globalThis as unknown as WorkerScope;

async function loadEngine(): Promise<Engine> {
  try {
    await init();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new OutriderError('wasm-failed', message, { cause: error });
  }
  // The generated types say `any` for the objects; ours say what they are.
  return engine as unknown as Engine;
}

const host = new EdgeHost({
  post: (message) => scope.postMessage(message),
  exit: () => scope.close(),
  loadEngine,
  download,
  downloadInto,
  downloadOptional,
});

scope.addEventListener('message', (event) => host.receive(event.data));
// Unlike an uncaught error, an unhandled rejection does not reach the page by itself.
scope.addEventListener('unhandledrejection', (event) => {
  const { message } = describe(event.reason);
  scope.postMessage({ type: 'crashed', error: { code: 'worker-crashed', message } });
});
