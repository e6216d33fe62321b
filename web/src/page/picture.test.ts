import { expect, test } from 'vitest';
import type { Origin, Round, Statistics } from '../outrider/index.js';
import { exchangeOf } from './picture.js';

const round = (drafted: number | null, ...origins: Origin[]): Round => ({
  tokens: origins.map((origin, id) => ({ id, text: 'x', origin })),
  statistics: {} as Statistics,
  round: drafted === null ? null : ({ drafted: Array(drafted).fill(0) } as unknown as Round['round']),
});

test('a round sends its drafts up, and what was made of them down', () => {
  expect(exchangeOf(round(4, 'accepted', 'accepted', 'resampled'))).toEqual({
    up: ['accepted', 'accepted', 'rejected', 'rejected'],
    down: ['accepted', 'accepted', 'resampled'],
    words: 'The browser drafted 4 tokens; the server accepted 2 and added one of its own.',
  });
  expect(exchangeOf(round(0, 'resampled')).words).toBe('Nothing was drafted; the server wrote 1 token.');
});

test('ahead of the server a guess is in time, late, or none', () => {
  expect(exchangeOf(round(null, 'accepted', 'accepted', 'cloud'))).toEqual({
    up: ['accepted', 'accepted'],
    down: ['accepted', 'accepted', 'cloud'],
    words: 'The browser had guessed 2 tokens in time: the server judged 3 in one forward pass.',
  });
  expect(exchangeOf(round(null, 'late')).words).toMatch(/too late to help/);
  expect(exchangeOf(round(null, 'cloud'))).toEqual({
    ...{ up: [], down: ['cloud'], words: 'The server wrote 1 token itself.' },
  });
  expect(exchangeOf(round(null, 'passed')).words).toBe('The browser kept 1 token without asking.');
});
