// Texts that the server writes alone, over connections that are lost or fall silent.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { session } from './fixtures.js';
import { emptySummary } from './generation.js';
import { Outrider } from './index.js';
import type { ConnectionEvent, LoadOptions } from './index.js';
import { engine, info, model, SlowWorker } from './worker-fixtures.js';

/** A request for a text, and its answer. */
interface Asked {
  body: string;
  isClosed: boolean;
  /** Answers with these chunks, and whatever follows. */
  write(...chunks: unknown[]): void;
  /** Sends a comment, as the server does every two seconds. */
  comment(): void;
  end(): void;
  cut(): void;
  refuse(status: number): void;
}
let asked: Asked[];
let changes: string[];
let page: EventTarget & { hidden: boolean };

beforeEach(() => {
  [asked, changes] = [[], []];
  vi.useFakeTimers();
  vi.stubGlobal('Worker', SlowWorker);
  vi.stubGlobal('location', new URL('https://example.org/page/'));
  page = Object.assign(new EventTarget(), { hidden: false });
  vi.stubGlobal('document', page);
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page));
  vi.stubGlobal('removeEventListener', page.removeEventListener.bind(page));
  vi.stubGlobal('fetch', (url: URL, { signal, body }: RequestInit = {}) => {
    // A proxy answers for its server; pages may not read what.
    if (url.pathname === '/healthz') return Promise.resolve(Response.error());
    if (url.pathname === '/v1/info') return Promise.resolve(Response.json(info));
    return new Promise<Response>((resolve, reject) => {
      let to!: ReadableStreamDefaultController<Uint8Array>;
      const stream = new ReadableStream<Uint8Array>({ start: (controller) => void (to = controller) });
      const response = new Response(stream);
      const send = (text: string): void => {
        resolve(response);
        to.enqueue(new TextEncoder().encode(text));
      };
      const request: Asked = {
        ...{ body: String(body), isClosed: false },
        write: (...chunks) => send(chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')),
        comment: () => send(':\n\n'),
        end: () => (send('data: [DONE]\n\n'), to.close()),
        cut: () => (reject(new TypeError('failed to fetch')), to.error(new TypeError('network error'))),
        refuse: (status) => resolve(Response.json({ error: { message: 'no' } }, { status })),
      };
      asked.push(request);
      signal?.addEventListener('abort', () => {
        request.isClosed = true;
        reject(signal.reason as Error);
        to.error(signal.reason);
      });
    });
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const pass = (ms = 0) => vi.advanceTimersByTimeAsync(ms);
const chunk = (text: string, ...token_ids: number[]) => ({ choices: [{ text, finish_reason: null, token_ids }] });
const last = { choices: [{ text: '', finish_reason: 'length', token_ids: [] }] };
const loaded = () => SlowWorker.last.say({ type: 'loaded', engine, model, session, offline: false, reasons: false });

/** Loads, and begins a text; `ids` has its tokens as they come. */
async function begin(options: LoadOptions = {}) {
  const onConnection = (event: ConnectionEvent): void => {
    changes.push(event.state === 'reconnecting' ? `lost ${event.attempt}` : event.anew ? 'anew' : 'back');
  };
  const outrider = await Outrider.load({ onFallback: () => {}, onConnection, ...options });
  const generation = outrider.generate('p', { seed: 7 });
  const ids: number[] = [];
  const reading = (async () => {
    for await (const { id } of generation) ids.push(id);
  })();
  reading.catch(() => {});
  await pass();
  return { outrider, generation, ids };
}

test('a text whose stream falls silent goes on over another, without a token lost or doubled', async () => {
  const { generation, ids } = await begin();
  asked[0]!.write(chunk('a', 1), chunk('b', 2, 3));
  await pass(4_900);
  // A server that is slow sends comments.
  asked[0]!.comment();
  await pass(4_900);
  expect(asked).toHaveLength(1);
  await pass(200);
  expect([asked.length, asked[0]!.isClosed, asked[1]!.body]).toEqual([2, true, asked[0]!.body]);
  expect(changes).toEqual(['lost 1']);
  // What is known may come in other parts.
  asked[1]!.write(chunk('a', 1));
  await pass();
  expect([changes, ids]).toEqual([
    ['lost 1', 'back'],
    [1, 2, 3],
  ]);
  asked[1]!.write(chunk('b', 2, 3), chunk('c', 4), last);
  asked[1]!.end();
  await pass();
  expect(ids).toEqual([1, 2, 3, 4]);
  expect(await generation.summary).toMatchObject({
    ...{ text: 'abc', tokenIds: [1, 2, 3, 4], tokens: 4, finish: 'length' },
    // The server has written three tokens twice.
    ...{ serverPasses: 7, serverPassesPerToken: 7 / 4 },
  });
});

test('a stream that is cut, and a request that is not answered, are no end either', async () => {
  const { generation } = await begin();
  asked[0]!.write(chunk('a', 1));
  await pass();
  asked[0]!.cut();
  await pass();
  asked[1]!.cut();
  await pass(150);
  // The server has not noticed that the first connection is gone.
  asked[2]!.refuse(503);
  await pass(250);
  asked[3]!.refuse(502);
  await pass(450);
  expect(changes).toEqual(['lost 1', 'lost 2', 'lost 3', 'lost 4']);
  asked[4]!.write(chunk('a', 1), chunk('b', 2), last);
  asked[4]!.end();
  await pass();
  expect(await generation.summary).toMatchObject({ text: 'ab', tokenIds: [1, 2] });
  expect(changes.at(-1)).toBe('back');
});

test('a proxy whose server is away for a moment, and that names no page, does not end a text', async () => {
  vi.stubGlobal('origin', 'https://page.example');
  const { generation } = await begin();
  asked[0]!.write(chunk('a', 1));
  await pass();
  asked[0]!.cut();
  await pass();
  asked[1]!.cut();
  await pass(150);
  expect(changes).toEqual(['lost 1', 'lost 2']);
  asked[2]!.write(chunk('a', 1), chunk('b', 2), last);
  asked[2]!.end();
  await pass();
  expect((await generation.summary).text).toBe('ab');
});

test('a request into a black hole is sent again, and a busy server gets more time at each attempt', async () => {
  const { generation } = await begin();
  await pass(5_100);
  expect(asked.map(({ isClosed }) => isClosed)).toEqual([true, false]);
  await pass(9_900);
  expect(asked).toHaveLength(2);
  await pass(200);
  expect(asked).toHaveLength(3);
  await pass(19_000);
  asked[2]!.write(chunk('a', 1), last);
  asked[2]!.end();
  await pass();
  expect((await generation.summary).text).toBe('a');
});

test('the network’s return, or that of the page, ends a pause and a silence', async () => {
  await begin();
  asked[0]!.write(chunk('a', 1));
  await pass(3_000);
  page.dispatchEvent(new Event('online'));
  await pass();
  expect([asked.length, asked[0]!.isClosed]).toEqual([2, true]);
  // What has just come holds a while: the server's comments come every two seconds.
  asked[1]!.write(chunk('a', 1), chunk('b', 2));
  await pass();
  page.hidden = true;
  page.dispatchEvent(new Event('visibilitychange'));
  for (let second = 0; second < 6; second += 2) {
    await pass(2_000);
    asked[1]!.comment();
  }
  await pass();
  page.hidden = false;
  page.dispatchEvent(new Event('visibilitychange'));
  await pass(2_400);
  expect(asked).toHaveLength(2);
  await pass(200);
  expect(asked).toHaveLength(3);
  // Failures, up to a pause of a second.
  for (let attempt = 3; attempt < 8; attempt++) {
    asked.at(-1)!.cut();
    await pass(attempt < 7 ? 2_000 : 0);
  }
  const before = asked.length;
  page.dispatchEvent(new Event('online'));
  await pass();
  expect(asked).toHaveLength(before + 1);
});

test('after reconnectAttempts without a token it is a lost connection', async () => {
  const { generation } = await begin({ reconnectAttempts: 2 });
  SlowWorker.last.say({ type: 'load-failed', error: { code: 'corrupt-model', message: 'no' } });
  asked[0]!.write(chunk('a', 1));
  await pass();
  asked[0]!.cut();
  await pass();
  // A token gives all attempts back.
  asked[1]!.write(chunk('a', 1), chunk('b', 2));
  await pass();
  for (const attempt of [1, 2, 3]) {
    asked[attempt]!.cut();
    await pass(150);
  }
  await expect(generation.summary).rejects.toMatchObject({
    code: 'connection-lost',
    message: 'the server went away in the middle of a text',
  });
  expect([asked.length, changes]).toEqual([4, ['lost 1', 'back', 'lost 1', 'lost 2']]);
});

test('the last attempt without an answer may take connectTimeoutMs', async () => {
  const { generation } = await begin({ reconnectAttempts: 0, connectTimeoutMs: 7_000 });
  SlowWorker.last.say({ type: 'load-failed', error: { code: 'corrupt-model', message: 'no' } });
  await pass(6_900);
  expect(asked[0]!.isClosed).toBe(false);
  await pass(200);
  expect(asked[0]!.isClosed).toBe(true);
  await expect(generation.summary).rejects.toMatchObject({ code: 'connection-lost' });
});

test('another text after a reconnection is an error, unless the draft model goes on', async () => {
  for (const other of [[chunk('x', 1)], [chunk('a', 9)], [last]]) {
    asked = [];
    const { generation } = await begin();
    SlowWorker.last.say({ type: 'load-failed', error: { code: 'corrupt-model', message: 'no' } });
    asked[0]!.write(chunk('a', 1));
    await pass();
    asked[0]!.cut();
    await pass();
    asked[1]!.write(...other);
    await pass();
    await expect(generation.summary).rejects.toMatchObject({
      code: 'connection-lost',
      message: 'after a lost connection the server wrote another text; generate it again',
    });
    expect([asked.length, asked[1]!.isClosed]).toEqual([2, true]);
  }
});

test('a draft model that comes meanwhile joins where the text is, and the connection counts as back', async () => {
  const { generation, ids } = await begin();
  asked[0]!.write(chunk('a', 1), chunk('b', 2));
  await pass();
  asked[0]!.cut();
  await pass();
  asked[1]!.write(chunk('a', 1));
  await pass();
  asked[1]!.cut();
  await pass();
  changes = [];
  loaded();
  await pass();
  const { sent } = SlowWorker.last;
  expect(sent.at(-1)).toMatchObject({ type: 'generate', continuation: { committed: [1, 2] } });
  SlowWorker.last.say({ type: 'line', id: 1, event: { state: 'begun', claim: null } });
  expect(changes).toEqual(['anew']);
  SlowWorker.last.say({ type: 'done', id: 1, summary: { ...emptySummary, text: 'ab', finish: 'length' } });
  await pass();
  expect((await generation.summary).text).toBe('ab');
  expect(ids).toEqual([1, 2]);
  await pass(60_000);
  expect(asked).toHaveLength(2);
});

test('a stop in a pause ends the text, and a text that has ended is not asked for again', async () => {
  const { generation, outrider } = await begin();
  asked[0]!.write(chunk('a', 1));
  await pass();
  asked[0]!.cut();
  await pass();
  asked[1]!.cut();
  await pass();
  generation.stop();
  expect(await generation.summary).toMatchObject({ text: 'a', finish: 'cancelled' });
  const next = outrider.generate('q', { seed: 8 });
  await pass();
  asked[2]!.write(chunk('a', 1), last);
  await pass();
  asked[2]!.cut();
  expect(await next.summary).toMatchObject({ text: 'a', finish: 'length' });
  await pass(60_000);
  expect(asked).toHaveLength(3);
});
