import { expect, test } from 'vitest';
import { OutriderError } from '../outrider/index.js';
import type { Summary } from '../outrider/index.js';
import { comparisonSentence, endSentence, sentenceFor } from './sentences.js';

const at = (tokensPerSecond: number): Summary =>
  ({ tokens: 128, tokensPerSecond, serverPassesPerToken: 0.4, finish: 'length' }) as Summary;

test('speculation is called slower when it is', () => {
  expect(comparisonSentence(at(30), at(60))).toMatch(/^Speculation was slower than the server alone \(50 %/);
  expect(comparisonSentence(at(61), at(60))).toMatch(/about as fast/);
  expect(comparisonSentence(at(120), at(60))).toMatch(/2.00 times as fast .* 0.40 server passes/);
});

test('nothing is compared before there are two runs', () => {
  expect(comparisonSentence(at(30), null)).toBeNull();
  expect(comparisonSentence(at(30), at(0))).toBeNull();
});

test('every error is one or more whole sentences, whatever its code', () => {
  for (const code of [
    'connection-lost',
    'corrupt-model',
    'server-full',
    'worker-crashed',
    'never-heard-of',
  ]) {
    expect(sentenceFor(new OutriderError(code, 'detail'))).toMatch(/^[A-Z].*\.$/);
  }
  expect(sentenceFor(new TypeError('x is undefined'))).toContain('x is undefined');
});

test('the end of a run says why', () => {
  expect(endSentence(at(24))).toBe('Done after 128 tokens, 24.0 tokens/s.');
  expect(endSentence({ ...at(0), tokens: 0, finish: 'cancelled' })).toBe('Stopped after 0 tokens.');
});
