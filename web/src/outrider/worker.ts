// The dedicated worker. Everything it does is in `host.ts`; here it is tied to the worker's global scope.
//
// An engine with threads starts this same file again for each of them: a worker that is told so by its first message
// is a thread.

import { builds, probe } from './builds.js';
import type { Build } from './builds.js';
import { download, downloadInto, downloadOptional } from './download.js';
import { runThread, startEngine } from './engine.js';
import type { EngineModule, FromThread, RunningEngine, ThreadStart } from './engine.js';
import { describe } from './errors.js';
import { EdgeHost } from './host.js';
import { confirmingFetch, keepingFetch, keepBytes, keptBytes } from './kept-answers.js';
import { compileModule } from './module.js';
import { fetchWith } from './requests.js';
import { keptFile } from './store.js';
import type { FromWorker, ToWorker } from './messages.js';
import { trusted } from './trusted.js';

/** The used parts of DedicatedWorkerGlobalScope, whose full types exclude the page's. */
interface WorkerScope {
  postMessage(message: FromWorker | FromThread): void;
  close(): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<ToWorker | ThreadStart>) => void): void;
  addEventListener(type: 'unhandledrejection', listener: (event: PromiseRejectionEvent) => void): void;
}
const scope = globalThis as unknown as WorkerScope;

// What has been built: xtask leaves the builds with threads out where it cannot make them. All are small, and in this
// file, so that it is the only one.
const glues = import.meta.glob<EngineModule>('../wasm/*/outrider_edge.js', { eager: true });

function glue(build: Build): Promise<EngineModule> {
  const found = glues[`../wasm/${build}/outrider_edge.js`];
  return found ? Promise.resolve(found) : Promise.reject(new Error('it is not part of this package'));
}

/** Replacement of `fetch` for small files and for the draft model. */
let [kept, confirmed] = [(request: typeof fetch) => request, (request: typeof fetch) => request];
let engine: RunningEngine | null = null;
const host = new EdgeHost({
  post: (message) => scope.postMessage(message),
  hasWebGpu: 'gpu' in navigator,
  exit: () => {
    engine?.end();
    scope.close();
  },
  loadEngine: async (request) => {
    engine = await startEngine(request, {
      abilities: probe(),
      processors: navigator.hardwareConcurrency,
      built: builds.filter((build) => `../wasm/${build}/outrider_edge.js` in glues),
      glue,
      compile: (build) =>
        compileModule(request.addresses[build], fetch, (loadedBytes, totalBytes) => {
          scope.postMessage({ type: 'progress', progress: { stage: 'engine', build, loadedBytes, totalBytes } });
        }),
      // This same source again, wherever it came from.
      startThread: () => new Worker(trusted(location.href), { type: 'module', name: 'outrider-thread' }),
    });
    return engine;
  },
  download: (url, headers) => download(url, undefined, kept(fetchWith(headers))),
  downloadInto: async (url, sink, onProgress, headers) => {
    const file = await keptFile(url, (error) => {
      scope.postMessage({ type: 'cache-full', error: describe(error) });
    });
    try {
      await downloadInto(url, sink, onProgress, confirmed(fetchWith(headers)), file);
      // What is not sealed is not checked; that is no reason against the download.
      await file?.seal().catch(() => {});
    } finally {
      file?.close();
    }
  },
  downloadOptional: (url, headers) => downloadOptional(url, kept(fetchWith(headers))),
  keepBytes,
  keptBytes,
  allowOffline: () => void ([kept, confirmed] = [keepingFetch, confirmingFetch]),
});

let isThread = false;
scope.addEventListener('message', ({ data }) => {
  if (data.type !== 'thread') return host.receive(data);
  isThread = true;
  void runThread(data, glue, (message) => scope.postMessage(message));
});
// Unlike an uncaught error, an unhandled rejection does not reach the page by itself.
scope.addEventListener('unhandledrejection', (event) => {
  if (isThread) return;
  const { message } = describe(event.reason);
  scope.postMessage({ type: 'crashed', error: { code: 'worker-crashed', message } });
});
