// Starts the engine in the worker: picks a build, compiles it, and for a build with threads starts those.

import { candidates, hasThreads, lackOf, threadCount } from './builds.js';
import type { Abilities, Build, EngineInfo, EngineRequest } from './builds.js';
import type { Engine } from './edge.js';
import { OutriderError } from './errors.js';
import { within } from './within.js';

/** The module that wasm-bindgen generates for each build. */
export interface EngineModule extends Engine {
  default(options: {
    module_or_path: WebAssembly.Module;
    memory?: WebAssembly.Memory;
  }): Promise<{ memory: WebAssembly.Memory }>;
  /** Runs the engine's thread in the calling worker; does not return. */
  work(): never;
  /** Marks the calling worker's unfinished work as lost. */
  give_up(): void;
}

/** The message that starts a thread of an engine. */
export interface ThreadStart {
  type: 'thread';
  build: Build;
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
}

/** The one answer of a thread that starts. */
export type FromThread = { type: 'thread-ready' } | { type: 'thread-failed'; message: string };

/** The services of the surrounding worker; tests bring their own. */
export interface EngineParts {
  abilities: Abilities;
  processors: number;
  /** The builds in this package. */
  built: readonly Build[];
  glue(build: Build): Promise<EngineModule>;
  compile(build: Build): Promise<WebAssembly.Module>;
  startThread(): Worker;
}

/** A running engine without a draft model. */
export interface RunningEngine extends Engine {
  info: Omit<EngineInfo, 'engine' | 'declined'>;
  /** Ends the threads of the engine. */
  end(): void;
}

/** Most time that a thread may take to start. */
const THREAD_START_MS = 10_000;

/**
 * Starts the engine that was asked for, or the fastest that starts.
 * @throws {@link OutriderError} `wasm-failed`: none does, or what was asked for cannot run here; `download-failed`: the
 * transfer of one stalls.
 */
export async function startEngine(
  request: Pick<EngineRequest, 'build' | 'threads'>,
  parts: EngineParts,
): Promise<RunningEngine> {
  const threads = threadCount(request.threads, parts.processors);
  const { abilities, built } = parts;
  const failed: EngineInfo['failed'] = [];
  for (const build of candidates(request.build, threads, abilities, built)) {
    try {
      return await start(build, hasThreads(build) ? threads : 1, failed, parts);
    } catch (error) {
      // The other builds are at the same address.
      if (error instanceof OutriderError) throw error;
      failed.push({ build, message: error instanceof Error ? error.message : String(error) });
    }
  }
  const reasons = failed.map(({ build, message }) => `${build}: ${message}`);
  if (reasons.length === 0) {
    // The build that needs least says what even it lacks.
    const build = request.build === 'auto' ? 'simd128' : request.build;
    reasons.push(`${build}: ${lackOf(build, abilities, built)}`);
  }
  throw new OutriderError('wasm-failed', reasons.join('; '));
}

async function start(
  build: Build,
  threads: number,
  failed: EngineInfo['failed'],
  parts: EngineParts,
): Promise<RunningEngine> {
  const [glue, module] = await Promise.all([parts.glue(build), parts.compile(build)]);
  const { memory } = await glue.default({ module_or_path: module });
  const workers: Worker[] = [];
  const end = (): void => workers.forEach((worker) => worker.terminate());
  try {
    const joining = Array.from({ length: threads - 1 }, () => {
      const worker = parts.startThread();
      workers.push(worker);
      return join(worker, { type: 'thread', build, module, memory });
    });
    const late = new Error(`a thread did not start within ${THREAD_START_MS / 1000} s`);
    await within(THREAD_START_MS, Promise.all(joining), late);
  } catch (error) {
    end();
    throw error;
  }
  const { EdgeLoader, GpuHandle } = glue;
  return { EdgeLoader, GpuHandle, info: { build, threads, failed }, end };
}

/** Adds `worker` to the engine; resolves once it is ready. */
function join(worker: Worker, message: ThreadStart): Promise<void> {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<FromThread>) => {
      if (data.type === 'thread-ready') resolve();
      else reject(new Error(data.message));
    };
    worker.onerror = (event) => reject(new Error(event.message || 'a thread could not be started'));
    worker.postMessage(message);
  });
}

/** A thread's side: joins the engine and works for it until the worker is terminated. */
export async function runThread(
  start: ThreadStart,
  glue: (build: Build) => Promise<EngineModule>,
  post: (message: FromThread) => void,
): Promise<void> {
  let engine: EngineModule;
  try {
    engine = await glue(start.build);
    await engine.default({ module_or_path: start.module, memory: start.memory });
  } catch (error) {
    post({ type: 'thread-failed', message: error instanceof Error ? error.message : String(error) });
    return;
  }
  post({ type: 'thread-ready' });
  try {
    engine.work();
  } catch (error) {
    // A trap: other threads would wait for this one for ever.
    engine.give_up();
    throw error;
  }
}
