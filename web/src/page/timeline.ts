// When what happened: drafting, waiting for the answer, and the tokens of each answer, on one axis of time. No DOM.

import type { Round } from '../outrider/index.js';
import { cellsOf } from './rounds.js';
import type { Cell } from './rounds.js';

/** An answer of the server's; what was before it is known where there are rounds. */
export interface Event {
  /** When its drafting began, when it was sent, and when its answer came, in milliseconds after the start. */
  draftMs: number;
  sentMs: number;
  answerMs: number;
  cells: readonly Cell[];
}

/** Answers that are drawn, the last ones: more could not be told apart. */
export const SHOWN_EVENTS = 24;

export function eventOf(round: Round): Event {
  const answerMs = round.statistics.elapsedMs;
  const sentMs = Math.max(0, answerMs - (round.round?.roundTripMs ?? 0));
  const draftMs = Math.max(0, sentMs - (round.round?.draftMs ?? 0));
  return { draftMs, sentMs, answerMs, cells: cellsOf(round) };
}

/** What a timeline shows, for those who do not see it. */
export function timelineSentence(events: readonly Event[]): string {
  const [first, last] = [events[0], events.at(-1)];
  if (!first || !last) return 'Timeline: nothing yet.';
  const mean = (last.answerMs - first.draftMs) / events.length;
  const each = `one every ${mean < 10 ? mean.toFixed(1) : Math.round(mean)} ms`;
  return `Timeline of the last ${events.length} ${events.length === 1 ? 'answer' : 'answers'} of the server: ${each}.`;
}
