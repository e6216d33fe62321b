import { afterEach, beforeEach, expect, expectTypeOf, test, vi } from 'vitest';
import type { EngineInfo } from './builds.js';
import type { Round, Summary, Token } from './edge.js';
import { describe } from './errors.js';
import { session } from './fixtures.js';
import { emptySummary } from './generation.js';
import { Outrider } from './index.js';
import type { ChatCompletionParams, CompletionParams, GenerateOptions, LoadOptions, Message } from './index.js';
import type { RequestOptions, Tool } from './index.js';
import type { FromWorker, ToWorker } from './messages.js';

const engine: EngineInfo = { engine: 'wasm', declined: null, build: 'relaxed', threads: 1, failed: [] };
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
      queueMicrotask(() => this.say({ type: 'loaded', engine, model, session, offline: false, reasons: false }));
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
const say = (message: FromWorker) => FakeWorker.last.say(message);
const reachesWorker = () => vi.waitFor(() => expect(FakeWorker.last.sent.at(-1)?.type).toBe('generate'));

/** An instance with a generation that its worker has begun. */
async function running() {
  const outrider = await load();
  const generation = outrider.generate('p');
  await reachesWorker();
  return { outrider, generation };
}

async function textsOf(tokens: AsyncIterable<Token>): Promise<string[]> {
  const texts: string[] = [];
  for await (const { text } of tokens) texts.push(text);
  return texts;
}

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

/** Loads with the draft model; tests of the server alone are in `server-alone.test.ts`. */
const load = (options: LoadOptions = {}) => Outrider.load({ wait: 'draft', ...options });

