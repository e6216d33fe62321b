// Drafting, waiting, and the tokens of each answer, on one axis of time. No DOM.

import type { Round } from '../outrider/index.js';
import { cellsOf } from './rounds.js';
import type { Cell } from './rounds.js';

/** An answer of the server; in rounds also the drafting and waiting before it. */
export interface Event {
  /** Times of the first draft, the sending and the answer, in milliseconds after the start. */
  draftMs: number;
  sentMs: number;
  answerMs: number;
  cells: readonly Cell[];
}

/** The number of last answers that are drawn: more could not be distinguished. */
export const SHOWN_EVENTS = 24;

export function eventOf(round: Round): Event {
  const answerMs = round.statistics.elapsedMs;
  const sentMs = Math.max(0, answerMs - (round.round?.roundTripMs ?? 0));
  const draftMs = Math.max(0, sentMs - (round.round?.draftMs ?? 0));
  return { draftMs, sentMs, answerMs, cells: cellsOf(round) };
}

/** A timeline in a sentence, for screen readers. */
export function timelineSentence(events: readonly Event[]): string {
  const [first, last] = [events[0], events.at(-1)];
  if (!first || !last) return 'Timeline: nothing yet.';
  const mean = (last.answerMs - first.draftMs) / events.length;
  const each = `one every ${mean < 10 ? mean.toFixed(1) : Math.round(mean)} ms`;
  return `Timeline of the last ${events.length} ${events.length === 1 ? 'answer' : 'answers'} of the server: ${each}.`;
}
