// What drafting gained, in one sentence with numbers. Like is compared with like only. No DOM.

import type { Link, Summary } from '../outrider/index.js';
import { formatBytes, formatCount, formatMilliseconds, formatNumber, formatPercent } from './format.js';
import { sameLink } from './prediction.js';

/** A text that was written, and on what. */
export interface Measured {
  summary: Summary;
  /** The link at its beginning. */
  link: Link;
  /** Whether the link was the same all the way. */
  isSteady: boolean;
}

/** Why two texts cannot be compared, as a sentence; null if they can. */
export function reasonNotToCompare(one: Measured, other: Measured): string | null {
  if (!one.isSteady || !other.isSteady)
    return 'The link changed on the way, so that the times do not compare.';
  if (!sameLink(one.link, other.link)) return 'The two were written on different links and do not compare.';
  return null;
}

/** What a text cost beside the server alone: time, forward passes, bytes. */
export function gainSentence(who: string, helped: Summary, alone: Summary): string {
  const speed = helped.tokensPerSecond / alone.tokensPerSecond;
  const isSameLength = helped.tokens === alone.tokens;
  // Texts of different lengths are compared by the token.
  const per = (value: number, of: Summary): number => (isSameLength ? value : value / of.tokens);
  const pair = (value: (of: Summary) => number, format: (value: number) => string): string =>
    `${format(per(value(helped), helped))} in place of ${format(per(value(alone), alone))}`;
  const what = isSameLength ? `for ${formatCount(helped.tokens)} tokens` : 'a token';
  const time = pair(({ elapsedMs }) => elapsedMs, formatMilliseconds);
  const passes = pair(({ serverPasses }) => serverPasses, isSameLength ? formatCount : formatNumber);
  const bytes = pair(({ uplinkBits, downlinkBits }) => (uplinkBits + downlinkBits) / 8, formatBytes);
  return `${who} was ${speedWords(speed)} on the same link: ${time} ${what}, ${passes} forward passes, ${bytes} sent.`;
}

/** A ratio of speeds, in words; what is within the noise is called about as fast. */
export function speedWords(ratio: number, whom = 'the server alone'): string {
  if (ratio >= 1.05) return `${formatNumber(ratio)} times as fast as ${whom}`;
  if (ratio <= 0.95) return `slower than ${whom} (${formatPercent(ratio)} of its speed)`;
  return `about as fast as ${whom}`;
}
