// The closed form's prediction of a run beside the measurement.

import type { Link, RoundRecord, Statistics } from '../outrider/index.js';

/** A number by the closed form and as it came out; NaN while there is none. */
export interface Compared {
  predicted: number;
  measured: number;
}

/** The numbers that are predicted and measured. */
export interface Prediction {
  /** Tokens per second, as a multiple of the server alone. */
  speedup: Compared;
  tokensPerRound: Compared;
}

/**
 * Expected tokens of a round with this number of drafts, each of which is accepted with probability `acceptanceRate`, independently
 * of the others: those that stand and the one after them, 1 + α + … + α^n (Zheng and Yang, eq. 12). Where nothing follows
 * a round in which all stand, the last term is missing.
 */
export function expectedTokens(acceptanceRate: number, drafts: number, hasBonus: boolean): number {
  const terms = drafts === 0 || hasBonus ? drafts + 1 : drafts;
  let tokens = 0;
  for (let exponent = 0; exponent < terms; exponent++) tokens += acceptanceRate ** exponent;
  return tokens;
}

/** The rounds of one run, added up. */
export class RoundTimes {
  /** The number of rounds by number of drafts. */
  readonly #lengths = new Map<number, number>();
  #rounds = 0;
  #timed = 0;
  #milliseconds = 0;

  add({ round, drafted, draftMs, roundTripMs }: RoundRecord): void {
    this.#rounds += 1;
    this.#lengths.set(drafted.length, (this.#lengths.get(drafted.length) ?? 0) + 1);
    // In the first one both models read the prompt.
    if (round === 0) return;
    this.#timed += 1;
    this.#milliseconds += draftMs + roundTripMs;
  }

  /** The mean time of a round; NaN before the second. */
  get milliseconds(): number {
    return this.#milliseconds / this.#timed;
  }

  /** The mean of {@link expectedTokens} over these rounds; NaN before the first. */
  expectedTokens(acceptanceRate: number, hasBonus: boolean): number {
    let tokens = 0;
    for (const [drafts, rounds] of this.#lengths) {
      tokens += rounds * expectedTokens(acceptanceRate, drafts, hasBonus);
    }
    return tokens / this.#rounds;
  }
}

/** Properties of a run that the closed form depends on. */
export interface PredictedRun {
  hasBonus: boolean;
  /** Passed tokens are outside of the closed form. */
  hasGate: boolean;
  /** Rounds that are in flight together have no bonus tokens, and share their times, which the closed form adds up. */
  isPipelined: boolean;
}

/**
 * Both sides of the comparison. The speed-up is tokens of a round · time of the server alone for a token / time of a
 * round, which is eqs. 11 and 12 with all times as measured; under AS² the engine's own estimate, which knows rounds and
 * the server alone from the same minute.
 * @param aloneTokensPerSecond of the server alone on this link; null while unknown
 */
export function predict(
  statistics: Statistics,
  times: RoundTimes,
  { hasBonus, hasGate, isPipelined }: PredictedRun,
  aloneTokensPerSecond: number | null,
): Prediction {
  const alone = aloneTokensPerSecond ?? Number.NaN;
  const tokens =
    hasGate || statistics.judged === 0
      ? Number.NaN
      : times.expectedTokens(statistics.acceptanceRate, hasBonus && !isPipelined);
  const byTimes = (tokens * (1000 / alone)) / times.milliseconds;
  return {
    speedup: {
      predicted: hasGate || isPipelined ? Number.NaN : (statistics.predictedSpeedup ?? byTimes),
      measured: statistics.tokens > 0 ? statistics.tokensPerSecond / alone : Number.NaN,
    },
    tokensPerRound: { predicted: tokens, measured: statistics.rounds > 0 ? statistics.tokensPerRound : Number.NaN },
  };
}

/** Compares two links field by field. */
export function sameLink(one: Link, other: Link): boolean {
  return (
    one.uplinkBitsPerSecond === other.uplinkBitsPerSecond &&
    one.downlinkBitsPerSecond === other.downlinkBitsPerSecond &&
    one.roundTripMs === other.roundTripMs
  );
}
