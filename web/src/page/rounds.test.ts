import { expect, test } from 'vitest';
import type { Origin, Round, Statistics } from '../outrider/index.js';
import { cellsOf } from './rounds.js';

function round(drafted: number, ...origins: Origin[]): Round {
  return {
    tokens: origins.map((origin, id) => ({ id, text: 'x', origin })),
    statistics: { drafted } as Statistics,
    round: null,
  };
}

test('accepted drafts, then rejected ones, then the server’s token', () => {
  expect(cellsOf(round(4, 'accepted', 'resampled'), null)).toEqual([
    'accepted',
    'rejected',
    'rejected',
    'rejected',
    'resampled',
  ]);
});

test('the totals before the round are taken off', () => {
  const before = round(10).statistics;
  expect(cellsOf(round(12, 'accepted', 'accepted', 'bonus'), before)).toEqual([
    'accepted',
    'accepted',
    'bonus',
  ]);
});

test('the server alone drafts nothing', () => {
  expect(cellsOf(round(0, 'cloud'), round(0).statistics)).toEqual(['cloud']);
});

test('passed tokens stand for themselves', () => {
  const before = round(10).statistics;
  expect(cellsOf(round(10, 'passed', 'passed'), before)).toEqual(['passed', 'passed']);
});
