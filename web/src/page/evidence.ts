// What the server and the draft model thought of a token, where the package tells. No DOM.

import type { Token } from '../outrider/index.js';

/** A token that could have stood there: its probability under the draft model (q) and under the target (p). */
export interface Candidate {
  id: number;
  text: string;
  q: number | null;
  p: number | null;
}

/** What is known of a token beyond its text, under the option `evidence`. */
export interface Evidence {
  logprob: number | null;
  /** Payload bits of its draft. */
  bits: number | null;
  /** The most likely first. */
  candidates: readonly Candidate[];
}

/** Null where nobody asked or nobody told. */
export function evidenceOf(token: Token): Evidence | null {
  return (token as { evidence?: Evidence }).evidence ?? null;
}

/** A sparse distribution as bars, the highest 1; `chosen` is the token that stands there. */
export interface Bar {
  text: string;
  height: number;
  chosen: boolean;
}

/** The bars of what was sent of a draft: its candidates by q; empty where none is known. */
export function barsOf(token: Token): Bar[] {
  const known = (evidenceOf(token)?.candidates ?? []).filter(({ q }) => q !== null && q > 0);
  const highest = Math.max(...known.map(({ q }) => q ?? 0));
  return known.map(({ id, text, q }) => ({ text, height: (q ?? 0) / highest, chosen: id === token.id }));
}
