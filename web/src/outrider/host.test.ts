import { expect, test, vi } from 'vitest';
import type { EngineRequest } from './builds.js';
import type { Sink } from './download.js';
import type { Edge, GpuHandle, Round, Summary } from './edge.js';
import { OutriderError } from './errors.js';
import { emptySummary } from './generation.js';
import { addresses, session } from './fixtures.js';
import {
  answer,
  claim,
  coded,
  continuation,
  done,
  engineInfo,
  loaded,
  noHeads,
  request,
  round,
} from './host-fixtures.js';
import { openLink } from './options.js';

test('loading tells its stages and applies the link before it connects', async () => {
  const { posts, edge, connect } = await loaded({});
  expect(posts.map((post) => (post.type === 'progress' ? post.progress.stage : post.type))).toEqual([
    'prepare',
    'connect',
    'loaded',
  ]);
  expect(edge.set_link).toHaveBeenCalledWith(openLink);
  expect(connect).toHaveBeenCalledWith('ws://s', expect.any(Function), claim);
});

test('heads and chat template reach the engine if there are any', async () => {
  const { posts, finish } = await loaded({});
  expect(finish).toHaveBeenCalledWith(new Uint8Array(), undefined, undefined);
  expect(posts.at(-1)).toMatchObject({ type: 'loaded', engine: engineInfo });
  const heads = new Uint8Array([1]);
  expect((await loaded({}, heads)).finish).toHaveBeenCalledWith(new Uint8Array(), heads, undefined);
  const chat = new Uint8Array([2]);
  const spoken = await loaded({}, null, undefined, chat);
  expect(spoken.finish).toHaveBeenCalledWith(new Uint8Array(), undefined, chat);
});

/** A download that announces its size and brings no bytes. */
const ofSize = (bytes: number) => async (_: string, sink: Sink) => {
  await sink.begin(bytes);
};

test('a large draft tries the GPU, a small one only if it was asked for', async () => {
  const large = ofSize(100 << 20);
  const on = async (download: typeof large, wanted: EngineRequest['engine'], gpu: GpuHandle | Error | null) =>
    (await loaded({}, null, download, null, { wanted, gpu })).loaders.map(({ on }) => on);
  const gpu = { name: 'a GPU' };
  expect(await on(large, 'auto', gpu)).toEqual(['a GPU']);
  expect(await on(large, 'webgpu', gpu)).toEqual(['a GPU, always']);
  expect(await on(large, 'wasm', gpu)).toEqual(['processor']);
  expect(await on(ofSize(1 << 20), 'auto', gpu)).toEqual(['processor']);
  expect(await on(ofSize(1 << 20), 'webgpu', gpu)).toEqual(['a GPU, always']);
});

test('without a GPU the processor drafts, and says why; who wants a GPU is refused', async () => {
  const large = ofSize(100 << 20);
  for (const gpu of [null, coded('gpu-failed')]) {
    const { posts, loaders } = await loaded({}, null, large, null, { wanted: 'auto', gpu });
    expect(loaders.map(({ on }) => on)).toEqual(['processor']);
    const declined: unknown = expect.stringMatching(/WebGPU|gpu-failed/);
    expect(posts.at(-1)).toMatchObject({ type: 'loaded', engine: { engine: 'wasm', declined } });
    const refused = await loaded({}, null, large, null, { wanted: 'webgpu', gpu });
    expect(refused.posts.at(-1)).toMatchObject({ type: 'load-failed', error: { code: 'gpu-failed' } });
  }
});

test('a GPU that goes while it drafts is told once', async () => {
  let engine: 'webgpu' | 'wasm' = 'webgpu';
  const model = { vocabSize: 1, contextLength: 1, weightBytes: 1, memoryBytes: 2, heads: noHeads };
  const { host, posts } = await loaded({
    info: () => ({ engine, declined: engine === 'wasm' ? 'it is gone' : null, ...model }),
    generate: () => {
      engine = 'wasm';
      return Promise.resolve(done);
    },
  });
  for (const id of [1, 2]) {
    host.receive({ type: 'generate', id, request, continuation });
    await answer(posts);
    posts.push({ type: 'closed' });
  }
  const told = posts.filter(({ type }) => type === 'engine');
  expect(told).toEqual([{ type: 'engine', engine: { ...engineInfo, engine: 'wasm', declined: 'it is gone' } }]);
});