test('addresses follow the server, and each can be given', async () => {
  await load();
  expect(FakeWorker.last.sent[0]).toMatchObject({
    sources: {
      draft: 'https://example.org/pair/draft',
      tokenizer: 'https://example.org/pair/tokenizer.json',
      heads: 'https://example.org/pair/heads.safetensors',
      chat: 'https://example.org/pair/chat.json',
      session: 'wss://example.org/session',
    },
  });
  await load({ server: 'http://host:8787/base', draft: 'small.gguf' });
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

test('settings to ignore reach the worker', async () => {
  for (const [ignoreSetting, ignoreSettings] of [
    [undefined, []],
    ['a.b', ['a.b']],
    [
      ['a', 'b'],
      ['a', 'b'],
    ],
  ] as const) {
    await load({ ignoreSetting });
    expect(FakeWorker.last.sent[0]).toMatchObject({ sources: { ignoreSettings } });
  }
  for (const ignoreSetting of ['', [''], [5], { a: true }, null]) {
    const refused = load({ ignoreSetting: ignoreSetting as never });
    await expect(refused).rejects.toMatchObject({ code: 'invalid-option' });
  }
});

test('a token reaches the worker, if it can be one', async () => {
  // The second is a JSON Web Token, the third has all characters of RFC 6750.
  for (const token of ['0123-abc_D', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln', 'a-._~+/z==']) {
    await load({ token });
    expect(FakeWorker.last.sent[0]).toMatchObject({ sources: { wantsToken: true } });
    say({ type: 'token-wanted', id: 1 });
    await vi.waitFor(() => expect(FakeWorker.last.sent.at(-1)).toEqual({ type: 'token', id: 1, token }));
  }
  await load();
  expect(FakeWorker.last.sent[0]).toMatchObject({ sources: { wantsToken: false } });
  for (const token of ['two words', '', 'ü', 5 as never]) {
    await expect(load({ token })).rejects.toMatchObject({ code: 'invalid-option' });
  }
});

test('a token is renewed for each connection, and a failure to do so has its cause', async () => {
  const tokens = ['first', 'second', Promise.reject(new Error('signed out')), 'two words'];
  for (const token of tokens) if (token instanceof Promise) token.catch(() => {});
  await load({ token: () => tokens.shift() as string | Promise<string> });
  const wanted = async (id: number): Promise<unknown> => {
    say({ type: 'token-wanted', id });
    await vi.waitFor(() => expect(FakeWorker.last.sent.at(-1)).toMatchObject({ id }));
    return FakeWorker.last.sent.at(-1);
  };
  expect(await wanted(1)).toEqual({ type: 'token', id: 1, token: 'first' });
  expect(await wanted(2)).toEqual({ type: 'token', id: 2, token: 'second' });
  const why = { code: 'unauthorized', message: 'the option token gave none: signed out' };
  expect(await wanted(3)).toMatchObject({ type: 'no-token', id: 3, error: why });
  expect(await wanted(4)).toMatchObject({ type: 'no-token', id: 4, error: { code: 'invalid-option' } });
});

test('a server is an address that can be fetched from', async () => {
  for (const server of ['ws://host:8787', 'not a url', '127.0.0.1:8787', 'example.org:80/a', 'http://', 'file:///a']) {
    await expect(load({ server }), server).rejects.toMatchObject({
      ...{ code: 'invalid-option', message: expect.stringMatching(/^server .*http/) as unknown },
    });
  }
  await expect(load({ draft: 'http://' })).rejects.toMatchObject({ code: 'invalid-option' });
  await expect(Outrider.load(null as never)).rejects.toMatchObject({ code: 'invalid-option' });
  for (const server of ['/models', './models', 'models', 'https://host', new URL('http://host/a')]) {
    await load({ server });
  }
});

test('prompts that cannot be one are refused at the call', async () => {
  const outrider = await load();
  for (const prompt of [undefined, null, 5, {}, [], [undefined], () => {}]) {
    expect(() => outrider.generate(prompt as never), String(prompt)).toThrow(/^prompt must be a text, or messages/);
  }
  expect(() => outrider.generate('a', null as never)).toThrow('options of generate() must be an object');
  const began = performance.now();
  const long = 'word '.repeat(1_000_000);
  for (const prompt of [long, [{ role: 'user' as const, content: long }]]) {
    expect(() => outrider.generate(prompt)).toThrow(/^the prompt has 5\d{6} characters, .* 512 tokens/);
  }
  expect(performance.now() - began).toBeLessThan(500);
});

test('the summary has the seed of the text, which is random unless given', async () => {
  const { generation } = await running();
  const { id, request } = FakeWorker.last.sent.at(-1) as ToWorker & { type: 'generate' };
  say({ type: 'done', id, summary: done });
  expect((await generation.summary).seed).toBe(request.seed);
});

test('options that are undefined are not given', async () => {
  expectTypeOf<{ [Name in keyof LoadOptions]: undefined }>().toExtend<LoadOptions>();
  expectTypeOf<{ [Name in keyof GenerateOptions]: undefined }>().toExtend<GenerateOptions>();
  type Chat = Omit<ChatCompletionParams, 'messages'>;
  expectTypeOf<{ [Name in keyof Chat]: undefined }>().toExtend<Chat>();
  type Text = Omit<CompletionParams, 'prompt'>;
  expectTypeOf<{ [Name in keyof Text]: undefined }>().toExtend<Text>();
  type Said = Omit<Message, 'role'>;
  expectTypeOf<{ [Name in keyof Said]: undefined }>().toExtend<Said>();
  expectTypeOf<{ [Name in keyof RequestOptions]: undefined }>().toExtend<RequestOptions>();
  type Described = Omit<Tool['function'], 'name'>;
  expectTypeOf<{ [Name in keyof Described]: undefined }>().toExtend<Described>();
  const unset = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, undefined]));
  const loading = ['server', 'draft', 'tokenizer', 'heads', 'chat', 'token', 'engine', 'build', 'threads', 'wasmUrl'];
  const outrider = await load(unset([...loading, 'workerUrl', 'link', 'signal', 'headers', 'fallback', 'resume']));
  outrider.generate(
    'p',
    unset(['temperature', 'seed', 'scheme', 'rule', 'mode', 'stop', 'tools', 'evidence', 'signal']),
  );
});

test('tokens stream in order and the summary is both promised and returned', async () => {
  const { generation } = await running();
  say({ type: 'round', id: 1, round: round('a', 'b') });
  expect(generation.statistics?.tokens).toBe(2);
  say({ type: 'done', id: 1, summary: done });
  expect(await textsOf(generation)).toEqual(['a', 'b']);
  expect(await generation.summary).toMatchObject({ ...done, seed: expect.any(Number) });
  const rounds = generation.rounds();
  await rounds.next();
  expect(await rounds.next()).toEqual({ done: true, value: { ...done, seed: expect.any(Number) as number } });
});

