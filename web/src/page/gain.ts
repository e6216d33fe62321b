// The gain of drafting in one sentence with numbers, for comparable runs only. No DOM.

import type { Link, Summary } from '../outrider/index.js';
import { formatBytes, formatCount, formatMilliseconds, formatNumber, formatPercent } from './format.js';
import { sameLink } from './prediction.js';

/** A finished run and its link. */
export interface Measured {
  summary: Summary;
  /** The link at the beginning of the run. */
  link: Link;
  /** True if the link did not change during the run. */
  isSteady: boolean;
  /** The prompt and the options that decide the text, by the names that people read. */
  asked?: Readonly<Record<string, unknown>>;
}

/** A sentence on why two runs cannot be compared; null if they can. */
export function reasonNotToCompare(one: Measured, other: Measured): string | null {
  if (!one.isSteady || !other.isSteady) {
    return 'The link changed or was lost during the run, so the times cannot be compared.';
  }
  if (!sameLink(one.link, other.link)) return 'The two texts were written on different links and cannot be compared.';
  const [asked, before] = [one.asked ?? {}, other.asked ?? {}];
  const differ = Object.keys(asked).filter((name) => JSON.stringify(asked[name]) !== JSON.stringify(before[name]));
  if (differ.length > 0) return `The two texts differ in ${differ.join(' and ')} and cannot be compared.`;
  return null;
}

/** Compares the costs of a text with the server alone: time, forward passes, bytes. */
export function gainSentence(who: string, helped: Summary, alone: Summary): string {
  const speed = helped.tokensPerSecond / alone.tokensPerSecond;
  const isSameLength = helped.tokens === alone.tokens;
  // Texts of different lengths are compared by the token.
  const per = (value: number, of: Summary): number => (isSameLength ? value : value / of.tokens);
  const pair = (value: (of: Summary) => number, format: (value: number) => string): string =>
    `${format(per(value(helped), helped))} instead of ${format(per(value(alone), alone))}`;
  const what = isSameLength ? `for ${formatCount(helped.tokens)} tokens` : 'a token';
  const time = pair(({ elapsedMs }) => elapsedMs, formatMilliseconds);
  const passes = pair(({ serverPasses }) => serverPasses, isSameLength ? formatCount : formatNumber);
  const bytes = pair(({ uplinkBits, downlinkBits }) => (uplinkBits + downlinkBits) / 8, formatBytes);
  return `${who} was ${speedWords(speed)} on the same link: ${time} ${what}, ${passes} forward passes, ${bytes} sent.`;
}

/** A ratio of speeds in words; a difference within the noise is called about as fast. */
export function speedWords(ratio: number, whom = 'the server alone'): string {
  if (ratio >= 1.05) return `${formatNumber(ratio)} times as fast as ${whom}`;
  if (ratio <= 0.95) return `slower than ${whom} (${formatPercent(ratio)} of its speed)`;
  return `about as fast as ${whom}`;
}
