import { expect, test } from 'vitest';
import {
  formatBits,
  formatBytes,
  formatCount,
  formatMark,
  formatMilliseconds,
  formatNumber,
  formatPercent,
  formatProbability,
  formatRate,
} from './format.js';

test.each([
  [formatNumber(0), '0'],
  [formatNumber(0.4123), '0.41'],
  [formatNumber(38.24), '38.2'],
  [formatNumber(512.7), '513'],
  [formatCount(82), '82'],
  [formatPercent(0.735), '74 %'],
  [formatMilliseconds(14.4), '14 ms'],
  [formatMilliseconds(0), '0 ms'],
  [formatMilliseconds(0.2), '< 1 ms'],
  [formatMilliseconds(999.7), '1.00 s'],
  [formatMilliseconds(1250), '1.25 s'],
  [formatMilliseconds(262_144), '262 s'],
  [formatProbability(0), '0'],
  [formatProbability(0.000_523), '0.00052'],
  [formatProbability(0.034), '0.034'],
  [formatBytes(1_856_056), '1.9 MB'],
  [formatBytes(144_000_000), '144 MB'],
  [formatMark(10), '10'],
  [formatMark(1_000), '1k'],
  [formatMark(10_000_000), '10M'],
  [formatRate(1_000), '1 kbit/s'],
  [formatRate(1_250), '1.3 kbit/s'],
  [formatRate(100_000_000), '100 Mbit/s'],
  [formatRate(null), 'unlimited'],
  [formatBits(240), '240 bits'],
  [formatBits(81_920), '82 kbit'],
])('%s', (actual, expected) => {
  expect(actual).toBe(expected);
});

test('what is not finite is a dash', () => {
  for (const format of [
    ...[formatNumber, formatCount, formatPercent, formatMilliseconds, formatBits, formatBytes],
    ...[formatProbability, formatMark],
  ]) {
    expect(format(Number.NaN)).toBe('–');
    expect(format(Number.POSITIVE_INFINITY)).toBe('–');
  }
});