test('options are checked at once, against what this server can do', async () => {
  const outrider = await load();
  expect(() => outrider.generate('p', { draftLength: 9 })).toThrow('draftLength must be at most 8');
  expect(() => outrider.generate('p', { maxInFlight: 5 })).toThrow('maxInFlight must be at most 4');
  expect(() => outrider.generate('p', { seed: 1.5 })).toThrow('seed must be a whole number');
});

test('leaving the loop stops the generation', async () => {
  const { generation } = await running();
  say({ type: 'round', id: 1, round: round('a') });
  for await (const _ of generation) break;
  expect(FakeWorker.last.sent.at(-1)).toEqual({ type: 'stop', id: 1 });
});

test('a signal stops; one that was aborted before never reaches the worker', async () => {
  const outrider = await load();
  const early = outrider.generate('p', { signal: AbortSignal.abort() });
  expect(await early.summary).toMatchObject({ finish: 'cancelled', tokens: 0 });
  const controller = new AbortController();
  outrider.generate('p', { signal: controller.signal });
  await reachesWorker();
  controller.abort();
  expect(sentTypes(FakeWorker.last)).toEqual(['load', 'generate', 'stop']);
});

test('a lost server rejects with its code, and the next generation can run', async () => {
  const { outrider, generation } = await running();
  say({ type: 'failed', id: 1, error: { code: 'connection-lost', message: 'gone' } });
  await expect(generation.summary).rejects.toMatchObject({ name: 'OutriderError', code: 'connection-lost' });
  await expect(generation[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'connection-lost' });
  outrider.generate('p');
});

test('after a crash the next generation starts and loads a new worker, with the link and the texts as they were', async () => {
  const outrider = await load();
  outrider.setLink({ roundTripMs: 300 });
  outrider.context.add('a', 'one');
  outrider.context.add('b', 'two');
  expect(outrider.context.remove('a')).toBe(true);
  expect(outrider.context.ids).toEqual(['b']);
  const generations = [outrider.generate('p'), outrider.generate('q')];
  await vi.waitFor(() => expect(FakeWorker.last.sent.at(-1)).toMatchObject({ type: 'generate', id: 2 }));
  FakeWorker.last.dispatchEvent(new Event('error'));
  for (const { summary } of generations) await expect(summary).rejects.toMatchObject({ code: 'worker-crashed' });
  expect(FakeWorker.last.terminated).toBe(true);

  outrider.generate('again');
  await reachesWorker();
  expect(FakeWorker.all).toHaveLength(2);
  expect(FakeWorker.last.sent[0]).toMatchObject({ type: 'load', link: { roundTripMs: 300 } });
  expect(FakeWorker.last.sent[1]).toEqual({ type: 'context', id: 'b', text: 'two' });
});

test('a worker that does not stop is given up', async () => {
  const { generation } = await running();
  vi.useFakeTimers();
  generation.stop();
  vi.advanceTimersByTime(10_001);
  await expect(generation.summary).rejects.toMatchObject({ code: 'worker-unresponsive' });
  expect(FakeWorker.last.terminated).toBe(true);
});

test('loading can be given up, with the reason of the signal', async () => {
  FakeWorker.loads = false;
  const controller = new AbortController();
  const loading = load({ signal: controller.signal });
  controller.abort(new Error('changed my mind'));
  await expect(loading).rejects.toThrow('changed my mind');
  expect(FakeWorker.last.terminated).toBe(true);
});

test('a failed load has the code of its cause', async () => {
  FakeWorker.loads = false;
  const loading = load();
  say({ type: 'load-failed', error: { code: 'corrupt-model', message: 'bad magic' } });
  await expect(loading).rejects.toMatchObject({ code: 'corrupt-model', message: 'bad magic' });
});

test('a link that cannot be is refused and changes nothing', async () => {
  const outrider = await load();
  expect(() => outrider.setLink({ uplinkBitsPerSecond: 0 })).toThrow('uplinkBitsPerSecond must be above 0');
  expect(sentTypes(FakeWorker.last)).toEqual(['load']);
});