test('a template with reasoning is reported, and the end of a prompt has sixteen tokens', async () => {
  expect((await loaded({})).posts.at(-1)).toMatchObject({ reasons: false });
  const chat = new TextEncoder().encode('{"template": "</think>"}');
  const tokenize = () => new Uint32Array(40);
  const { host, posts } = await loaded({ tokenize }, null, undefined, chat);
  expect(posts.at(-1)).toMatchObject({ reasons: true });
  const question = { prompt: 'p', tools: [], chatTemplateKwargs: {}, continueFinalMessage: false };
  host.receive({ type: 'ask', id: 1, question: { about: 'tail', ...question } });
  host.receive({ type: 'ask', id: 2, question: { about: 'text', ids: [1] } });
  expect(posts.slice(-2)).toMatchObject([{ answer: '16 ids' }, { answer: '1 ids' }]);
});

test('a draft and a tokenizer may be files of the user', async () => {
  const { sources, host, finish, loaders, posts, ignoreSettings } = await loaded({});
  expect(ignoreSettings).toHaveBeenCalledWith(['k']);
  const files = { ...sources, draft: new Blob([new Uint8Array([7, 8])]), tokenizer: new Blob(['{}']), heads: null };
  posts.length = 0;
  const options = {
    engine: { engine: 'wasm', build: 'auto', threads: 1, addresses },
    link: openLink,
    connectTimeoutMs: 1000,
    offline: false,
    claim: null,
  } as const;
  host.receive({ type: 'load', ...options, sources: files });
  await vi.waitFor(() => expect(posts.at(-1)?.type).toBe('loaded'));
  expect(loaders.at(-1)).toMatchObject({ totalBytes: 2, chunks: [[7, 8]] });
  expect(finish).toHaveBeenLastCalledWith(new TextEncoder().encode('{}'), undefined, undefined);
});

test('where guesses are looked up no model is downloaded', async () => {
  const { sources, host, lookup, loaders, posts } = await loaded({}, null, undefined, new Uint8Array([5]));
  posts.length = 0;
  const count = loaders.length;
  host.receive({
    type: 'load',
    engine: { engine: 'wasm', build: 'auto', threads: 1, addresses },
    sources: { ...sources, draft: null, heads: null },
    link: openLink,
    connectTimeoutMs: 1000,
    offline: false,
    claim: null,
  });
  await vi.waitFor(() => expect(posts.at(-1)?.type).toBe('loaded'));
  expect(loaders).toHaveLength(count);
  expect(lookup).toHaveBeenCalledWith(new Uint8Array(), new Uint8Array([5]));
});

test('a server without a draft model has guesses looked up; a draft that the page names must be there', async () => {
  const absent = () => Promise.reject(new OutriderError('download-failed', 'none', { cause: 410 }));
  const { sources, host, lookup, posts } = await loaded({}, null, absent);
  expect(posts.at(-1)?.type).toBe('loaded');
  expect(lookup).toHaveBeenCalledOnce();
  host.receive({
    type: 'load',
    engine: { engine: 'wasm', build: 'auto', threads: 1, addresses },
    sources: { ...sources, mayLackDraft: false },
    link: openLink,
    connectTimeoutMs: 1000,
    offline: false,
    claim: null,
  });
  await vi.waitFor(() =>
    expect(posts.at(-1)).toMatchObject({ type: 'load-failed', error: { code: 'download-failed' } }),
  );
});

test('the draft goes into the engine as it comes; a download that starts over starts a new loader', async () => {
  const { loaders } = await loaded({}, null, async (_, sink) => {
    await sink.begin(null);
    sink.push(new Uint8Array([9]));
    await sink.begin(2);
    sink.push(new Uint8Array([1]));
    sink.push(new Uint8Array([2]));
  });
  expect(loaders.map(({ totalBytes, chunks }) => ({ totalBytes, chunks }))).toEqual([
    { totalBytes: undefined, chunks: [[9]] },
    { totalBytes: 2, chunks: [[1], [2]] },
  ]);
  expect(loaders[0]?.free).toHaveBeenCalledOnce();
  expect(loaders[1]?.free).not.toHaveBeenCalled();
});

test('a draft that the engine refuses fails the load with its code', async () => {
  const { posts } = await loaded({}, null, async (_, sink) => {
    await sink.begin(1);
    sink.push(new Uint8Array([0]));
  });
  expect(posts.at(-1)).toMatchObject({ type: 'load-failed', error: { code: 'corrupt-model' } });
});

