// The race: one prompt and seed, written three ways one after the other, on one axis of time. No DOM.

import type { Mode, Origin, Round, Scheme, Summary } from '../outrider/index.js';
import { formatCount, formatNumber } from './format.js';
import { gainSentence, speedWords } from './gain.js';
import { unaidedSentence } from './sentences.js';

/** The name of a lane of the race. */
export type LaneName = 'alone' | 'rounds' | 'ahead';

/** One way to write the text. */
export interface Lane {
  name: LaneName;
  label: string;
  explanation: string;
  mode: Mode;
  scheme: Scheme;
}

/** The lanes in the order in which they run. */
export const lanes: readonly Lane[] = [
  {
    name: 'alone',
    label: 'The server alone',
    explanation: 'one token a forward pass',
    mode: 'cloud-only',
    scheme: 'ahead',
  },
  {
    name: 'rounds',
    label: 'Rounds',
    explanation: 'as in the papers: the page drafts, the server verifies, each waits for the other (K-SQS)',
    mode: 'speculative',
    scheme: 'k-sqs',
  },
  {
    name: 'ahead',
    label: 'Never waiting',
    explanation: 'the server writes on, the page guesses ahead of it',
    mode: 'speculative',
    scheme: 'ahead',
  },
];

/** The kind of a token: drafted here and accepted in time, guessed here too late, or the server's own. */
export type Kind = 'accepted' | 'late' | 'cloud';

/** A token: the time that it took, and the number of tokens up to it. */
export interface Slab {
  fromMs: number;
  toMs: number;
  tokens: number;
  kind: Kind;
}

/** The costs of a lane up to a time. */
export interface Sample {
  ms: number;
  tokens: number;
  bytes: number;
  passes: number;
}

/** The tokens and costs of a lane so far. */
export class Track {
  readonly slabs: Slab[] = [];
  readonly samples: Sample[] = [];

  /** When the last token came, in milliseconds after the start. */
  get endMs(): number {
    return this.slabs.at(-1)?.toMs ?? 0;
  }

  get tokens(): number {
    return this.slabs.length;
  }

  /** Tokens that came together share the time since those before them. */
  add({ tokens, statistics }: Round): void {
    const before = this.endMs;
    const each = Math.max(0, statistics.elapsedMs - before) / tokens.length;
    tokens.forEach(({ origin }, index) => {
      const [fromMs, toMs] = [before + index * each, before + (index + 1) * each];
      this.slabs.push({ fromMs, toMs, tokens: this.tokens + 1, kind: kindOf(origin) });
    });
    const { uplinkBits, downlinkBits, serverPasses } = statistics;
    const bytes = (uplinkBits + downlinkBits) / 8;
    this.samples.push({ ms: this.endMs, tokens: this.tokens, bytes, passes: serverPasses });
  }

  /** Tokens per second over the last tokens: a mean from the beginning would hardly show a change of the link. */
  get speeds(): { ms: number; value: number }[] {
    return this.samples.flatMap(({ ms, tokens }, index) => {
      const before = this.samples.slice(0, index).findLast((sample) => tokens - sample.tokens >= WINDOW);
      const since = before ?? { ms: 0, tokens: 0 };
      return ms > since.ms ? [{ ms, value: (1000 * (tokens - since.tokens)) / (ms - since.ms) }] : [];
    });
  }
}

/** Tokens over which a speed is a mean. */
const WINDOW = 16;

function kindOf(origin: Origin): Kind {
  return origin === 'accepted' || origin === 'late' ? origin : 'cloud';
}

/** A path per kind, for the `d` of SVG paths: a slab is as wide as its token took, and as high as there are tokens. */
export function pathsOf(
  { slabs }: Track,
  axes: { ms: number; tokens: number },
  size: { width: number; height: number },
): Record<Kind, string> {
  const paths: Record<Kind, string> = { accepted: '', late: '', cloud: '' };
  const x = (ms: number): string => ((ms / axes.ms) * size.width).toFixed(1);
  const y = (tokens: number): string => (size.height * (1 - tokens / axes.tokens)).toFixed(1);
  for (const { fromMs, toMs, tokens, kind } of slabs) {
    paths[kind] += `M${x(fromMs)} ${size.height}V${y(tokens)}H${x(toMs)}V${size.height}Z`;
  }
  return paths;
}

/** A lane's picture in a sentence, for screen readers. */
export function trackSentence(label: string, track: Track): string {
  if (track.tokens === 0) return `${label}: nothing yet.`;
  const count = (kind: Kind): number => track.slabs.filter((slab) => slab.kind === kind).length;
  const seconds = formatNumber(track.endMs / 1000);
  return `${label}: ${track.tokens} tokens in ${seconds} s; ${count('accepted')} drafted here and in time, ${count('late')} guessed too late, ${count('cloud')} the server’s own.`;
}

/** Summaries of the lanes that have run to their end. */
export type Results = Partial<Record<LaneName, Summary>>;

/**
 * The result in sentences: first the gain, then whether the texts are the same, compared token by token. Empty while
 * there is nothing to compare.
 * @param ownDraws whether the server's draws are its own, so that two texts may differ
 */
export function raceSentences({ alone, rounds, ahead }: Results, linkChanged: boolean, ownDraws = false): string[] {
  const sentences: string[] = [];
  if (linkChanged) sentences.push('The link changed during the run, so the times cannot be compared.');
  else if (alone && ahead) {
    // What was not helped cannot have been made faster: such a difference is the machine's.
    if (ahead.inTime === 0) sentences.push(unaidedSentence(ahead, alone));
    else sentences.push(gainSentence('Never waiting', ahead, alone));
  }
  if (alone && ahead) sentences.push(sameSentence(alone.tokenIds, ahead.tokenIds, ownDraws));
  if (alone && rounds) {
    const isSame = firstDifference(alone.tokenIds, rounds.tokenIds) === null;
    const text = isSame ? 'The rounds wrote it, too' : 'The rounds wrote another, of the same distribution';
    const speed = speedWords(rounds.tokensPerSecond / alone.tokensPerSecond);
    sentences.push(linkChanged ? `${text}.` : `${text}, and were ${speed}.`);
  }
  return sentences;
}

function sameSentence(alone: readonly number[], ahead: readonly number[], ownDraws: boolean): string {
  const different = firstDifference(alone, ahead);
  if (different === null) {
    return `Both wrote the same ${formatCount(alone.length)} ${alone.length === 1 ? 'token' : 'tokens'}.`;
  }
  return ownDraws
    ? 'The two wrote different texts of the same distribution: the server’s engine makes its own random draws.'
    : `The two wrote different texts, from token ${different + 1} on. This is a bug: please report it.`;
}

/** The first position at which two texts differ; null if they are the same. */
export function firstDifference(one: readonly number[], other: readonly number[]): number | null {
  const length = Math.max(one.length, other.length);
  for (let position = 0; position < length; position++) {
    if (one[position] !== other[position]) return position;
  }
  return null;
}
