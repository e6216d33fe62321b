import { expect, test, vi } from 'vitest';
import { builds } from './builds.js';
import type { Abilities, Build } from './builds.js';
import { runThread, startEngine } from './engine.js';
import type { EngineModule, EngineParts, FromThread, ThreadStart } from './engine.js';

const all: Abilities = { simd128: true, relaxedSimd: true, threads: true };
const memory = {} as WebAssembly.Memory;
const module = {} as WebAssembly.Module;

function glueOf(broken: readonly Build[] = []) {
  return (build: Build): Promise<EngineModule> => {
    const init = broken.includes(build)
      ? () => Promise.reject(new RangeError('could not allocate memory'))
      : () => Promise.resolve({ memory });
    return Promise.resolve({ default: init, Edge: build, work() {}, give_up() {} } as unknown as EngineModule);
  };
}

/** Threads that answer `answer`, or nothing. */
function parts(changes: Partial<EngineParts> & { broken?: Build[]; answer?: FromThread | null } = {}) {
  const { broken = [], answer = { type: 'thread-ready' } } = changes;
  const threads: { sent: ThreadStart[]; ended: boolean }[] = [];
  const startThread = (): Worker => {
    const thread = {
      sent: [] as ThreadStart[],
      ended: false,
      onmessage: (_: MessageEvent) => {},
      postMessage(message: ThreadStart) {
        thread.sent.push(message);
        if (answer) queueMicrotask(() => thread.onmessage(new MessageEvent('message', { data: answer })));
      },
      terminate() {
        thread.ended = true;
      },
    };
    threads.push(thread);
    return thread as unknown as Worker;
  };
  const compile = (): Promise<WebAssembly.Module> => Promise.resolve(module);
  const made = { abilities: all, processors: 4, built: builds, glue: glueOf(broken), compile, startThread };
  return { threads, parts: { ...made, ...changes } };
}

test('the fastest build starts, with a worker for every thread but its own', async () => {
  const { parts: around, threads } = parts();
  const engine = await startEngine({ build: 'auto', threads: 3 }, around);
  expect(engine.info).toEqual({ build: 'relaxed-threads', threads: 3, failed: [] });
  expect(threads.map(({ sent }) => sent)).toEqual(
    Array(2).fill([{ type: 'thread', build: 'relaxed-threads', module, memory }]),
  );
  engine.end();
  expect(threads.every(({ ended }) => ended)).toBe(true);
});

test('builds without threads have one, whatever was asked for', async () => {
  const { parts: around, threads } = parts();
  const { info } = await startEngine({ build: 'simd128', threads: 4 }, around);
  expect(info).toEqual({ build: 'simd128', threads: 1, failed: [] });
  expect(threads).toEqual([]);
});

test('a build that does not start gives way to the next, and is told', async () => {
  const { parts: around } = parts({ broken: ['relaxed-threads', 'simd128-threads'] });
  const { info } = await startEngine({ build: 'auto', threads: null }, around);
  expect(info.build).toBe('relaxed');
  expect(info.failed).toEqual([
    { build: 'relaxed-threads', message: 'could not allocate memory' },
    { build: 'simd128-threads', message: 'could not allocate memory' },
  ]);
});

test('threads that fail are ended, and a build without them runs', async () => {
  const { parts: around, threads } = parts({ answer: { type: 'thread-failed', message: 'no luck' } });
  const { info } = await startEngine({ build: 'auto', threads: 2 }, around);
  expect(info.build).toBe('relaxed');
  expect(info.failed.map(({ message }) => message)).toEqual(['no luck', 'no luck']);
  expect(threads.map(({ ended }) => ended)).toEqual([true, true]);
});

test('threads that say nothing are not waited for beyond a limit', async () => {
  vi.useFakeTimers();
  try {
    const { parts: around, threads } = parts({ answer: null });
    const starting = startEngine({ build: 'auto', threads: 2 }, around);
    await vi.advanceTimersByTimeAsync(25_000);
    expect((await starting).info.build).toBe('relaxed');
    expect(threads.every(({ ended }) => ended)).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});

test('what was asked for and cannot be is an error that says why', async () => {
  const start = (build: Build | 'auto', changes: Parameters<typeof parts>[0]) =>
    startEngine({ build, threads: 2 }, parts(changes).parts);
  const failure = (message: RegExp) => ({ code: 'wasm-failed', message: expect.stringMatching(message) });
  await expect(start('relaxed-threads', { abilities: { ...all, threads: false } })).rejects.toMatchObject(
    failure(/relaxed-threads: this page may not share memory/),
  );
  await expect(start('simd128', { broken: ['simd128'] })).rejects.toMatchObject(failure(/could not allocate/));
  await expect(start('auto', { built: [] })).rejects.toMatchObject(failure(/not part of/));
  await expect(start('auto', { abilities: { ...all, simd128: false } })).rejects.toMatchObject(
    failure(/this browser has no WebAssembly SIMD/),
  );
  await expect(start('auto', { broken: [...builds] })).rejects.toMatchObject(failure(/relaxed.*simd128:/));
});

test('a thread joins with the given memory, and a trap in it is told to the engine', async () => {
  const start: ThreadStart = { type: 'thread', build: 'simd128-threads', module, memory };
  const init = vi.fn(() => Promise.resolve({ memory }));
  const give_up = vi.fn();
  const work = (): never => {
    throw new Error('unreachable');
  };
  const said: FromThread[] = [];
  const engine = { default: init, give_up, work } as unknown as EngineModule;
  await expect(
    runThread(
      start,
      () => Promise.resolve(engine),
      (message) => said.push(message),
    ),
  ).rejects.toThrow('unreachable');
  expect(init).toHaveBeenCalledWith({ module_or_path: module, memory });
  expect(said).toEqual([{ type: 'thread-ready' }]);
  expect(give_up).toHaveBeenCalledOnce();

  said.length = 0;
  await runThread(
    start,
    () => Promise.reject(new Error('not found')),
    (message) => said.push(message),
  );
  expect(said).toEqual([{ type: 'thread-failed', message: 'not found' }]);
});
