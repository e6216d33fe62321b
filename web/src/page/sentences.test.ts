import { expect, test } from 'vitest';
import { OutriderError } from '../outrider/index.js';
import type { Summary } from '../outrider/index.js';
import {
  chartSentence,
  comparisonSentence,
  draftsSentence,
  endSentence,
  fullChatSentence,
  predictionSentence,
  sentenceFor,
} from './sentences.js';

const at = (tokensPerSecond: number): Summary =>
  ({ tokens: 128, tokensPerSecond, serverPassesPerToken: 0.4, inTime: 3, finish: 'length' }) as Summary;

test('speculation is called slower when it is', () => {
  expect(comparisonSentence(at(30), at(60))).toMatch(/^Speculation was slower than the server alone \(50 %/);
  expect(comparisonSentence(at(61), at(60))).toMatch(/about as fast/);
  expect(comparisonSentence(at(120), at(60))).toMatch(/2.00 times as fast .* 0.40 server passes/);
});

test('drafting ahead is called by its name', () => {
  expect(comparisonSentence(at(61), at(60), true)).toMatch(/^Drafting ahead was about as fast as/);
  expect(comparisonSentence(at(30), at(60), true)).toMatch(/^Drafting ahead was slower/);
  expect(comparisonSentence(at(90), at(60), true)).toMatch(/^Drafting ahead was 1.50 times as fast/);
  expect(comparisonSentence({ ...at(90), inTime: 0 }, at(60), true)).toMatch(/^No guess came in time, .* 150 % of/);
});

test('nothing is compared before there are two runs', () => {
  expect(comparisonSentence(at(30), null)).toBeNull();
  expect(comparisonSentence(at(30), at(0))).toBeNull();
});

test('every error is one or more whole sentences, whatever its code', () => {
  for (const code of [
    'connection-lost',
    'corrupt-model',
    'corrupt-heads',
    'heads-mismatch',
    'server-full',
    'taken-over',
    'worker-crashed',
    'never-heard-of',
  ]) {
    expect(sentenceFor(new OutriderError(code, 'detail'))).toMatch(/^[A-Z].*\.$/);
  }
  expect(sentenceFor(new TypeError('x is undefined'))).toContain('x is undefined');
});

test('a full conversation is not to be shortened as a prompt is', () => {
  const error = new OutriderError('prompt-too-long', 'it has 600 tokens');
  expect(sentenceFor(error)).toMatch(/Shorten it/);
  expect(sentenceFor(error, fullChatSentence)).toBe(fullChatSentence);
  expect(sentenceFor(new OutriderError('server-full', ''), fullChatSentence)).toMatch(/as many sessions/);
});

test('the end of a run says why', () => {
  expect(endSentence(at(24))).toBe('Done after 128 tokens, 24.0 tokens/s.');
  expect(endSentence({ ...at(0), tokens: 0, finish: 'cancelled' })).toBe('Stopped after 0 tokens.');
});

test('a chart in words has its range and its end', () => {
  const digits = (value: number) => value.toFixed(0);
  expect(chartSentence('Bits', [], digits)).toBe('Bits: nothing yet.');
  expect(chartSentence('Bits', [null, 3], digits)).toBe('Bits over 2 rounds: from 3 to 3, last 3.');
  expect(chartSentence('Bits', [7, 3, Number.NaN, 5], digits)).toBe('Bits over 4 rounds: from 3 to 7, last 5.');
});

test('a budget too small for a single draft is said to be', () => {
  expect(draftsSentence('Dense', 0, 0, 1)).toBe('Dense: nothing drafted yet.');
  expect(draftsSentence('Dense', 0, 0, 5)).toMatch(/more than the bit budget/);
  expect(draftsSentence('K-SQS', 10, 4, 5)).toMatch(/^10 drafts of K-SQS, 2.50 a round\. /);
});

test('where a gate leaves nothing to draft, the budget is not blamed', () => {
  expect(draftsSentence('K-SQS', 0, 0, 9, 'token-cascade')).toMatch(
    /^K-SQS: nothing was drafted under token-cascade\.$/,
  );
});

test('a prediction says what it stands on, or what it lacks', () => {
  const run = { isAloneKnown: true, hasGate: false, isPipelined: false, isAdaptive: false, isAhead: false };
  expect(predictionSentence(run)).toMatch(/^Predicted: /);
  expect(predictionSentence({ ...run, isAdaptive: true })).toMatch(/^Predicted is drafting on its own/);
  expect(predictionSentence({ ...run, isAhead: true })).toMatch(/no rounds.* measured only/);
  expect(predictionSentence({ ...run, hasGate: true })).toMatch(/measured only/);
  expect(predictionSentence({ ...run, isPipelined: true })).toMatch(/^Rounds .* measured only/);
  expect(predictionSentence({ ...run, isAloneKnown: false })).toMatch(/^Run Cloud only once on this link/);
});
