// The race: one prompt and seed, written three ways in turn, three times over, on one axis of time. No DOM.

import type { Mode, Origin, Round, Scheme, Summary } from '../outrider/index.js';
import { formatCount, formatNumber } from './format.js';
import { gainSentence, speedWords } from './gain.js';

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
    explanation: 'it writes without this page',
    mode: 'cloud-only',
    scheme: 'ahead',
  },
  {
    name: 'rounds',
    label: 'Rounds',
    explanation: 'the page drafts, the server verifies, and each waits for the other (K-SQS)',
    mode: 'speculative',
    scheme: 'k-sqs',
  },
  {
    name: 'ahead',
    label: 'Draft ahead',
    explanation: 'the server writes on, the page drafts ahead of it',
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

  /** Tokens per second of late: a mean from the beginning would hardly show a change of the link. */
  get speeds(): { ms: number; value: number }[] {
    return this.samples.flatMap(({ ms, tokens }, index) => {
      const isOutside = (before: Sample): boolean =>
        tokens - before.tokens >= WINDOW && ms - before.ms >= LEAST_WINDOW_MS;
      const before = this.samples.slice(0, index).findLast(isOutside);
      const since = before ?? { ms: 0, tokens: 0 };
      return ms > since.ms ? [{ ms, value: (1000 * (tokens - since.tokens)) / (ms - since.ms) }] : [];
    });
  }
}

/** Least number of tokens over which a speed is a mean. */
const WINDOW = 16;

/** Least time over which it is, in milliseconds: a link may bring many tokens together. */
const LEAST_WINDOW_MS = 250;

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

/** The number of times that each lane runs: the lanes take turns, so that a slow moment of the machine meets all. */
export const REPETITIONS = 3;

/** Summaries of the runs of each lane that have come to their end. */
export type Results = Partial<Record<LaneName, readonly Summary[]>>;

/** The run in the middle by its speed, and the slowest and the fastest speed. */
export interface Median {
  run: Summary;
  min: number;
  max: number;
}

/** Finds the median run of a lane; null if there is no run. Of two it is the slower one. */
export function medianOf(runs: readonly Summary[] = []): Median | null {
  const sorted = [...runs].sort((one, other) => one.tokensPerSecond - other.tokensPerSecond);
  const [first, run, last] = [sorted[0], sorted[Math.floor((sorted.length - 1) / 2)], sorted.at(-1)];
  return first && run && last ? { run, min: first.tokensPerSecond, max: last.tokensPerSecond } : null;
}

/** Ratio of two medians within the spread of their runs up to which there is no difference, rather than no answer. */
const MOST_NOISE = 1.25;

/** Decides whether two lanes differ by more than the spread of their runs. */
export function differ(one: Median, other: Median): boolean {
  return one.min > other.max || other.min > one.max;
}

/** A lane's speed with its spread: 58.2 tokens/s (55.0 to 61.3). */
function spreadWords({ run, min, max }: Median): string {
  const median = formatNumber(run.tokensPerSecond);
  return min === max ? `${median} tokens/s` : `${median} tokens/s (${formatNumber(min)} to ${formatNumber(max)})`;
}

/**
 * The result in sentences: first the gain, then whether the texts are the same, compared token by token. Speeds are
 * medians, and those within the spread of the runs are called no different. Empty while there is nothing to compare.
 * @param ownDraws whether the server's draws are its own, so that two texts may differ
 */
export function raceSentences(results: Results, linkChanged: boolean, ownDraws = false): string[] {
  const [alone, rounds, ahead] = (['alone', 'rounds', 'ahead'] as const).map((name) => medianOf(results[name]));
  const sentences: string[] = [];
  if (linkChanged) sentences.push('The link changed or was lost during the run, so the times cannot be compared.');
  else if (alone && ahead) sentences.push(aheadSentence(ahead, alone));
  if (alone && ahead) sentences.push(sameSentence(alone.run.tokenIds, ahead.run.tokenIds, ownDraws));
  if (alone && rounds) {
    const isSame = firstDifference(alone.run.tokenIds, rounds.run.tokenIds) === null;
    const text = isSame ? 'The rounds wrote it, too' : 'The rounds wrote another text of the same distribution';
    const ratio = rounds.run.tokensPerSecond / alone.run.tokensPerSecond;
    const speed = differ(rounds, alone) ? `were ${speedWords(ratio)}` : 'made no difference to the speed';
    sentences.push(linkChanged ? `${text}.` : `${text}, and ${speed}.`);
  }
  return sentences;
}

function aheadSentence(ahead: Median, alone: Median): string {
  const speeds = `${spreadWords(ahead)} against ${spreadWords(alone)}`;
  // Guesses that came too late cannot have made the text faster: such a difference is the machine's.
  const isSlower = ahead.max < alone.min;
  if (ahead.run.inTime === 0 && !isSlower)
    return `No difference: no guess came in time, so the server wrote alone, ${speeds}.`;
  if (!differ(ahead, alone)) {
    const ratio = ahead.run.tokensPerSecond / alone.run.tokensPerSecond;
    if (Math.max(ratio, 1 / ratio) > MOST_NOISE) {
      return `The runs vary too much to compare Draft ahead with the server alone: ${speeds}. Race again.`;
    }
    const saved = Math.max(0, alone.run.serverPasses - ahead.run.serverPasses);
    const passes = saved > 0 ? ` It saved the server ${formatCount(saved)} of ${alone.run.serverPasses} passes.` : '';
    return `Draft ahead made no difference to the speed on this link: ${speeds}.${passes}`;
  }
  return gainSentence('Draft ahead', ahead.run, alone.run);
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
