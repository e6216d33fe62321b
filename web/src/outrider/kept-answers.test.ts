import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { confirmingFetch, forgetAnswers, keepingFetch, keepBytes, keptBytes } from './kept-answers.js';

/** The caches of an origin, as far as they are used. */
function fakeCaches() {
  const all = new Map<string, Map<string, Response>>();
  return {
    open: (name: string) => {
      const cache = all.get(name) ?? new Map<string, Response>();
      all.set(name, cache);
      return Promise.resolve({
        match: (url: string) => Promise.resolve(cache.get(url)?.clone()),
        put: async (url: string, response: Response) => void cache.set(url, response),
      });
    },
    delete: (name: string) => Promise.resolve(all.delete(name)),
  };
}

const url = 'https://example.org/pair/tokenizer.json';
const away = () => Promise.reject(new TypeError('failed to fetch'));
const answering = (body: string | null, status = 200) =>
  keepingFetch(() => Promise.resolve(new Response(body, { status })));
/** Lets what was begun without waiting end. */
const settle = () => new Promise((resolve) => setTimeout(resolve));

beforeEach(() => vi.stubGlobal('caches', fakeCaches()));
afterEach(() => vi.unstubAllGlobals());

test('an answer is kept for a time without the server, also that there is none', async () => {
  await expect(keepingFetch(away)(url)).rejects.toThrow('failed to fetch');
  expect(await (await answering('old')(url)).text()).toBe('old');
  expect(await (await answering('new')(url)).text()).toBe('new');
  await answering(null, 404)(`${url}?none`);
  await settle();
  expect(await (await keepingFetch(away)(url)).text()).toBe('new');
  expect((await keepingFetch(away)(`${url}?none`)).status).toBe(404);
  // A server that is busy says nothing of the file.
  await answering(null, 503)(url);
  await settle();
  expect(await (await keepingFetch(away)(url)).text()).toBe('new');
  await forgetAnswers();
  await expect(keepingFetch(away)(url)).rejects.toThrow('failed to fetch');
});

test('an answer of the same version is not written again', async () => {
  const versioned = (etag: string, body: string) =>
    keepingFetch(() => Promise.resolve(new Response(body, { headers: { etag } })))(url);
  for (const [etag, body, kept] of [
    ['"1"', 'first', 'first'],
    ['"1"', 'not written', 'first'],
    ['"2"', 'second', 'second'],
  ] as const) {
    expect(await (await versioned(etag, body)).text()).toBe(body);
    await settle();
    expect(await (await keepingFetch(away)(url)).text()).toBe(kept);
  }
});

test('a whole kept file is confirmed without the server, a part is not', async () => {
  const request = confirmingFetch(away);
  expect((await request(url, { headers: { 'If-None-Match': '"1"' } })).status).toBe(304);
  await expect(request(url, { headers: { Range: 'bytes=5-', 'If-Range': '"1"' } })).rejects.toThrow('failed to fetch');
  await expect(request(url)).rejects.toThrow('failed to fetch');
  const there = confirmingFetch(() => Promise.resolve(new Response('other')));
  expect(await (await there(url, { headers: { 'If-None-Match': '"1"' } })).text()).toBe('other');
});

test('a server that swallows requests is away after five seconds, if its answer is kept', async () => {
  await answering('kept')(url);
  await settle();
  vi.useFakeTimers();
  try {
    const signals: (AbortSignal | null | undefined)[] = [];
    const silent: typeof fetch = (_, init) => {
      signals.push(init?.signal);
      return new Promise(() => {});
    };
    const file = keepingFetch(silent)(url);
    const model = confirmingFetch(silent)(url, { headers: { 'If-None-Match': '"1"' } });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await (await file).text()).toBe('kept');
    expect((await model).status).toBe(304);
    expect(signals.map((signal) => signal?.aborted)).toEqual([true, true]);
  } finally {
    vi.useRealTimers();
  }
});

test('a Welcome is kept for each address, and a browser without a cache keeps nothing', async () => {
  keepBytes('wss://example.org/session', Uint8Array.of(1, 2));
  await settle();
  expect(await keptBytes('wss://example.org/session')).toEqual(Uint8Array.of(1, 2));
  expect(await keptBytes('wss://example.org/session?model=m')).toBeNull();
  vi.stubGlobal('caches', undefined);
  keepBytes('wss://example.org/session', Uint8Array.of(1));
  expect(await keptBytes('wss://example.org/session')).toBeNull();
  await forgetAnswers();
});
