// The live counters and the comparison: which numbers, and how they read.

import type { Choices, Mode, Statistics } from '../outrider/index.js';
import {
  formatBits,
  formatBytes,
  formatCount,
  formatMilliseconds,
  formatNumber,
  formatPercent,
  formatProbability,
} from './format.js';

/** A number out of the statistics. */
export interface Counter {
  name: keyof Statistics;
  label: string;
  format: (value: number) => string;
  /** Without drafts there is nothing to accept, and a stream of tokens has no round trips. */
  speculativeOnly?: boolean;
  /** Which schemes it says something about, if not all. Nothing is shown of it while there is no value. */
  concerns?: (choices: Choices) => boolean;
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
  { name: 'meanDroppedMass', label: 'Dropped mass, mean', format: formatProbability, concerns: isConformal },
  {
    name: 'droppedMassBound',
    label: 'Its bound, Theorem 2',
    format: formatProbability,
    concerns: isConformal,
  },
  { name: 'followUps', label: 'Follow-ups, no sample kept', format: formatCount, concerns: isSampled },
  { name: 'downlinkBytesPerRejection', label: 'Down, per rejection', format: formatBytes, concerns: isSplit },
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
  choices?: Choices,
): { value: string; text: string } {
  const value = statistics?.[counter.name] ?? Number.NaN;
  const { concerns } = counter;
  const applies =
    Number.isFinite(value) &&
    !((counter.speculativeOnly || concerns) && mode === 'cloud-only') &&
    (!concerns || (choices !== undefined && concerns(choices)));
  return applies ? { value: String(value), text: counter.format(value) } : { value: '', text: '–' };
}

function isConformal({ scheme }: Choices): boolean {
  return scheme === 'c-sqs';
}

function isSplit({ scheme }: Choices): boolean {
  return scheme === 'dssd';
}

function isSampled(choices: Choices): boolean {
  return isSplit(choices) && choices.downlink === 'sampled';
}
