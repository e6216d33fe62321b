import { expect, test } from 'vitest';
import { axis, decades, lineChart, logShare, timeChart } from './chart.js';

const size = { width: 220, height: 120, left: 10, right: 10, top: 10, bottom: 10 };

test('an axis has round numbers around its values', () => {
  expect(axis([12, 243], true)).toEqual([0, 100, 200, 300]);
  expect(axis([65_536], true)).toEqual([0, 20_000, 40_000, 60_000, 80_000]);
  expect(axis([0.0096, 0.0102], false)).toEqual([0.0096, 0.0098, 0.01, 0.0102]);
  expect(axis([-0.001, 0.01], false)).toEqual([-0.005, 0, 0.005, 0.01]);
});

test('an axis of one value, of none, or of zeros has a length', () => {
  for (const values of [[], [0], [5], [-5], [1e-7]]) {
    for (const fromZero of [true, false]) {
      const ticks = axis(values, fromZero);
      expect(ticks.length, `${values} ${fromZero}`).toBeGreaterThan(1);
      expect(ticks.length, `${values} ${fromZero}`).toBeLessThan(9);
      expect(Math.min(...ticks)).toBeLessThanOrEqual(Math.min(...values));
      expect(Math.max(...ticks)).toBeGreaterThanOrEqual(Math.max(...values));
      expect(ticks).toEqual([...new Set(ticks)].sort((one, other) => one - other));
    }
  }
});

test('a line runs from the left to the right, and up is more', () => {
  const { paths, xTicks, yTicks } = lineChart([[0, 50, 100]], size, true);
  expect(paths).toEqual(['M10.0 110.0h0L110.0 60.0L210.0 10.0']);
  expect(xTicks).toEqual([
    { at: 10, text: '1' },
    { at: 110, text: '2' },
    { at: 210, text: '3' },
  ]);
  expect(yTicks[0]).toEqual({ at: 110, text: '0' });
  expect(yTicks.at(-1)).toEqual({ at: 10, text: '100' });
});

test('what is no number is a gap, and a value between two gaps a dot', () => {
  const { paths } = lineChart([[0, null, 100, Number.NaN, 0]], size, true);
  expect(paths).toEqual(['M10.0 110.0h0M110.0 10.0h0M210.0 110.0h0']);
});

test('nothing is drawn of nothing', () => {
  expect(lineChart([[]], size, true)).toMatchObject({ paths: [''], xTicks: [] });
  expect(lineChart([[null]], size, false).paths).toEqual(['']);
});

test('lines share their axes', () => {
  const { paths } = lineChart([[100, 100], [50]], size, true);
  expect(paths).toEqual(['M10.0 10.0h0L210.0 10.0', 'M10.0 60.0h0']);
});

test('ticks of the rounds are distinct and inside, however many there are', () => {
  for (let rounds = 1; rounds <= 2000; rounds += 7) {
    const { xTicks } = lineChart([Array(rounds).fill(1)], size, true);
    expect(xTicks.length, `${rounds}`).toBeLessThan(8);
    expect(xTicks.at(-1)?.text).toBe(String(rounds));
    for (const [index, { at }] of xTicks.entries()) {
      expect(at).toBeGreaterThan(xTicks[index - 1]?.at ?? 9);
      expect(at).toBeLessThanOrEqual(210);
    }
  }
});

test('small numbers keep the digits that tell them apart', () => {
  const { yTicks } = lineChart([[0.0098, 0.0102]], size, false);
  const texts = yTicks.map(({ text }) => text);
  expect(new Set(texts).size).toBe(texts.length);
  expect(texts[0]).toBe('0.0098');
});

test('powers of ten lie at equal distances', () => {
  expect(logShare(10, [10, 100_000])).toBe(0);
  expect(logShare(1_000, [10, 100_000])).toBeCloseTo(0.5);
  expect(logShare(100_000, [10, 100_000])).toBe(1);
  expect(logShare(0, [10, 100_000])).toBe(0);
  expect(logShare(1e9, [10, 100_000])).toBe(1);
  expect(logShare(Number.NaN, [10, 100_000])).toBeNaN();
});

test('the logarithmic scale holds every scheme, and grows if need be', () => {
  expect(decades([12, 65_536])).toEqual([10, 100, 1_000, 10_000, 100_000]);
  expect(decades([])).toEqual(decades([12]));
  expect(decades([4.5, 2_400_000])).toEqual([1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000]);
  expect(decades([0, Number.NaN])).toEqual(decades([]));
});

test('over time a line lies at its times, whatever the distance of its points', () => {
  const points = [
    { ms: 0, value: 0 },
    { ms: 500, value: 50 },
    { ms: 2000, value: 100 },
  ];
  const { paths, xTicks, yTicks } = timeChart([points, []], size);
  expect(paths).toEqual(['M10.0 110.0h0L60.0 60.0L210.0 10.0', '']);
  expect(xTicks.at(-1)).toEqual({ at: 210, text: '2 s' });
  expect(yTicks.at(-1)).toEqual({ at: 10, text: '100' });
});
