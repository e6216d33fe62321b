import { expect, test } from 'vitest';
import type { Round } from '../outrider/index.js';
import { eventOf, timelineSentence } from './timeline.js';

const round = (elapsedMs: number, record: object | null): Round =>
  ({ tokens: [{ id: 1, text: 'x', origin: 'bonus' }], statistics: { elapsedMs }, round: record }) as unknown as Round;

test('drafting comes before waiting, and waiting before the answer', () => {
  const record = { drafted: [], roundTripMs: 30, draftMs: 8 };
  expect(eventOf(round(100, record))).toEqual({ draftMs: 62, sentMs: 70, answerMs: 100, cells: ['bonus'] });
  expect(eventOf(round(20, record))).toMatchObject({ draftMs: 0, sentMs: 0 });
  expect(eventOf(round(20, null))).toMatchObject({ draftMs: 20, sentMs: 20, answerMs: 20 });
});

test('those who do not see it are told how often an answer comes', () => {
  expect(timelineSentence([])).toBe('Timeline: nothing yet.');
  const events = [20, 40, 60].map((ms) => eventOf(round(ms, null)));
  expect(timelineSentence(events)).toBe('Timeline of the last 3 answers of the server: one every 13 ms.');
});