test('a closed instance fails what runs and refuses what comes', async () => {
  const outrider = await load();
  const generation = outrider.generate('p');
  outrider.close();
  await expect(generation.summary).rejects.toMatchObject({ code: 'closed' });
  expect(() => outrider.generate('p')).toThrow(expect.objectContaining({ code: 'closed' }));
  expect(FakeWorker.last.sent.at(-1)).toEqual({ type: 'close' });
});

test('the engine that was asked for is passed on, the one that runs is told, nonsense is refused', async () => {
  const outrider = await load({ server: 'http://server', build: 'relaxed', threads: 3 });
  expect(FakeWorker.last.sent[0]).toMatchObject({ engine: { build: 'relaxed', threads: 3 } });
  expect(outrider.engine).toEqual(engine);
  await load({ server: 'http://server' });
  expect(FakeWorker.last.sent[0]).toMatchObject({ engine: { engine: 'auto', build: 'auto', threads: null } });
  for (const options of [{ threads: 0 }, { threads: 1.5 }, { threads: Number.NaN }, { build: 'fast' as 'auto' }]) {
    await expect(load({ server: 'http://server', ...options })).rejects.toMatchObject({ code: 'invalid-option' });
  }
});

test('a generation can be suspended, and resumed by another page', async () => {
  const claim = { session: '01', secret: '02', attempts: 0, generation: 1 };
  const events: string[] = [];
  const outrider = await load({ onConnection: ({ state }) => events.push(state) });
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
  const next = await load({ resume: state, reconnectAttempts: 2 });
  expect(FakeWorker.last.sent[0]).toMatchObject({ type: 'load', claim: later });
  const resumed = next.resume(state);
  await reachesWorker();
  expect(FakeWorker.last.sent.at(-1)).toMatchObject({
    request: state.request,
    continuation: { attempts: 2, stallMs: 5000, committed: [0, 1], guessesFrom: 0.5, offlineTokens: 64 },
  });
  say({ type: 'round', id: 1, round: round('c') });
  say({ type: 'done', id: 1, summary: { ...done, text: 'abc' } });
  expect(await textsOf(resumed)).toEqual(['a', 'b', 'c']);
});

test('what follows a stopped text waits for its session; what comes beside it does not', async () => {
  const { outrider, generation: first } = await running();
  first.stop();
  const second = outrider.generate('q');
  await Promise.resolve();
  expect(sentTypes(FakeWorker.last)).toEqual(['load', 'generate', 'stop']);
  say({ type: 'done', id: 1, summary: { ...done, finish: 'cancelled' } });
  await reachesWorker();
  say({ type: 'round', id: 2, round: round('b') });
  expect(await first.summary).toMatchObject({ finish: 'cancelled' });
  const third = outrider.generate('r');
  await vi.waitFor(() => expect(FakeWorker.last.sent.at(-1)).toMatchObject({ type: 'generate', id: 3 }));
  say({ type: 'round', id: 3, round: round('c') });
  say({ type: 'done', id: 3, summary: done });
  expect(await textsOf(third)).toEqual(['c']);
  say({ type: 'done', id: 2, summary: done });
  expect(await textsOf(second)).toEqual(['b']);
});

test('what waits for a generation that does not stop gets another worker', async () => {
  const { outrider, generation: stuck } = await running();
  vi.useFakeTimers();
  stuck.stop();
  const next = outrider.generate('q');
  vi.advanceTimersByTime(10_001);
  vi.useRealTimers();
  await expect(stuck.summary).rejects.toMatchObject({ code: 'worker-unresponsive' });
  await vi.waitFor(() => expect(FakeWorker.all).toHaveLength(2));
  await reachesWorker();
  say({ type: 'done', id: 2, summary: done });
  expect(await next.summary).toMatchObject({ ...done, seed: expect.any(Number) });
});

test('what is stopped while it waits leaves the one before it to its time', async () => {
  const { outrider, generation: stuck } = await running();
  vi.useFakeTimers();
  stuck.stop();
  const next = outrider.generate('q');
  next.stop();
  expect(await next.summary).toMatchObject({ finish: 'cancelled' });
  vi.advanceTimersByTime(10_001);
  await expect(stuck.summary).rejects.toMatchObject({ code: 'worker-unresponsive' });
});

