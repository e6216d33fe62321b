// The race: one prompt and seed, written three ways one after the other, on one axis of time. No DOM.

import type { Mode, Origin, Round, Scheme, Summary } from '../outrider/index.js';
import { formatCount, formatNumber, formatPercent } from './format.js';
import { unaidedSentence } from './sentences.js';

/** Who runs. */
export type LaneName = 'alone' | 'rounds' | 'ahead';

/** One way to come by the text. */
export interface Lane {
  name: LaneName;
  label: string;
  explanation: string;
  mode: Mode;
  scheme: Scheme;
}

/** In the order in which they run. */
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

/** What a token is in the race: drafted here and accepted, in time; guessed here too late; or the server's own. */
export type Kind = 'accepted' | 'late' | 'cloud';

/** A token: the time that it took, and how many there are with it. */
export interface Slab {
  fromMs: number;
  toMs: number;
  tokens: number;
  kind: Kind;
}

/** What a lane has written so far. */
export class Track {
  readonly slabs: Slab[] = [];

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
  }
}

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

/** What a lane shows, for those who do not see it. */
export function trackSentence(label: string, track: Track): string {
  if (track.tokens === 0) return `${label}: nothing yet.`;
  const count = (kind: Kind): number => track.slabs.filter((slab) => slab.kind === kind).length;
  const seconds = formatNumber(track.endMs / 1000);
  return `${label}: ${track.tokens} tokens in ${seconds} s; ${count('accepted')} drafted here and in time, ${count('late')} guessed too late, ${count('cloud')} the server’s own.`;
}

/** How the lanes ended that have run to their end. */
export type Results = Partial<Record<LaneName, Summary>>;

/**
 * What came out, in sentences: whether the texts are the same is looked up, token by token; and how fast the last was.
 * Null while there is nothing to compare.
 */
export function raceSentence({ alone, rounds, ahead }: Results, linkChanged: boolean): string | null {
  const sentences: string[] = [];
  if (alone && ahead) sentences.push(sameSentence(alone.tokenIds, ahead.tokenIds));
  if (alone && rounds) {
    sentences.push(
      firstDifference(alone.tokenIds, rounds.tokenIds) === null
        ? 'So did the rounds.'
        : 'The rounds wrote another, of the same distribution.',
    );
  }
  if (linkChanged) sentences.push('The link changed on the way, so that the times do not compare.');
  else if (ahead) {
    const speeds: string[] = [];
    // What was not helped cannot have been made faster: such a difference is the machine's.
    if (alone && ahead.inTime === 0) sentences.push(unaidedSentence(ahead, alone));
    else if (alone) speeds.push(speedOf(ahead, alone, 'the server alone'));
    if (rounds) speeds.push(speedOf(ahead, rounds, 'the rounds'));
    if (speeds.length > 0) sentences.push(`Never waiting was ${speeds.join(' and ')}.`);
  }
  return sentences.length === 0 ? null : sentences.join(' ');
}

function sameSentence(alone: readonly number[], ahead: readonly number[]): string {
  const different = firstDifference(alone, ahead);
  return different === null
    ? `The server alone and never waiting wrote the same ${formatCount(alone.length)} ${alone.length === 1 ? 'token' : 'tokens'}.`
    : `The server alone and never waiting wrote different texts, from token ${different + 1} on. That must not be: please report it.`;
}

/** The first position at which two texts differ; null if they are the same. */
export function firstDifference(one: readonly number[], other: readonly number[]): number | null {
  const length = Math.max(one.length, other.length);
  for (let position = 0; position < length; position++) {
    if (one[position] !== other[position]) return position;
  }
  return null;
}

function speedOf(of: Summary, against: Summary, whom: string): string {
  const ratio = of.tokensPerSecond / against.tokensPerSecond;
  if (ratio >= 1.05) return `${formatNumber(ratio)} times as fast as ${whom}`;
  if (ratio <= 0.95) return `slower than ${whom} (${formatPercent(ratio)} of the speed)`;
  return `about as fast as ${whom}`;
}