test('a server that does not answer fails the load in time', async () => {
  const { posts } = await loaded({ connect: () => new Promise(() => {}) });
  expect(posts.at(-1)).toMatchObject({ type: 'load-failed', error: { code: 'connection-failed' } });
});

test('withdrawn guesses are those that were shown', async () => {
  const guess = (...ids: number[]) => ({ ids, text: ids.join(), chance: 0.9, offline: false });
  const words = (...ids: number[]): Round => ({
    ...round,
    tokens: ids.map((id) => ({ id, text: `${id}`, origin: 'accepted' as const })),
  });
  let [say, add]: [(...ids: number[]) => void, (round: Round) => void] = [() => {}, () => {}];
  const { host, posts } = await loaded({
    generate: (_, __, onRound, ___, onGuess) => {
      say = (...ids) => onGuess(guess(...ids));
      add = onRound;
      return new Promise(() => {});
    },
  });
  host.receive({ type: 'generate', id: 1, request, continuation });
  await Promise.resolve();
  const shown = (text: string) =>
    vi.waitFor(() => expect(posts.at(-1)).toMatchObject({ type: 'guess', guess: { text } }));
  const withdrawn = (round: Round) => {
    add(round);
    const post = posts.at(-1);
    return post?.type === 'round' ? post.round.withdrawn : null;
  };
  // None of them was shown: a round came at once.
  say(4, 5, 6);
  expect(withdrawn({ ...words(9), withdrawn: 3 })).toBeUndefined();
  say(4, 5);
  await shown('4,5');
  // Of four guesses two were shown, of which the text confirms one.
  say(4, 5, 6, 7);
  expect(withdrawn({ ...words(4, 8), withdrawn: 3 })).toBe(1);
  say(1);
  await shown('1');
  // The one that was shown gave way to another before the text said so.
  say(2, 3);
  expect(withdrawn({ ...words(2), guess: guess(3) })).toBe(1);
  // A round shows what follows it.
  expect(withdrawn({ ...words(5), withdrawn: 1 })).toBe(1);
  say(1, 2);
  await shown('1,2');
  expect(withdrawn({ ...words(1), guess: guess(2) })).toBeUndefined();
});

test('a connection that died while idle is opened again, unseen', async () => {
  let calls = 0;
  const generate: Edge['generate'] = (_request, _continuation, onRound) => {
    if (calls++ === 0) return Promise.reject(coded('connection-lost'));
    onRound(round);
    return Promise.resolve(done);
  };
  const { host, posts, connect } = await loaded({ generate });
  host.receive({ type: 'generate', id: 1, request, continuation });
  expect(await answer(posts)).toEqual({ type: 'done', id: 1, summary: done });
  expect(connect).toHaveBeenCalledTimes(2);
  expect(posts.slice(-3).map(({ type }) => type)).toEqual(['reconnected', 'round', 'done']);
});

test('a connection lost after tokens came fails, and the next generation connects first', async () => {
  let calls = 0;
  const generate: Edge['generate'] = (_request, _continuation, onRound) => {
    onRound(round);
    return calls++ === 0 ? Promise.reject(coded('connection-lost')) : Promise.resolve(done);
  };
  const { host, posts, connect } = await loaded({ generate });
  host.receive({ type: 'generate', id: 1, request, continuation });
  expect(await answer(posts)).toMatchObject({ type: 'failed', id: 1, error: { code: 'connection-lost' } });
  expect(connect).toHaveBeenCalledTimes(1);
  posts.length = 0;
  host.receive({ type: 'generate', id: 2, request, continuation });
  expect(await answer(posts)).toMatchObject({ type: 'done', id: 2 });
  expect(connect).toHaveBeenCalledTimes(2);
});

test('a refusal keeps the connection', async () => {
  let calls = 0;
  const generate: Edge['generate'] = () =>
    calls++ === 0 ? Promise.reject(coded('prompt-too-long')) : Promise.resolve(done);
  const { host, posts, connect } = await loaded({ generate });
  host.receive({ type: 'generate', id: 1, request, continuation });
  expect(await answer(posts)).toMatchObject({ type: 'failed', error: { code: 'prompt-too-long' } });
  posts.length = 0;
  host.receive({ type: 'generate', id: 2, request, continuation });
  await answer(posts);
  expect(connect).toHaveBeenCalledTimes(1);
});

