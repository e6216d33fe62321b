import { expect, test } from 'vitest';
import type { RoundRecord, Statistics } from '../outrider/index.js';
import { expectedTokens, predict, RoundTimes, sameLink } from './prediction.js';

const record = (round: number, drafts: number, ms: number): RoundRecord =>
  ({ round, drafted: Array(drafts).fill(7), draftMs: ms / 4, roundTripMs: (3 * ms) / 4 }) as RoundRecord;

const statistics = {
  tokens: 30,
  tokensPerSecond: 60,
  rounds: 10,
  judged: 30,
  acceptanceRate: 0.5,
  tokensPerRound: 3,
  predictedSpeedup: null,
} as Statistics;
const plain = { hasBonus: true, hasGate: false, isPipelined: false };

/** The first round reads the prompt; then two of four drafts and 100 ms. */
function times(): RoundTimes {
  const times = new RoundTimes();
  for (const [round, ms] of [5000, 90, 110].entries()) times.add(record(round, 4, ms));
  return times;
}

test('tokens of a round: a sum of powers, without its last term where nothing follows', () => {
  expect(expectedTokens(0.5, 4, true)).toBe(1.9375);
  expect(expectedTokens(0.5, 4, false)).toBe(1.875);
  expect(expectedTokens(1, 4, true)).toBe(5);
  expect(expectedTokens(1, 4, false)).toBe(4);
  expect(expectedTokens(0, 4, false)).toBe(1);
  // Nothing was drafted: the server writes one.
  expect(expectedTokens(0.5, 0, false)).toBe(1);
  // The closed form, (1 − α^(γ+1))/(1 − α).
  expect(expectedTokens(0.8, 8, true)).toBeCloseTo((1 - 0.8 ** 9) / 0.2, 12);
});

test('rounds of different lengths are a mean of their own tokens', () => {
  const times = new RoundTimes();
  times.add(record(0, 1, 1));
  times.add(record(1, 3, 1));
  expect(times.expectedTokens(0.5, true)).toBe((1.5 + 1.875) / 2);
});

test('the prompt’s round does not count as time', () => {
  expect(times().milliseconds).toBe(100);
  expect(new RoundTimes().milliseconds).toBeNaN();
});

test('speed-up is tokens of a round times the time alone over the time of a round', () => {
  // Alone a token takes 25 ms, a round 100 ms for 1.9375 tokens.
  const { speedup, tokensPerRound } = predict(statistics, times(), plain, 40);
  expect(speedup.predicted).toBeCloseTo((1.9375 * 25) / 100, 12);
  expect(speedup.measured).toBe(1.5);
  expect(tokensPerRound).toEqual({ predicted: 1.9375, measured: 3 });
});

test('the engine’s own estimate goes before', () => {
  const { speedup } = predict({ ...statistics, predictedSpeedup: 1.25 }, times(), plain, 40);
  expect(speedup).toEqual({ predicted: 1.25, measured: 1.5 });
});

test('without a run of the server alone there is no speed-up, and with a gate no prediction', () => {
  const early = predict(statistics, times(), plain, null);
  expect(early.speedup).toEqual({ predicted: Number.NaN, measured: Number.NaN });
  expect(early.tokensPerRound.predicted).toBe(1.9375);
  const gated = predict(statistics, times(), { ...plain, hasGate: true }, 40);
  expect(gated.speedup).toEqual({ predicted: Number.NaN, measured: 1.5 });
  expect(gated.tokensPerRound.predicted).toBeNaN();
});

test('nothing judged predicts nothing', () => {
  const { tokensPerRound } = predict({ ...statistics, judged: 0, rounds: 0 }, new RoundTimes(), plain, 40);
  expect(tokensPerRound).toEqual({ predicted: Number.NaN, measured: Number.NaN });
});

test('links differ by any of their numbers', () => {
  const link = { uplinkBitsPerSecond: 1, downlinkBitsPerSecond: null, roundTripMs: 2, isCut: false };
  expect(sameLink(link, { ...link })).toBe(true);
  expect(sameLink(link, { ...link, roundTripMs: 3 })).toBe(false);
  expect(sameLink(link, { ...link, uplinkBitsPerSecond: null })).toBe(false);
  expect(sameLink(link, { ...link, downlinkBitsPerSecond: 1 })).toBe(false);
});

test('rounds in flight together have no bonus tokens and no times of their own', () => {
  const pipelined = predict(statistics, times(), { ...plain, isPipelined: true }, 40);
  const withoutBonus = predict(statistics, times(), { ...plain, hasBonus: false }, 40);
  expect(pipelined.speedup.predicted).toBeNaN();
  expect(pipelined.tokensPerRound).toEqual(withoutBonus.tokensPerRound);
});
