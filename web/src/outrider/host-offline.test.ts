// The worker without its server: it begins with what an earlier visit has kept.

import { expect, test } from 'vitest';
import type { Continuation, Edge } from './edge.js';
import { session } from './fixtures.js';
import { answer, claim, coded, continuation, done, loaded, request } from './host-fixtures.js';

const away = () => Promise.reject(coded('connection-failed'));
const welcome = Uint8Array.of(8);
const options = { offline: true, welcome };

test('without its server the engine is loaded with the Welcome of an earlier visit', async () => {
  const { posts, edge, allowOffline } = await loaded({ connect: away }, null, undefined, null, options);
  expect(posts.at(-1)).toMatchObject({ type: 'loaded', session, offline: true });
  expect(edge.connect_later).toHaveBeenCalledExactlyOnceWith('ws://s', expect.any(Function), claim, welcome);
  expect(allowOffline).toHaveBeenCalledOnce();
});

test('a server that answers is taken, and its Welcome kept', async () => {
  const { posts, edge, keepBytes } = await loaded({}, null, undefined, null, options);
  expect(posts.at(-1)).toMatchObject({ type: 'loaded', offline: false });
  expect(edge.connect_later).not.toHaveBeenCalled();
  expect(keepBytes).toHaveBeenCalledExactlyOnceWith('ws://s', Uint8Array.of(7));
  expect((await loaded({})).keepBytes).not.toHaveBeenCalled();
});

test('a load fails where offline is not wanted, nothing is kept, or the server refuses', async () => {
  const refused = () => Promise.reject(coded('unauthorized'));
  for (const [connect, given] of [
    [away, { welcome }],
    [away, { offline: true }],
    [refused, options],
  ] as const) {
    const { posts } = await loaded({ connect }, null, undefined, null, given);
    expect(posts.at(-1)).toMatchObject({ type: 'load-failed' });
  }
});

test('a text waits for its server; one in rounds, which guesses nothing, fails in time', async () => {
  const given: number[] = [];
  const generate = (_: unknown, { attempts }: Continuation) => {
    given.push(attempts);
    return Promise.resolve(done);
  };
  const attempts = async (asked: typeof request, connect: Edge['connect'], isAllowed: boolean) => {
    const { host, posts } = await loaded({ connect, generate }, null, undefined, null, { offline: isAllowed, welcome });
    host.receive({ type: 'generate', id: 1, request: asked, continuation });
    await answer(posts);
    return given.at(-1);
  };
  const there = () => Promise.resolve(session);
  expect(await attempts(request, away, true)).toBeGreaterThan(1e9);
  expect(await attempts(request, there, true)).toBeGreaterThan(1e9);
  expect(await attempts({ ...request, scheme: 'k-sqs' }, away, true)).toBe(continuation.attempts);
  expect(await attempts(request, there, false)).toBe(continuation.attempts);
});

test('a server that goes away between two texts is waited for, too', async () => {
  let [calls, isAway] = [0, false];
  const { host, posts, edge } = await loaded(
    {
      connect: () => (isAway ? away() : Promise.resolve(session)),
      generate: () => (++calls === 1 ? Promise.reject(coded('connection-lost')) : Promise.resolve(done)),
    },
    null,
    undefined,
    null,
    options,
  );
  isAway = true;
  host.receive({ type: 'generate', id: 1, request, continuation });
  expect(await answer(posts)).toMatchObject({ type: 'done' });
  expect(edge.connect_later).toHaveBeenCalledOnce();
  expect(posts.filter(({ type }) => type === 'reconnected')).toEqual([{ type: 'reconnected', session, offline: true }]);
});