test('a stop while connecting ends the generation at once', async () => {
  let calls = 0;
  const { host, posts, edge } = await loaded({
    connect: () => (calls++ === 0 ? Promise.resolve(session) : new Promise(() => {})),
    generate: (_request, _continuation, onRound) => {
      onRound(round);
      return Promise.reject(coded('connection-lost'));
    },
  });
  host.receive({ type: 'generate', id: 1, request, continuation });
  await answer(posts);
  posts.length = 0;
  host.receive({ type: 'generate', id: 2, request, continuation });
  host.receive({ type: 'stop', id: 2 });
  expect(await answer(posts)).toEqual({ type: 'done', id: 2, summary: emptySummary });
  expect(edge.stop).not.toHaveBeenCalled();
});

test('a stop inside the engine is the engine’s to answer; one for another generation is dropped', async () => {
  let finish = (_: Summary): void => {};
  const { host, posts, edge } = await loaded({ generate: () => new Promise((resolve) => (finish = resolve)) });
  host.receive({ type: 'generate', id: 7, request, continuation });
  await Promise.resolve();
  host.receive({ type: 'stop', id: 6 });
  expect(edge.stop).not.toHaveBeenCalled();
  host.receive({ type: 'stop', id: 7 });
  expect(edge.stop).toHaveBeenCalledOnce();
  finish({ ...done, finish: 'cancelled' });
  expect(await answer(posts)).toMatchObject({ type: 'done', summary: { finish: 'cancelled' } });
});

test('a trap says that the engine is gone', async () => {
  const { host, posts } = await loaded({ generate: () => Promise.reject(new WebAssembly.RuntimeError('unreachable')) });
  host.receive({ type: 'generate', id: 1, request, continuation });
  expect(await answer(posts)).toEqual({ type: 'crashed', error: { code: 'worker-crashed', message: 'unreachable' } });
});

test('closing says goodbye and ends the worker', async () => {
  const { host, edge, exit } = await loaded({});
  host.receive({ type: 'close' });
  await vi.waitFor(() => expect(exit).toHaveBeenCalledOnce());
  expect(edge.close).toHaveBeenCalledOnce();
});

test('each connection gets a token from the page, or the reason why there is none', async () => {
  const { host, posts, connect } = await loaded({});
  const [, token] = connect.mock.calls[0] ?? [];
  const [given, refused] = [token?.(), token?.()];
  expect(posts.slice(-2)).toEqual([1, 2].map((id) => ({ type: 'token-wanted', id })));
  host.receive({ type: 'no-token', id: 2, error: { code: 'unauthorized', message: 'signed out' } });
  host.receive({ type: 'token', id: 1, token: 'a-token' });
  expect(await given).toBe('a-token');
  await expect(refused).rejects.toThrow('signed out');
});

test('guesses that a round follows at once are not told, and of others the last', async () => {
  const guess = (text: string) => ({ ids: [1], text, chance: 0.9, offline: false });
  let tell: (text: string) => void = () => {};
  let round: () => void = () => {};
  let end: () => void = () => {};
  const { host, posts } = await loaded({
    generate: (_, __, onRound, ___, onGuess) => {
      tell = (text) => onGuess(guess(text));
      round = () => onRound({ tokens: [] } as never);
      return new Promise((resolve) => (end = () => resolve(done)));
    },
  });
  host.receive({ type: 'generate', id: 1, request, continuation });
  await Promise.resolve();
  vi.useFakeTimers();
  tell('one');
  round();
  vi.advanceTimersByTime(100);
  expect(posts.some(({ type }) => type === 'guess')).toBe(false);
  tell('two');
  tell('three');
  vi.advanceTimersByTime(100);
  tell('four');
  vi.useRealTimers();
  end();
  await answer(posts);
  expect(posts.filter(({ type }) => type === 'guess')).toMatchObject([{ guess: { text: 'three' } }]);
});

test('a change of the network reaches the engine', async () => {
  const { host, edge } = await loaded({});
  host.receive({ type: 'network' });
  expect(edge.network_changed).toHaveBeenCalledOnce();
});

test('texts of the page reach the engine, those from before it was there as well', async () => {
  const { host, edge } = await loaded({});
  expect(edge.add_context).toHaveBeenCalledExactlyOnceWith('early', 'before');
  host.receive({ type: 'context', id: 'late', text: 'after' });
  host.receive({ type: 'context', id: 'early', text: null });
  expect(edge.add_context).toHaveBeenLastCalledWith('late', 'after');
  expect(edge.remove_context).toHaveBeenCalledExactlyOnceWith('early');
});

