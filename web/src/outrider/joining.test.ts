// A draft model that joins a text which the server has begun alone.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { session } from './fixtures.js';
import { emptySummary } from './generation.js';
import { Outrider } from './index.js';
import type { LoadOptions } from './index.js';
import type { FromWorker } from './messages.js';
import { engine, info, model, SlowWorker } from './worker-fixtures.js';

/** Writes to the stream of the server's answer. */
let write: (data: unknown) => void;
let isCancelled: boolean;

beforeEach(() => {
  isCancelled = false;
  write = undefined as never;
  vi.stubGlobal('Worker', SlowWorker);
  vi.stubGlobal('location', new URL('https://example.org/page/'));
  vi.stubGlobal('fetch', async (url: URL, { signal }: RequestInit = {}) => {
    if (url.pathname === '/v1/info') return Response.json(info);
    const stream = new ReadableStream<Uint8Array>({
      start(to) {
        write = (data) => to.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(data)}\n\n`));
        signal?.addEventListener('abort', () => {
          isCancelled = true;
          to.error(new DOMException('', 'AbortError'));
        });
      },
    });
    return new Response(stream);
  });
});
afterEach(() => vi.unstubAllGlobals());

const load = (options: LoadOptions = {}) => Outrider.load(options);
const say = (message: FromWorker) => SlowWorker.last.say(message);
const loaded = () => say({ type: 'loaded', engine, model, session, offline: false, reasons: false });
const chunk = (text: string, ...token_ids: number[]) => ({ choices: [{ text, finish_reason: null, token_ids }] });
const begun = () => vi.waitFor(() => expect(write).toBeTypeOf('function'));

test('the server writes at once, and the draft model goes on where it is', async () => {
  const engines: string[] = [];
  const outrider = await load({ onEngine: ({ build }) => engines.push(build) });
  expect([outrider.mode, engines.length]).toEqual(['server', 0]);
  const generation = outrider.generate('p', { seed: 7 });
  const seen: string[] = [];
  const reading = (async () => {
    for await (const { id, text } of generation) seen.push(`${id}${text}`);
  })();
  await begun();
  write(chunk('a', 1));
  // The second token has no text of its own.
  write(chunk('b', 2, 3));
  await vi.waitFor(() => expect(seen).toEqual(['1a', '2', '3b']));
  loaded();
  expect(await outrider.ready).toBe('draft');
  expect([outrider.mode, ...engines]).toEqual(['draft', 'relaxed']);
  await vi.waitFor(() => expect(SlowWorker.last.sent.at(-1)?.type).toBe('generate'));
  expect(isCancelled).toBe(true);
  const sent = SlowWorker.last.sent.at(-1);
  expect(sent).toMatchObject({ request: { prompt: 'p', seed: 7 }, continuation: { committed: [1, 2, 3] } });
  const statistics = { ...emptySummary, tokens: 1, serverPasses: 1 };
  say({ type: 'round', id: 1, round: { tokens: [{ id: 4, text: 'c', origin: 'accepted' }], statistics, round: null } });
  say({ type: 'done', id: 1, summary: { ...statistics, text: 'abc', finish: 'length', tokenIds: [1, 2, 3, 4] } });
  await reading;
  expect(seen.at(-1)).toBe('4c');
  // The totals count from the beginning.
  expect(await generation.summary).toMatchObject({ text: 'abc', tokens: 4, serverPasses: 4, serverPassesPerToken: 1 });
});

test('reasoning that the server has begun to separate goes on with the draft model', async () => {
  const messages = [{ role: 'user', content: 'Hello' }] as const;
  for (const stream of [false, true]) {
    write = undefined as never;
    const outrider = await load();
    const create = outrider.chat.completions.create({ messages, stream, seed: 7 });
    const deltas: object[] = [];
    const reading = create.then(async (answer) => {
      if ('choices' in answer) deltas.push(answer.choices[0]!.message);
      else for await (const { choices } of answer) deltas.push(choices[0]!.delta);
    });
    await begun();
    write({ choices: [{ delta: { reasoning_content: 'so' }, finish_reason: null, token_ids: [1] }] });
    if (stream) await vi.waitFor(() => expect(deltas).toHaveLength(2));
    else await new Promise((resolve) => setTimeout(resolve, 20));
    say({ type: 'loaded', engine, model, session, offline: false, reasons: true });
    const { sent } = SlowWorker.last;
    await vi.waitFor(() => expect(sent.map(({ type }) => type).sort()).toEqual(['ask', 'generate', 'load']));
    expect(sent.find(({ type }) => type === 'ask')).toMatchObject({ question: { about: 'tail', prompt: messages } });
    expect(sent.find(({ type }) => type === 'generate')).toMatchObject({ continuation: { committed: [1] } });
    say({ type: 'answer', id: 1, answer: '<think>\n' });
    const tokens = ['\n', '</think>', 'Yes'].map((text) => ({ id: 2, text, origin: 'accepted' as const }));
    say({ type: 'round', id: 1, round: { tokens, statistics: emptySummary, round: null } });
    say({ type: 'done', id: 1, summary: { ...emptySummary, text: 'so\n</think>Yes', finish: 'eos' } });
    await reading;
    const whole = { role: 'assistant', content: 'Yes', refusal: null, reasoning_content: 'so' };
    const parts = [{ role: 'assistant', content: '' }, { reasoning_content: 'so' }, { content: 'Yes' }, {}];
    expect(deltas).toEqual(stream ? parts : [whole]);
  }
});

test('a text that needs the draft model waits for it', async () => {
  const outrider = await load();
  const generation = outrider.generate('p', { scheme: 'k-sqs' });
  loaded();
  await vi.waitFor(() => expect(SlowWorker.last.sent.at(-1)?.type).toBe('generate'));
  expect(SlowWorker.last.sent.at(-1)).toMatchObject({ continuation: { committed: [] } });
  say({ type: 'done', id: 1, summary: { ...emptySummary, text: 'x', finish: 'length' } });
  expect((await generation.summary).text).toBe('x');
});

test('stopped while the server writes alone, it ends there and is not joined', async () => {
  const outrider = await load();
  const generation = outrider.generate('p');
  await begun();
  write(chunk('a', 1));
  await vi.waitFor(() => expect(generation.statistics?.tokens).toBe(1));
  generation.stop();
  loaded();
  expect(await generation.summary).toMatchObject({ text: 'a', finish: 'cancelled' });
  expect(SlowWorker.last.sent.map(({ type }) => type)).not.toContain('generate');
});

test('where the draft model cannot be loaded the text goes on alone, or later ones fail', async () => {
  const error = { code: 'wasm-failed', message: 'no SIMD' } as const;
  const reasons: string[] = [];
  const outrider = await load({ onFallback: ({ code }) => reasons.push(code) });
  const generation = outrider.generate('p');
  await begun();
  say({ type: 'load-failed', error });
  expect(await outrider.ready).toBe('server');
  write(chunk('a', 1));
  await vi.waitFor(() => expect(generation.statistics?.tokens).toBe(1));
  expect(reasons).toEqual(['wasm-failed']);
  generation.stop();
  const strict = await load({ fallback: 'none', wait: 'server' });
  say({ type: 'load-failed', error });
  await strict.ready;
  await expect(strict.generate('p').summary).rejects.toMatchObject({ code: 'wasm-failed' });
  // Where the server is not to write alone, loading waits for the draft model.
  const last = SlowWorker.last;
  const waiting = load({ fallback: 'none' });
  await vi.waitFor(() => expect(SlowWorker.last).not.toBe(last));
  say({ type: 'load-failed', error });
  await expect(waiting).rejects.toMatchObject({ code: 'wasm-failed' });
});

test('without a server the draft model is loaded alone where that is wanted, until the server answers', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('failed to fetch')));
  const loading = load({ offline: true });
  await vi.waitFor(() => expect(SlowWorker.last?.sent[0]).toMatchObject({ type: 'load', offline: true }));
  say({ type: 'loaded', engine, model, session, offline: true, reasons: false });
  const outrider = await loading;
  expect([outrider.mode, outrider.offline]).toEqual(['draft', true]);
  const generation = outrider.generate('p');
  await vi.waitFor(() => expect(SlowWorker.last.sent.at(-1)?.type).toBe('generate'));
  say({ type: 'line', id: 1, event: { state: 'reconnecting', attempt: 1, delayMs: 0 } });
  expect(outrider.offline).toBe(true);
  say({ type: 'line', id: 1, event: { state: 'resumed', anew: true, claim: null } });
  expect(outrider.offline).toBe(false);
  say({ type: 'done', id: 1, summary: emptySummary });
  await generation.summary;
  say({ type: 'reconnected', session, offline: true });
  expect(outrider.offline).toBe(true);
});

test('without a server nothing is loaded', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('failed to fetch')));
  await expect(load()).rejects.toMatchObject({ code: 'connection-failed' });
  await expect(load({ wait: 'page' as never })).rejects.toMatchObject({ code: 'invalid-option' });
});

test('a text that has ended when the draft model joins is not continued', async () => {
  const outrider = await load();
  const generation = outrider.generate('p');
  await begun();
  write(chunk('a', 1));
  // The end of a text has an id of its own, which nothing may follow.
  write({ choices: [{ text: '', finish_reason: 'stop', token_ids: [2] }] });
  await vi.waitFor(() => expect(generation.statistics?.tokens).toBe(1));
  await new Promise((resolve) => setTimeout(resolve, 20));
  loaded();
  expect(await generation.summary).toMatchObject({ text: 'a', finish: 'eos' });
  expect(SlowWorker.last.sent.map(({ type }) => type)).not.toContain('generate');
});

const failed = (code: string) => say({ type: 'load-failed', error: { code, message: code } });
const silent: LoadOptions = { onFallback: () => {} };

test('an answer that is not a server’s is no server', async () => {
  for (const body of ['<!doctype html>', '{}', '{"vocabSize":9,"limits":{}}', '[]', 'null']) {
    vi.stubGlobal('fetch', async () => new Response(body));
    await expect(load()).rejects.toMatchObject({
      code: 'connection-failed',
      message: expect.stringMatching(/no Outrider server at/),
    });
  }
});

test('a proxy without its server is no server, and one that hangs is given up', async () => {
  for (const status of [502, 503, 504]) {
    vi.stubGlobal('fetch', async () => new Response('<h1>Bad Gateway</h1>', { status }));
    const loading = load({ offline: true });
    await vi.waitFor(() => expect(SlowWorker.last.sent[0]).toMatchObject({ type: 'load', offline: true }));
    loaded();
    await loading;
    SlowWorker.last.sent = [];
  }
  vi.stubGlobal('fetch', () => new Promise(() => {}));
  await expect(load({ connectTimeoutMs: 20 })).rejects.toMatchObject({ code: 'connection-failed' });
  // The reason of a signal is not taken for an absent server.
  const reason = new Error('enough');
  const abort = new AbortController();
  vi.stubGlobal(
    'fetch',
    (_: URL, { signal }: RequestInit) =>
      new Promise((__, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error))),
  );
  const loading = load({ offline: true, signal: abort.signal });
  abort.abort(reason);
  await expect(loading).rejects.toBe(reason);
});

test('a text whose connection is lost goes on with the draft model, and fails where none comes', async () => {
  for (const comes of [true, false]) {
    write = undefined as never;
    const outrider = await load(silent);
    const generation = outrider.generate('p', { seed: 7 });
    await begun();
    write(chunk('a', 1));
    await vi.waitFor(() => expect(generation.statistics?.tokens).toBe(1));
    outrider.setLink({ isCut: true });
    await vi.waitFor(() => expect(isCancelled).toBe(true));
    if (comes) {
      loaded();
      await vi.waitFor(() => expect(SlowWorker.last.sent.at(-1)).toMatchObject({ continuation: { committed: [1] } }));
      say({ type: 'done', id: 1, summary: { ...emptySummary } });
      // The worker knew nothing of the text yet.
      expect(await generation.summary).toMatchObject({ text: 'a', tokenIds: [1], finish: 'cancelled' });
    } else {
      failed('out-of-memory');
      await expect(generation.summary).rejects.toMatchObject({ code: 'connection-lost' });
      // While the link is cut nothing is asked for.
      write = undefined as never;
      await expect(outrider.generate('p').summary).rejects.toMatchObject({ code: 'connection-lost' });
      expect(write).toBeUndefined();
    }
  }
});

test('a failure that passes is tried again with the next text, others are not', async () => {
  for (const [code, again] of [
    ['server-full', true],
    ['download-failed', true],
    ['corrupt-model', false],
  ] as const) {
    const outrider = await load(silent);
    const first = SlowWorker.last;
    failed(code);
    expect(await outrider.ready).toBe('server');
    outrider.generate('p');
    await new Promise((resolve) => setTimeout(resolve));
    expect(SlowWorker.last !== first).toBe(again);
    if (!again) continue;
    loaded();
    expect(await outrider.ready).toBe('draft');
  }
});

test('options for trained heads wait for the draft model, which the page is not told to have them', async () => {
  const outrider = await load(silent);
  expect(outrider.model.heads).toEqual({ gate: false, stop: false });
  outrider.generate('p', { gate: 'sprinter' });
  failed('corrupt-model');
  await outrider.ready;
  expect(() => outrider.generate('p', { gate: 'sprinter' })).toThrow('needs a trained gate');
});

test('what the server alone would refuse or write otherwise waits for the draft model', async () => {
  const outrider = await load(silent);
  const long = 'é'.repeat(200);
  const options = [
    { temperature: 3 },
    { stop: ['1', '2', '3', '4', '5'] },
    { stop: long },
    { maxInFlight: 2 },
  ] as const;
  for (const option of options) outrider.generate('p', option);
  outrider.generate('p', { adaptiveMode: true });
  await new Promise((resolve) => setTimeout(resolve));
  expect(write).toBeUndefined();
  outrider.generate('p', { temperature: 2, stop: ['1', '2', '3', '4'] });
  await begun();
});

test('what begins as the instance is closed, or its worker is lost, ends or gets another worker', async () => {
  const outrider = await load(silent);
  loaded();
  await outrider.ready;
  const last = SlowWorker.last;
  const [ids, generation] = [outrider.tokenize('a'), outrider.generate('p')];
  say({ type: 'crashed', error: { code: 'worker-crashed', message: 'trap' } });
  expect(SlowWorker.last).toBe(last);
  await vi.waitFor(() => expect(SlowWorker.last).not.toBe(last));
  loaded();
  await vi.waitFor(() => expect(SlowWorker.last.sent.map(({ type }) => type)).toEqual(['load', 'ask', 'generate']));
  say({ type: 'answer', id: 1, answer: [7] });
  say({ type: 'done', id: 1, summary: emptySummary });
  expect([await ids, (await generation.summary).finish]).toEqual([[7], 'cancelled']);
  const questions = [outrider.tokenize('a'), outrider.countTokens('a'), outrider.detokenize([1])];
  void outrider.close();
  for (const question of questions) await expect(question).rejects.toMatchObject({ code: 'closed' });
});

test('a text that was stopped while it waited is not asked for', async () => {
  const outrider = await load(silent);
  outrider.generate('p', { scheme: 'k-sqs' }).stop();
  failed('corrupt-model');
  await outrider.ready;
  await new Promise((resolve) => setTimeout(resolve));
  expect(write).toBeUndefined();
});

test('an error in a callback is the page’s, and spoils nothing', async () => {
  const reported = vi.fn();
  vi.stubGlobal('reportError', reported);
  const fail = (): never => {
    throw new Error('the page’s');
  };
  const outrider = await load({ onEngine: fail });
  const generation = outrider.generate('p');
  await begun();
  loaded();
  expect(await outrider.ready).toBe('draft');
  await vi.waitFor(() => expect(SlowWorker.last.sent.at(-1)?.type).toBe('generate'));
  expect(reported).toHaveBeenCalledOnce();
  say({ type: 'done', id: 1, summary: emptySummary });
  await generation.summary;
  const loading = load({ wait: 'draft', onEngine: fail });
  await vi.waitFor(() => expect(SlowWorker.last.sent).toHaveLength(1));
  loaded();
  await loading;
  expect(reported).toHaveBeenCalledTimes(2);
});

test('a server that hangs as it is asked what it is, is not there', async () => {
  const answer: Partial<Response> = { ok: true, json: () => new Promise(() => {}) };
  vi.stubGlobal('fetch', () => Promise.resolve(answer));
  await expect(load({ connectTimeoutMs: 20 })).rejects.toMatchObject({ code: 'connection-failed' });
});

test('four texts are written at a time, and a fifth waits until one has ended or it is stopped', async () => {
  const outrider = await load(silent);
  const fetched = vi.spyOn(globalThis, 'fetch');
  const [first, ...others] = Array.from({ length: 6 }, (_, seed) => outrider.generate('p', { seed }));
  await begun();
  const waits = async (count: number): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(fetched).toHaveBeenCalledTimes(count);
  };
  await waits(4);
  others[3]?.stop();
  expect(await others[3]?.summary).toMatchObject({ finish: 'cancelled', text: '' });
  await waits(4);
  first?.stop();
  await waits(5);
  expect(JSON.parse(String(fetched.mock.lastCall?.[1]?.body))).toMatchObject({ seed: 5 });
  fetched.mockRestore();
});
