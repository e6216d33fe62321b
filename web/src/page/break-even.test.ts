import { expect, test } from 'vitest';
import type { AheadRecord } from '../outrider/index.js';
import { breakEvenMs, breakEvenSentence, SMALLEST_GAIN, speedupAt, timesOf } from './break-even.js';

const times = { passMs: 40, draftMs: 5, acceptanceRate: 0.8, ownRoundTripMs: 3 };

test('guesses that are always right and at once save all but their share of a pass', () => {
  expect(speedupAt({ ...times, acceptanceRate: 1 }, 0)).toBeCloseTo(4);
  expect(speedupAt({ ...times, acceptanceRate: 1 }, 1000)).toBeCloseTo(4);
  expect(breakEvenMs({ ...times, acceptanceRate: 1 })).toBe(Number.POSITIVE_INFINITY);
});

test('the gain falls with the round trip, is never a loss, and ends at the break-even point', () => {
  const gains = [0, 50, 100, 500, 1000].map((added) => speedupAt(times, added));
  expect(gains).toEqual([...gains].sort((one, other) => other - one));
  expect(gains.at(-1)).toBeGreaterThanOrEqual(1);
  const breakEven = breakEvenMs(times);
  expect(breakEven).toBeGreaterThan(0);
  expect(speedupAt(times, breakEven!)).toBeCloseTo(1 + SMALLEST_GAIN);
});

test('a draft as slow as the server, or one that is never right, makes no difference', () => {
  for (const poor of [{ draftMs: 40 }, { acceptanceRate: 0 }]) {
    expect(speedupAt({ ...times, ...poor }, 0)).toBe(1);
    expect(breakEvenMs({ ...times, ...poor })).toBeNull();
  }
});

test('what was measured is read without the part of the link that the page adds', () => {
  const ahead = { passMs: 40, draftMs: 5, acceptanceRate: 0.8, roundTripMs: 103 } as AheadRecord;
  expect(timesOf(ahead, 100)).toEqual(times);
  expect(timesOf({ ...ahead, passMs: null }, 100)).toBeNull();
  expect(timesOf(undefined, 0)).toBeNull();
  expect(breakEvenSentence(null, 1000)).toMatch(/^Write a text/);
  expect(breakEvenSentence(times, 1000)).toMatch(/pays up to \d+ ms of added round trip\.$/);
  expect(breakEvenSentence(times, 10)).toMatch(/every round trip up to 10 ms\.$/);
});
