import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { EngineInfo } from './builds.js';
import type { Round, Summary } from './edge.js';
import { session } from './fixtures.js';
import { emptySummary } from './generation.js';
import { Outrider } from './index.js';
import type { FromWorker, ToWorker } from './messages.js';

const engine: EngineInfo = { build: 'relaxed', threads: 1, failed: [] };
const model = {
  vocabSize: 4096,
  contextLength: 512,
  weightBytes: 1,
  memoryBytes: 2,
  heads: { gate: false, stop: false },
};
const round = (...texts: string[]): Round => ({
  tokens: texts.map((text, id) => ({ id, text, origin: 'accepted' })),
  statistics: { ...emptySummary, tokens: texts.length },
  round: null,
});
const done: Summary = { ...emptySummary, text: 'ab', finish: 'length' };

/** Stands in for the worker; a test answers by hand. */
class FakeWorker extends EventTarget {
  static all: FakeWorker[] = [];
  static loads = true;
  sent: ToWorker[] = [];
  terminated = false;

  constructor() {
    super();
    FakeWorker.all.push(this);
  }

  static get last(): FakeWorker {
    const last = FakeWorker.all.at(-1);
    if (!last) throw new Error('no worker was started');
    return last;
  }

  postMessage(message: ToWorker): void {
    this.sent.push(message);
    if (message.type === 'load' && FakeWorker.loads) {
      queueMicrotask(() => this.say({ type: 'loaded', engine, model, session }));
    }
  }

  say(data: FromWorker): void {
    this.dispatchEvent(new MessageEvent('message', { data }));
  }

  terminate(): void {
    this.terminated = true;
  }
}

const sentTypes = (worker: FakeWorker) => worker.sent.map(({ type }) => type);
const reachesWorker = () => vi.waitFor(() => expect(FakeWorker.last.sent.at(-1)?.type).toBe('generate'));

