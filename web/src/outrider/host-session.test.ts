import { expect, test, vi } from 'vitest';
import type { Edge, Summary } from './edge.js';
import { answer, coded, continuation, done, loaded, request } from './host-fixtures.js';

/** An engine whose texts end by hand, with a session for each edge. */
function severalTexts() {
  const ends: { edge: string; end: (summary: Summary) => void }[] = [];
  const names = ['first'];
  const closed: string[] = [];
  const edgeOf = (name: string): Partial<Edge> => ({
    generate: () => new Promise<Summary>((resolve) => ends.push({ edge: name, end: resolve })),
    stop: () => ends.find(({ edge }) => edge === name)?.end({ ...done, finish: 'cancelled' }),
    close: () => closed.push(name),
    another: () => {
      names.push(`beside ${names.length}`);
      return { ...base(), ...edgeOf(names.at(-1)!) };
    },
  });
  let base: () => Edge = () => {
    throw new Error('not loaded');
  };
  return { ends, closed, engine: edgeOf('first'), setBase: (edge: Edge) => (base = () => edge) };
}

test('four texts have a session each, more wait for the first that is free', async () => {
  const { ends, engine, setBase } = severalTexts();
  const { host, edge, posts } = await loaded(engine);
  setBase(edge);
  for (const id of [1, 2, 3, 4, 5, 6]) host.receive({ type: 'generate', id, request, continuation });
  await vi.waitFor(() => expect(ends.map(({ edge }) => edge)).toEqual(['first', 'beside 1', 'beside 2', 'beside 3']));
  // One that waits ends at once.
  host.receive({ type: 'stop', id: 5 });
  expect(posts.at(-1)).toMatchObject({ type: 'done', id: 5, summary: { finish: 'cancelled' } });
  ends[2]!.end(done);
  await vi.waitFor(() => expect(ends).toHaveLength(5));
  expect(ends[4]!.edge).toBe('beside 2');
  host.receive({ type: 'stop', id: 2 });
  await vi.waitFor(() => expect(posts.at(-1)).toMatchObject({ type: 'done', id: 2, summary: { finish: 'cancelled' } }));
  expect(posts.filter(({ type }) => type === 'done')).toHaveLength(3);
});

test('where the server takes no further session, a text waits for the first', async () => {
  const { ends, engine, setBase } = severalTexts();
  const { host, edge, connect } = await loaded(engine);
  setBase(edge);
  connect.mockRejectedValue(coded('server-full'));
  for (const id of [1, 2, 3]) host.receive({ type: 'generate', id, request, continuation });
  await new Promise((resolve) => setTimeout(resolve));
  expect(ends.map(({ edge }) => edge)).toEqual(['first']);
  ends[0]!.end(done);
  await vi.waitFor(() => expect(ends).toHaveLength(2));
  ends[1]!.end(done);
  await vi.waitFor(() => expect(ends.map(({ edge }) => edge)).toEqual(['first', 'first', 'first']));
});

test('closing ends the texts first, and begins none that waits', async () => {
  const { ends, closed, engine, setBase } = severalTexts();
  const order: string[] = [];
  const stop = (): void => {
    order.push('stop');
    // The server is told before the text ends.
    setTimeout(() => ends[0]!.end({ ...done, finish: 'cancelled' }), 5);
  };
  const { host, edge, exit } = await loaded({ ...engine, stop });
  setBase(edge);
  for (const id of [1, 2, 3, 4, 5]) host.receive({ type: 'generate', id, request, continuation });
  await vi.waitFor(() => expect(ends).toHaveLength(4));
  host.receive({ type: 'close' });
  expect([closed, exit.mock.calls.length]).toEqual([[], 0]);
  await vi.waitFor(() => expect(exit).toHaveBeenCalledOnce());
  expect([order, closed.sort(), ends.length]).toEqual([['stop'], ['beside 1', 'beside 2', 'beside 3', 'first'], 4]);
});

test('a session beside the first is closed once it has been idle', async () => {
  const { ends, closed, engine, setBase } = severalTexts();
  const { host, edge } = await loaded(engine);
  setBase(edge);
  vi.useFakeTimers();
  for (const id of [1, 2]) host.receive({ type: 'generate', id, request, continuation });
  await vi.waitFor(() => expect(ends).toHaveLength(2));
  for (const { end } of ends) end(done);
  await vi.advanceTimersByTimeAsync(29_000);
  expect(closed).toEqual([]);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(closed).toEqual(['beside 1']);
  vi.useRealTimers();
});

test('the acceptance of a visit is kept after a text, and the next visit begins with it', async () => {
  const learned = Uint8Array.of(42, 11);
  const { host, posts, edge, keepBytes } = await loaded({ acceptance: () => learned });
  expect(edge.expect_acceptance).not.toHaveBeenCalled();
  host.receive({ type: 'generate', id: 1, request, continuation });
  await answer(posts);
  // The draft model of the fixture has one byte.
  expect(keepBytes).toHaveBeenCalledExactlyOnceWith('ws://s/?acceptance=1', learned);
  const later = await loaded({}, null, undefined, null, { acceptance: learned });
  expect(later.edge.expect_acceptance).toHaveBeenCalledExactlyOnceWith(learned);
});
