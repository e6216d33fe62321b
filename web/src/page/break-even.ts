// The gain of drafting ahead as a function of the link's round trip, and the round trip at which it ends. No DOM.

import type { AheadRecord } from '../outrider/index.js';

/** Measured times of a text that was drafted ahead. */
export interface AheadTimes {
  /** A forward pass of the server that judges nothing, in milliseconds. */
  passMs: number;
  /** One draft, in milliseconds. */
  draftMs: number;
  /** The share of guesses after right ones that is right. */
  acceptanceRate: number;
  /** The round trip of the link itself, without what the page adds, in milliseconds. */
  ownRoundTripMs: number;
}

/** Right guesses that one forward pass judges at best, as the draft gets no further ahead. */
const JUDGED = 4;

/** The smallest gain that is called one; {@link breakEvenMs} is where it is reached. */
export const SMALLEST_GAIN = 0.05;

/** Reads the measured times of a text; null while one is missing. */
export function timesOf(ahead: AheadRecord | undefined, addedMs: number): AheadTimes | null {
  const { passMs = null, draftMs = null, roundTripMs = null, acceptanceRate = 0 } = ahead ?? {};
  if (passMs === null || draftMs === null || roundTripMs === null || !(passMs > 0)) return null;
  return { passMs, draftMs, acceptanceRate, ownRoundTripMs: Math.max(0, roundTripMs - addedMs) };
}

/** Milliseconds that a right guess saves if it comes in time. */
function savedMs({ passMs, draftMs }: AheadTimes): number {
  return Math.max(0, passMs - Math.max(draftMs, passMs / JUDGED));
}

/**
 * Predicts the speed as a multiple of the server alone. After a wrong guess the next one reaches the server a round trip
 * and a draft later, and the server has then written (roundTrip + draft) / pass tokens itself. Guesses are right one after
 * the other with probability α each, so that of 1 / (1 − α) tokens α^(n + 1) / (1 − α) are saved, n being those tokens.
 */
export function speedupAt(times: AheadTimes, addedMs: number): number {
  const { passMs, draftMs, acceptanceRate, ownRoundTripMs } = times;
  const late = (ownRoundTripMs + addedMs + draftMs) / passMs;
  return passMs / (passMs - acceptanceRate ** (late + 1) * savedMs(times));
}

/** The added round trip up to which drafting ahead gains {@link SMALLEST_GAIN}; null if it does not on any link. */
export function breakEvenMs(times: AheadTimes): number | null {
  const { passMs, draftMs, acceptanceRate, ownRoundTripMs } = times;
  const needed = ((1 - 1 / (1 + SMALLEST_GAIN)) * passMs) / savedMs(times);
  if (speedupAt(times, 0) < 1 + SMALLEST_GAIN) return null;
  if (acceptanceRate >= 1) return Number.POSITIVE_INFINITY;
  return (Math.log(needed) / Math.log(acceptanceRate) - 1) * passMs - draftMs - ownRoundTripMs;
}

/** The prediction in a sentence. */
export function breakEvenSentence(times: AheadTimes | null, mostMs: number): string {
  if (!times) return 'Write a text or run a race once to see up to which round trip drafting ahead pays.';
  const breakEven = breakEvenMs(times);
  if (breakEven === null) return 'Predicted: with these models drafting ahead makes no difference on any round trip.';
  if (breakEven > mostMs) return `Predicted: drafting ahead pays on every round trip up to ${mostMs} ms.`;
  return `Predicted: drafting ahead pays up to ${Math.round(breakEven)} ms of added round trip.`;
}
