// A token's origin, cost and probabilities as lines of text. No DOM.

import type { Candidate, Round, Token } from '../outrider/index.js';
import { formatBits, formatMilliseconds, formatNumber, formatProbability } from './format.js';
import { origins } from './origins.js';

/** A token with the answer that brought it. */
export interface TokenFacts {
  token: Token;
  round: Round;
  /** The number of the server's answer, from 1. */
  answer: number;
}

/** The lines about a token, and its candidates where they are known. */
export interface TokenCard {
  title: string;
  lines: string[];
  candidates: readonly Candidate[];
}

export function cardOf({ token, round, answer }: TokenFacts): TokenCard {
  const { name, meaning } = origins[token.origin];
  const lines = [`${name}: ${meaning}.`];
  const { round: record, tokens } = round;
  if (record) {
    const drafted = record.drafted.length;
    lines.push(`Round ${record.round + 1}: ${record.accepted} of ${drafted} drafts accepted.`);
    if (drafted > 0) lines.push(`A draft of this round took ${formatBits(record.payloadBits / drafted)}.`);
    lines.push(`The answer came after ${formatMilliseconds(record.roundTripMs)}.`);
  } else if (token.origin !== 'passed') {
    lines.push(`Answer ${answer} of the server, of ${tokens.length} ${tokens.length === 1 ? 'token' : 'tokens'}.`);
  }
  const { evidence } = token;
  if (evidence?.bits != null) lines.push(`Its draft took ${formatBits(evidence.bits)}.`);
  if (evidence?.logprob != null) {
    const share = formatProbability(Math.exp(evidence.logprob));
    lines.push(`The large model gave it probability ${share} (log ${formatNumber(evidence.logprob)}).`);
  }
  return { title: shownText(token.text), lines, candidates: evidence?.candidates ?? [] };
}

/** The candidates of a draft by their probability q as bars, the highest 1; none where q is unknown. */
export function barsOf({ id, evidence }: Token): { text: string; height: number; chosen: boolean }[] {
  const known = evidence?.candidates.filter(({ q }) => q !== null && q > 0) ?? [];
  const highest = Math.max(...known.map(({ q }) => q ?? 0));
  return known.map((bar) => ({ text: bar.text, height: (bar.q ?? 0) / highest, chosen: bar.id === id }));
}

/** A token's text with visible blanks. */
export function shownText(text: string): string {
  return text.replaceAll(' ', '␣').replaceAll('\n', '⏎');
}