test('a text of the page that the vocabulary cannot express changes nothing, and a trap is a crash', async () => {
  let thrown: unknown = coded('invalid-parameters');
  const add_context = vi.fn(() => {
    throw thrown;
  });
  const { host, posts } = await loaded({ add_context });
  expect(posts.at(-1)?.type).toBe('loaded');
  thrown = new WebAssembly.RuntimeError('unreachable');
  host.receive({ type: 'context', id: 'other', text: '' });
  expect(posts.at(-1)?.type).toBe('crashed');
});

test('a connection that has been idle for long is not trusted, and replaced without a word', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  try {
    const { host, edge, posts, connect } = await loaded({});
    const generate = async (id: number) => {
      host.receive({ type: 'generate', id, request, continuation });
      await vi.waitFor(() => expect(posts.at(-1)).toMatchObject({ type: 'done', id }));
    };
    vi.setSystemTime(Date.now() + 239_000);
    await generate(1);
    vi.setSystemTime(Date.now() + 239_000);
    await generate(2);
    expect([connect.mock.calls.length, vi.mocked(edge.close).mock.calls.length]).toEqual([1, 0]);
    vi.setSystemTime(Date.now() + 241_000);
    await generate(3);
    expect([connect.mock.calls.length, vi.mocked(edge.close).mock.calls.length]).toEqual([2, 1]);
    expect(posts.map(({ type }) => type)).not.toContain('line');
  } finally {
    vi.useRealTimers();
  }
});

test('a connection that was idle has a second to answer, unless the last answer took longer', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  try {
    let answersAfter = 100;
    const { host, edge, posts } = await loaded({
      generate: (_request, _continuation, onRound) => {
        vi.advanceTimersByTime(answersAfter);
        onRound(round);
        return Promise.resolve(done);
      },
    });
    let id = 0;
    const checksAfter = async (idleMs: number) => {
      vi.mocked(edge.network_changed).mockClear();
      vi.advanceTimersByTime(idleMs);
      host.receive({ type: 'generate', id: ++id, request, continuation });
      await vi.waitFor(() => expect(posts.at(-1)).toMatchObject({ type: 'done', id }));
      return vi.mocked(edge.network_changed).mock.calls.length;
    };
    expect(await checksAfter(14_000)).toBe(0);
    expect(await checksAfter(16_000)).toBe(1);
    answersAfter = 900;
    expect(await checksAfter(16_000)).toBe(1);
    expect(await checksAfter(16_000)).toBe(0);
    answersAfter = 100;
    expect(await checksAfter(1_000)).toBe(0);
    expect(await checksAfter(16_000)).toBe(1);
  } finally {
    vi.useRealTimers();
  }
});

test('the time of a reconnection is not the server’s', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  try {
    const { host, edge, posts } = await loaded({
      generate: (_request, _continuation, onRound, onLine) => {
        onLine({ state: 'reconnecting', attempt: 1, delayMs: 0 });
        vi.advanceTimersByTime(1_200);
        onRound(round);
        return Promise.resolve(done);
      },
    });
    for (const id of [1, 2]) {
      vi.advanceTimersByTime(16_000);
      host.receive({ type: 'generate', id, request, continuation });
      await vi.waitFor(() => expect(posts.at(-1)).toMatchObject({ type: 'done', id }));
      expect(edge.network_changed).toHaveBeenCalledTimes(id);
    }
  } finally {
    vi.useRealTimers();
  }
});

test('a claim is used once, and what happens to the connection is told', async () => {
  const generate: Edge['generate'] = (_request, given, _onRound, onLine) => {
    expect(given).toBe(continuation);
    onLine({ state: 'begun', claim });
    onLine({ state: 'reconnecting', attempt: 1, delayMs: 0 });
    return Promise.reject(coded('connection-lost'));
  };
  const { host, posts, connect } = await loaded({ generate });
  host.receive({ type: 'generate', id: 1, request, continuation });
  await vi.waitFor(() => expect(posts.at(-1)).toMatchObject({ type: 'failed' }));
  const states = posts.flatMap((post) => (post.type === 'line' ? [post.event.state] : []));
  // Tried again once, as nothing had been generated.
  expect(states).toEqual(['begun', 'reconnecting', 'begun', 'reconnecting']);
  expect(connect.mock.calls).toEqual([
    ['ws://s', expect.any(Function), claim],
    ['ws://s', expect.any(Function), null],
  ]);
});
