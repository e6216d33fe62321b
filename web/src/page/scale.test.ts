import { expect, test } from 'vitest';
import { positionOf, rateAt, rateSteps } from './scale.js';

test('the ends of the slider are 1 kbit/s, 100 Mbit/s and no limit', () => {
  expect(rateAt(0)).toBe(1_000);
  expect(rateAt(rateSteps - 1)).toBe(100_000_000);
  expect(rateAt(rateSteps)).toBeNull();
});

test('every position comes back from its rate', () => {
  for (let position = 0; position <= rateSteps; position++) {
    expect(positionOf(rateAt(position))).toBe(position);
  }
});

test('each step is a quarter to a third more than the one before', () => {
  for (let position = 1; position < rateSteps; position++) {
    const ratio = (rateAt(position) ?? 0) / (rateAt(position - 1) ?? 0);
    expect(ratio).toBeGreaterThan(1.2);
    expect(ratio).toBeLessThan(1.3);
  }
});

test('rates off the scale sit at its ends', () => {
  expect(positionOf(3)).toBe(0);
  expect(positionOf(1e12)).toBe(rateSteps - 1);
});
