import { expect, test } from 'vitest';
import type { Origin, Round, RoundRecord, Statistics } from '../outrider/index.js';
import { cellsOf } from './rounds.js';

function round(drafted: number | null, ...origins: Origin[]): Round {
  return {
    tokens: origins.map((origin, id) => ({ id, text: 'x', origin })),
    // With several rounds in flight the totals may be those after later ones.
    statistics: { drafted: 100 } as Statistics,
    round: drafted === null ? null : ({ drafted: Array<number>(drafted).fill(7) } as RoundRecord),
  };
}

test('accepted drafts, then rejected ones, then the server’s token', () => {
  expect(cellsOf(round(4, 'accepted', 'resampled'))).toEqual([
    'accepted',
    'rejected',
    'rejected',
    'rejected',
    'resampled',
  ]);
  expect(cellsOf(round(2, 'accepted', 'accepted', 'bonus'))).toEqual(['accepted', 'accepted', 'bonus']);
});

test('a round that another follows ends with its last draft', () => {
  expect(cellsOf(round(2, 'accepted', 'accepted'))).toEqual(['accepted', 'accepted']);
});

test('the server alone drafts nothing', () => {
  expect(cellsOf(round(null, 'cloud'))).toEqual(['cloud']);
});

test('passed tokens stand for themselves', () => {
  expect(cellsOf(round(null, 'passed', 'passed'))).toEqual(['passed', 'passed']);
});
