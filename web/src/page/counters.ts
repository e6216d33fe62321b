// The live counters and the comparison: which numbers, and how they read.

import type { Mode, Statistics } from '../outrider/index.js';
import { formatBits, formatCount, formatMilliseconds, formatNumber, formatPercent } from './format.js';

/** A number out of the statistics. */
export interface Counter {
  name: keyof Statistics;
  label: string;
  format: (value: number) => string;
  /** Without drafts there is nothing to accept, and a stream of tokens has no round trips. */
  speculativeOnly?: boolean;
}

/** The tiles above the text. */
export const liveCounters: readonly Counter[] = [
  { name: 'tokensPerSecond', label: 'Tokens per second', format: formatNumber },
  { name: 'acceptanceRate', label: 'Drafts accepted', format: formatPercent, speculativeOnly: true },
  { name: 'serverPassesPerToken', label: 'Server passes per token', format: formatNumber },
  { name: 'roundTripMs', label: 'Last round trip', format: formatMilliseconds, speculativeOnly: true },
  {
    name: 'uplinkBitsPerDraftedToken',
    label: 'Up, per drafted token',
    format: formatBits,
    speculativeOnly: true,
  },
  { name: 'uplinkBitsPerToken', label: 'Up, per token', format: formatBits },
  { name: 'downlinkBitsPerToken', label: 'Down, per token', format: formatBits },
  { name: 'tokens', label: 'Tokens', format: formatCount },
];

/** The rows of the comparison. */
export const comparedCounters: readonly Counter[] = [
  { name: 'tokensPerSecond', label: 'Tokens per second', format: formatNumber },
  { name: 'firstTokenMs', label: 'First token after', format: formatMilliseconds },
  { name: 'serverPassesPerToken', label: 'Server passes per token', format: formatNumber },
  { name: 'uplinkBitsPerToken', label: 'Up, per token', format: formatBits },
  { name: 'downlinkBitsPerToken', label: 'Down, per token', format: formatBits },
  { name: 'acceptanceRate', label: 'Drafts accepted', format: formatPercent, speculativeOnly: true },
  { name: 'tokens', label: 'Tokens', format: formatCount },
];

/** A counter's value for machines (empty if there is none) and for people. */
export function readCounter(
  counter: Counter,
  statistics: Statistics | null,
  mode: Mode,
): { value: string; text: string } {
  const value = statistics?.[counter.name] ?? Number.NaN;
  const applies = Number.isFinite(value) && !(counter.speculativeOnly && mode === 'cloud-only');
  return applies ? { value: String(value), text: counter.format(value) } : { value: '', text: '–' };
}