test('an option that there is none of is refused by its name, with the nearest', async () => {
  const outrider = await load();
  const generate = (options: object) => () => outrider.generate('p', options);
  expect(generate({ temperatures: 1 })).toThrow('no option temperatures; did you mean temperature?');
  expect(generate({ seeds: 1 })).toThrow('did you mean seed?');
  expect(generate({ somethingElse: 1 })).toThrow('no option somethingElse; there are ');
  expect(generate({ adaptiveMode: 'yes' })).toThrow('adaptiveMode must be true or false');
  expect(generate({ stop: [''] })).toThrow('stop must be a text of 1 to 256 characters');
  await expect(Outrider.load({ servers: '/' } as object)).rejects.toMatchObject({
    code: 'invalid-option',
    message: 'load() has no option servers; did you mean server?',
  });
});

test('without a browser loading says so', async () => {
  vi.stubGlobal('Worker', undefined);
  await expect(load()).rejects.toMatchObject({
    code: 'unsupported-environment',
    message: expect.stringContaining('there is no browser here'),
  });
});

test('what an error comes from survives the worker', async () => {
  const { generation } = await running();
  const thrown = new Error('outer', { cause: Object.assign(new TypeError('inner'), { code: 'E', cause: 404 }) });
  say({ type: 'failed', id: 1, error: structuredClone(describe(thrown)) });
  const error = await generation.summary.catch((reason: unknown) => reason as Error);
  expect(error).toMatchObject({ code: 'internal', message: 'outer' });
  expect((error as Error).cause).toMatchObject({ name: 'TypeError', message: 'inner', code: 'E', cause: 404 });
});

test('closing can be awaited, by hand and by `await using`', async () => {
  const outrider = await load();
  const closing = outrider.close();
  expect(outrider.close()).toBe(closing);
  const worker = FakeWorker.last;
  expect(worker.terminated).toBe(false);
  worker.say({ type: 'closed' });
  await closing;
  expect(worker.terminated).toBe(true);
  {
    await using other = await load();
    expect(other.mode).toBe('draft');
    queueMicrotask(() => say({ type: 'closed' }));
  }
  expect(FakeWorker.last).not.toBe(worker);
  expect(sentTypes(FakeWorker.last)).toEqual(['load', 'close']);
});

test('the tokenizer answers in any order, and its errors are whose they are', async () => {
  const outrider = await load();
  const [ids, text] = [outrider.tokenize('a'), outrider.detokenize([1, 2])];
  await vi.waitFor(() => expect(sentTypes(FakeWorker.last)).toEqual(['load', 'ask', 'ask']));
  say({ type: 'answer', id: 2, answer: 'ab' });
  say({ type: 'answer', id: 1, answer: [7] });
  expect([await ids, await text]).toEqual([[7], 'ab']);
  const refused = outrider.countTokens([{ role: 'user', content: 'a' }]);
  await vi.waitFor(() => expect(FakeWorker.last.sent).toHaveLength(4));
  say({ type: 'no-answer', id: 3, error: { code: 'invalid-parameters', message: 'no' } });
  await expect(refused).rejects.toMatchObject({ code: 'invalid-parameters' });
  await expect(outrider.detokenize([-1])).rejects.toMatchObject({ code: 'invalid-option' });
  const lost = outrider.tokenize('b');
  await vi.waitFor(() => expect(FakeWorker.last.sent).toHaveLength(5));
  say({ type: 'crashed', error: { code: 'worker-crashed', message: 'trap' } });
  await expect(lost).rejects.toMatchObject({ code: 'worker-crashed' });
});

test('headers reach the downloads, and nonsense is refused', async () => {
  await load({ headers: new Headers({ 'X-Key': '1' }) });
  expect(FakeWorker.last.sent[0]).toMatchObject({ sources: { headers: { 'x-key': '1' } } });
  await expect(load({ headers: { 'X Y': '1' } })).rejects.toMatchObject({ code: 'invalid-option' });
});

test('what was suspended is checked before it is resumed', async () => {
  const outrider = await load({ resume: null });
  for (const state of [null, {}, { claim: {}, request: {}, tokens: [] }]) {
    expect(() => outrider.resume(state as never)).toThrow(expect.objectContaining({ code: 'invalid-option' }));
  }
});