beforeEach(() => {
  FakeWorker.all = [];
  FakeWorker.loads = true;
  vi.stubGlobal('Worker', FakeWorker);
  vi.stubGlobal('location', new URL('https://example.org/page/'));
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test('addresses follow the server, and each can be given', async () => {
  await Outrider.load();
  expect(FakeWorker.last.sent[0]).toMatchObject({
    sources: {
      draft: 'https://example.org/pair/draft',
      tokenizer: 'https://example.org/pair/tokenizer.json',
      heads: 'https://example.org/pair/heads.safetensors',
      chat: 'https://example.org/pair/chat.json',
      session: 'wss://example.org/session',
    },
  });
  await Outrider.load({ server: 'http://host:8787/base', draft: 'small.gguf' });
  expect(FakeWorker.last.sent[0]).toMatchObject({
    sources: {
      draft: 'https://example.org/page/small.gguf',
      tokenizer: 'http://host:8787/base/pair/tokenizer.json',
      // They were trained for the server's draft, not for this one.
      heads: null,
      chat: 'http://host:8787/base/pair/chat.json',
      session: 'ws://host:8787/base/session',
    },
  });
});

test('a token reaches the worker, if it can be one', async () => {
  await Outrider.load({ token: '0123-abc_D' });
  expect(FakeWorker.last.sent[0]).toMatchObject({ sources: { token: '0123-abc_D' } });
  await Outrider.load();
  expect(FakeWorker.last.sent[0]).not.toHaveProperty('sources.token');
  await expect(Outrider.load({ token: 'two words' })).rejects.toMatchObject({ code: 'invalid-option' });
});

test('tokens stream in order and the summary is both promised and returned', async () => {
  const outrider = await Outrider.load();
  const generation = outrider.generate('p');
  await reachesWorker();
  FakeWorker.last.say({ type: 'round', id: 1, round: round('a', 'b') });
  expect(generation.statistics?.tokens).toBe(2);
  FakeWorker.last.say({ type: 'done', id: 1, summary: done });
  const texts: string[] = [];
  for await (const token of generation) texts.push(token.text);
  expect(texts).toEqual(['a', 'b']);
  expect(await generation.summary).toBe(done);
  const rounds = generation.rounds();
  await rounds.next();
  expect(await rounds.next()).toEqual({ done: true, value: done });
});

test('options are checked at once, against what this server can do', async () => {
  const outrider = await Outrider.load();
  expect(() => outrider.generate('p', { draftLength: 9 })).toThrow('draftLength must be at most 8');
  expect(() => outrider.generate('p', { maxInFlight: 5 })).toThrow('maxInFlight must be at most 4');
  expect(() => outrider.generate('p', { seed: 1.5 })).toThrow('seed must be a whole number');
  outrider.generate('p');
  expect(() => outrider.generate('p')).toThrow(expect.objectContaining({ code: 'busy' }));
});

test('leaving the loop stops the generation', async () => {
  const outrider = await Outrider.load();
  const generation = outrider.generate('p');
  await reachesWorker();
  FakeWorker.last.say({ type: 'round', id: 1, round: round('a') });
  for await (const _ of generation) break;
  expect(FakeWorker.last.sent.at(-1)).toEqual({ type: 'stop', id: 1 });
});

test('a signal stops; one that was aborted before never reaches the worker', async () => {
  const outrider = await Outrider.load();
  const early = outrider.generate('p', { signal: AbortSignal.abort() });
  expect(await early.summary).toMatchObject({ finish: 'cancelled', tokens: 0 });
  const controller = new AbortController();
  outrider.generate('p', { signal: controller.signal });
  await reachesWorker();
  controller.abort();
  expect(sentTypes(FakeWorker.last)).toEqual(['load', 'generate', 'stop']);
});

test('a lost server rejects with its code, and the next generation can run', async () => {
  const outrider = await Outrider.load();
  const generation = outrider.generate('p');
  await reachesWorker();
  FakeWorker.last.say({ type: 'failed', id: 1, error: { code: 'connection-lost', message: 'gone' } });
  await expect(generation.summary).rejects.toMatchObject({ name: 'OutriderError', code: 'connection-lost' });
  await expect(generation[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'connection-lost' });
  outrider.generate('p');
});

test('after a crash the next generation starts and loads a new worker, with the link as it was', async () => {
  const outrider = await Outrider.load();
  outrider.setLink({ roundTripMs: 300 });
  const generation = outrider.generate('p');
  FakeWorker.last.dispatchEvent(new Event('error'));
  await expect(generation.summary).rejects.toMatchObject({ code: 'worker-crashed' });
  expect(FakeWorker.last.terminated).toBe(true);

  outrider.generate('again');
  await reachesWorker();
  expect(FakeWorker.all).toHaveLength(2);
  expect(FakeWorker.last.sent[0]).toMatchObject({ type: 'load', link: { roundTripMs: 300 } });
});

test('a worker that does not stop is given up', async () => {
  const outrider = await Outrider.load();
  const generation = outrider.generate('p');
  await reachesWorker();
  vi.useFakeTimers();
  generation.stop();
  vi.advanceTimersByTime(10_001);
  await expect(generation.summary).rejects.toMatchObject({ code: 'worker-unresponsive' });
  expect(FakeWorker.last.terminated).toBe(true);
});

test('loading can be given up, with the reason of the signal', async () => {
  FakeWorker.loads = false;
  const controller = new AbortController();
  const loading = Outrider.load({ signal: controller.signal });
  controller.abort(new Error('changed my mind'));
  await expect(loading).rejects.toThrow('changed my mind');
  expect(FakeWorker.last.terminated).toBe(true);
});

test('a failed load has the code of its cause', async () => {
  FakeWorker.loads = false;
  const loading = Outrider.load();
  FakeWorker.last.say({ type: 'load-failed', error: { code: 'corrupt-model', message: 'bad magic' } });
  await expect(loading).rejects.toMatchObject({ code: 'corrupt-model', message: 'bad magic' });
});

test('a link that cannot be is refused and changes nothing', async () => {
  const outrider = await Outrider.load();
  expect(() => outrider.setLink({ uplinkBitsPerSecond: 0 })).toThrow('uplinkBitsPerSecond must be above 0');
  expect(sentTypes(FakeWorker.last)).toEqual(['load']);
});

test('a closed instance fails what runs and refuses what comes', async () => {
  const outrider = await Outrider.load();
  const generation = outrider.generate('p');
  outrider.close();
  await expect(generation.summary).rejects.toMatchObject({ code: 'closed' });
  expect(() => outrider.generate('p')).toThrow(expect.objectContaining({ code: 'closed' }));
  expect(FakeWorker.last.sent.at(-1)).toEqual({ type: 'close' });
});

test('the engine that was asked for is passed on, the one that runs is told, nonsense is refused', async () => {
  const outrider = await Outrider.load({ server: 'http://server', build: 'relaxed', threads: 3 });
  expect(FakeWorker.last.sent[0]).toMatchObject({ engine: { build: 'relaxed', threads: 3 } });
  expect(outrider.engine).toEqual(engine);
  await Outrider.load({ server: 'http://server' });
  expect(FakeWorker.last.sent[0]).toMatchObject({ engine: { build: 'auto', threads: null } });
  for (const options of [
    { threads: 0 },
    { threads: 1.5 },
    { threads: Number.NaN },
    { build: 'fast' as 'auto' },
  ]) {
    await expect(Outrider.load({ server: 'http://server', ...options })).rejects.toMatchObject({
      code: 'invalid-option',
    });
  }
});

test('a generation can be suspended, and resumed by another page', async () => {
  const claim = { session: '01', secret: '02', attempts: 0, generation: 1 };
  const events: string[] = [];
  const outrider = await Outrider.load({ onConnection: ({ state }) => events.push(state) });
  const generation = outrider.generate('p');
  await reachesWorker();
  expect(generation.suspend()).toBeNull();
  const worker = FakeWorker.last;
  worker.say({ type: 'line', id: 1, event: { state: 'begun', claim } });
  worker.say({ type: 'round', id: 1, round: round('a', 'b') });
  worker.say({ type: 'line', id: 1, event: { state: 'reconnecting', attempt: 1, delayMs: 0 } });
  const later = { ...claim, attempts: 1 };
  worker.say({ type: 'line', id: 1, event: { state: 'resumed', anew: false, claim: later } });
  expect(events).toEqual(['reconnecting', 'resumed']);
  const state = generation.suspend();
  expect(state).toMatchObject({ claim: later, request: { prompt: 'p' }, tokens: [{ id: 0 }, { id: 1 }] });
  worker.say({ type: 'done', id: 1, summary: done });
  await generation.summary;
  expect(generation.suspend()).toBeNull();

  if (!state) throw new Error('there is a state');
  const next = await Outrider.load({ resume: state, reconnectAttempts: 2 });
  expect(FakeWorker.last.sent[0]).toMatchObject({ type: 'load', claim: later });
  const resumed = next.resume(state);
  await reachesWorker();
  expect(FakeWorker.last.sent.at(-1)).toMatchObject({
    request: state.request,
    continuation: { attempts: 2, committed: [0, 1] },
  });
  FakeWorker.last.say({ type: 'round', id: 1, round: round('c') });
  FakeWorker.last.say({ type: 'done', id: 1, summary: { ...done, text: 'abc' } });
  const texts: string[] = [];
  for await (const token of resumed) texts.push(token.text);
  expect(texts).toEqual(['a', 'b', 'c']);
});
