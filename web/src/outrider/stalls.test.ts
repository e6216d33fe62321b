// Downloads on which nothing arrives any more.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { builds, simd128Module } from './builds.js';
import { download } from './download.js';
import { startEngine } from './engine.js';
import type { EngineParts } from './engine.js';
import { compileModule } from './module.js';

const file = new TextEncoder().encode('the whole file');

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The answer of one request: the bytes that come before it stalls; null without any answer. */
type Answer = Uint8Array | null;

/** Answers requests in turn; the last answer again and again. What is whole ends, the rest stalls. */
function server(whole: Uint8Array, answers: Answer[], headers: Record<string, string> = { etag: '"1"' }) {
  const asked: { range: string | null; signal: AbortSignal | null | undefined }[] = [];
  const request = (_: unknown, { headers: sent, signal }: RequestInit = {}): Promise<Response> => {
    const answer = answers[Math.min(asked.length, answers.length - 1)] ?? null;
    const range = new Headers(sent).get('range');
    asked.push({ range, signal });
    const start = range ? Number(/bytes=(\d+)-/.exec(range)?.[1]) : 0;
    if (!answer) return new Promise(() => {});
    const body = new ReadableStream<Uint8Array>({
      start(to) {
        to.enqueue(answer.slice());
        if (start + answer.length === whole.length) to.close();
      },
    });
    const part = { ...headers, 'content-length': String(whole.length - start) };
    return Promise.resolve(new Response(body, { status: range ? 206 : 200, headers: part }));
  };
  return { asked, request: request as typeof fetch };
}

test('a stalled download goes on where it has stalled, and its connection is closed', async () => {
  const { asked, request } = server(file, [file.slice(0, 5), null, file.slice(5)]);
  const downloading = download('/f', undefined, request);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await downloading).toEqual(file);
  expect(asked.map(({ range, signal }) => [range, signal?.aborted])).toEqual([
    [null, true],
    ['bytes=5-', true],
    ['bytes=5-', false],
  ]);
});

test('a slow download is none that stalls, and one that moves on between stalls is not given up', async () => {
  let at = 0;
  const slow = new ReadableStream<Uint8Array>({
    async pull(to) {
      await new Promise((resolve) => setTimeout(resolve, 15_000));
      to.enqueue(file.slice(at, ++at));
      if (at === file.length) to.close();
    },
  });
  const answered = vi.fn(() => Promise.resolve(new Response(slow)));
  const slowly = download('/f', undefined, answered);
  await vi.advanceTimersByTimeAsync(14 * 15_000);
  expect(await slowly).toEqual(file);
  expect(answered).toHaveBeenCalledOnce();
  const bytes = Array.from(file, (byte) => Uint8Array.of(byte));
  const { asked, request } = server(file, bytes);
  const downloading = download('/f', undefined, request);
  await vi.advanceTimersByTimeAsync(14 * 21_000);
  expect(await downloading).toEqual(file);
  expect(asked).toHaveLength(14);
});

test('a download that stalls for ever is an error that says what to do', async () => {
  for (const [answer, headers] of [
    [null, {}],
    [file.slice(0, 5), {}],
    [file.slice(0, 5), { etag: 'W/"1"' }],
  ] as const) {
    const { asked, request } = server(file, [answer], headers);
    const failing = expect(download('/f', undefined, request)).rejects.toMatchObject({
      code: 'download-failed',
      message: expect.stringMatching(/^\/f could not be fetched: no byte came for 20 s; check the network/),
    });
    await vi.advanceTimersByTimeAsync(110_000);
    await failing;
    // The first bytes are progress.
    expect(asked).toHaveLength(4);
  }
});

const module = Uint8Array.from(simd128Module);
const typed = { 'content-type': 'application/wasm' };

test('a stalled module is fetched again', async () => {
  for (const headers of [typed, {}]) {
    const { asked, request } = server(module, [null, module.slice(0, 9), module], headers);
    const compiling = compileModule('https://example.com/engine.wasm', request);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await compiling).toBeInstanceOf(WebAssembly.Module);
    expect(asked.map(({ signal }) => signal?.aborted)).toEqual([true, true, false]);
  }
});

test('an engine whose module stalls for ever fails with that, and no other build is tried', async () => {
  const { asked, request } = server(module, [module.slice(0, 9)], typed);
  const parts = {
    ...{ abilities: { simd128: true, relaxedSimd: true, threads: false }, processors: 1, built: builds },
    ...{ glue: () => new Promise(() => {}), compile: (build: string) => compileModule(`/${build}.wasm`, request) },
  } as unknown as EngineParts;
  const failing = expect(startEngine({ build: 'auto', threads: 1 }, parts)).rejects.toMatchObject({
    code: 'download-failed',
    message: expect.stringMatching(/^\/relaxed.wasm: no byte came for 20 s; check the network/),
  });
  await vi.advanceTimersByTimeAsync(100_000);
  await failing;
  expect(asked).toHaveLength(4);
});
