// Log-probabilities in the shape of OpenAI's API.

import type { ChoiceLogprobs, TokenLogprob, TopLogprob } from './completions-types.js';
import type { Token } from './edge.js';
import { OutriderError } from './errors.js';

/** The log-probability that OpenAI's API gives where a probability is unknown. */
const NO_LOGPROB = -9999;

/** Converts the evidence of tokens, each with at most `likeliest` candidates. */
export function logprobsOf(tokens: readonly Token[], likeliest: number): ChoiceLogprobs {
  const content = tokens.map(({ text, evidence }): TokenLogprob => {
    const known = (evidence?.candidates ?? []).filter(({ p }) => p !== null && p > 0).slice(0, likeliest);
    const top = known.map((candidate) => logprob(candidate.text, Math.log(candidate.p ?? 0)));
    return { ...logprob(text, evidence?.logprob ?? NO_LOGPROB), top_logprobs: top };
  });
  return { content, refusal: null };
}

function logprob(token: string, value: number): TopLogprob {
  // Half a character is no text: its bytes are not known any more.
  const bytes = token.includes('\u{fffd}') ? null : Array.from(new TextEncoder().encode(token));
  return { token, bytes, logprob: Math.max(value, NO_LOGPROB) };
}

/** Explains a server's refusal of evidence to those who asked for log-probabilities; other errors stay. */
export function refusalOfLogprobs(error: unknown): unknown {
  const isRefusal = error instanceof OutriderError && error.code === 'invalid-parameters';
  if (!isRefusal || !error.message.includes('evidence')) return error;
  const why = 'logprobs are for pages of the server itself (others need outrider serve --evidence always)';
  return new OutriderError(error.code, why, { option: 'logprobs', cause: error });
}
