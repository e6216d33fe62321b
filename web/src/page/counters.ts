// The live counters and the comparison: which numbers, and how they read.

import type { Choices, Mode, PolicyOption, Statistics } from '../outrider/index.js';
import {
  formatBits,
  formatBytes,
  formatCount,
  formatMilliseconds,
  formatNumber,
  formatPercent,
  formatProbability,
} from './format.js';

/** What a run was asked for, as far as it decides what there is to count. */
export type RunChoices = Choices &
  Readonly<Record<PolicyOption, string>> & {
    adaptiveMode: boolean;
    maxInFlight: number;
    /** Whether the server writes and is drafted ahead of, without rounds. */
    isAhead: boolean;
  };

/** A number out of the statistics. */
export interface Counter {
  name: Exclude<keyof Statistics, 'rule' | 'lossy' | 'ahead'>;
  label: string;
  /** Its name where the server is drafted ahead of, if it is another. */
  aheadLabel?: string;
  format: (value: number) => string;
  /** Without drafts there is nothing to accept, and a stream of tokens has no round trips. */
  speculativeOnly?: boolean;
  /** What it is a share or a mean of; there is no value while there is nothing of that. */
  of?: readonly ('judged' | 'drafted' | 'rounds')[];
  /** Which runs it says something about, if not all. Nothing is shown of it while there is no value. */
  concerns?: (choices: RunChoices) => boolean;
}

/** The tiles above the text. */
export const liveCounters: readonly Counter[] = [
  { name: 'tokensPerSecond', label: 'Tokens per second', format: formatNumber },
  {
    name: 'acceptanceRate',
    label: 'Drafts accepted',
    aheadLabel: 'Guesses right',
    format: formatPercent,
    speculativeOnly: true,
    of: ['judged'],
  },
  { name: 'serverPassesPerToken', label: 'Server passes per token', format: formatNumber },
  {
    name: 'roundTripMs',
    label: 'Last round trip',
    format: formatMilliseconds,
    speculativeOnly: true,
    of: ['rounds'],
  },
  {
    name: 'uplinkBitsPerDraftedToken',
    label: 'Up, per drafted token',
    format: formatBits,
    speculativeOnly: true,
    // Guesses are no frames of drafts.
    of: ['drafted', 'rounds'],
  },
  { name: 'uplinkBitsPerToken', label: 'Up, per token', format: formatBits },
  { name: 'downlinkBitsPerToken', label: 'Down, per token', format: formatBits },
  { name: 'tokens', label: 'Tokens', format: formatCount },
  {
    name: 'meanDroppedMass',
    label: 'Dropped mass, the session’s mean',
    format: formatProbability,
    concerns: isConformal,
  },
  {
    name: 'droppedMassBound',
    label: 'Its bound, Theorem 2',
    format: formatProbability,
    concerns: isConformal,
  },
  { name: 'followUps', label: 'Follow-ups, no sample kept', format: formatCount, concerns: isSampled },
  { name: 'downlinkBytesPerRejection', label: 'Down, per rejection', format: formatBytes, concerns: isSplit },
  { name: 'inTime', label: 'Guessed in time', format: formatCount, concerns: ({ isAhead }) => isAhead },
  { name: 'passed', label: 'Passed unverified', format: formatCount, concerns: hasGate },
  { name: 'streamed', label: 'Written by the server alone', format: formatCount, concerns: isAdaptive },
  { name: 'wasted', label: 'Drafts wasted', format: formatCount, concerns: isPipelined },
  { name: 'optimalDraftLength', label: 'Best draft length γ*', format: formatCount, concerns: isOptimized },
  { name: 'costRatio', label: 'Cost of one more draft, L', format: formatNumber, concerns: isOptimized },
];

/** The rows of the comparison. */
export const comparedCounters: readonly Counter[] = [
  { name: 'tokensPerSecond', label: 'Tokens per second', format: formatNumber },
  { name: 'firstTokenMs', label: 'First token after', format: formatMilliseconds },
  { name: 'serverPassesPerToken', label: 'Server passes per token', format: formatNumber },
  { name: 'uplinkBitsPerToken', label: 'Up, per token', format: formatBits },
  { name: 'downlinkBitsPerToken', label: 'Down, per token', format: formatBits },
  {
    name: 'acceptanceRate',
    label: 'Drafts accepted, or guesses right',
    format: formatPercent,
    speculativeOnly: true,
    of: ['judged'],
  },
  { name: 'tokens', label: 'Tokens', format: formatCount },
];

/** A counter's value for machines (empty if there is none) and for people. */
export function readCounter(
  counter: Counter,
  statistics: Statistics | null,
  mode: Mode,
  choices?: RunChoices,
): { value: string; text: string } {
  const value = statistics?.[counter.name] ?? Number.NaN;
  const { concerns, of } = counter;
  const applies =
    Number.isFinite(value) &&
    (!of || of.every((total) => statistics?.[total] !== 0)) &&
    !((counter.speculativeOnly || concerns) && mode === 'cloud-only') &&
    (!concerns || (choices !== undefined && concerns(choices)));
  return applies ? { value: String(value), text: counter.format(value) } : { value: '', text: '–' };
}

function isConformal({ scheme }: RunChoices): boolean {
  return scheme === 'c-sqs';
}

function isSplit({ scheme }: RunChoices): boolean {
  return scheme === 'dssd';
}

function isSampled(choices: RunChoices): boolean {
  return isSplit(choices) && choices.downlink === 'sampled';
}

function hasGate({ gate }: RunChoices): boolean {
  return gate !== 'none';
}

function isAdaptive({ adaptiveMode }: RunChoices): boolean {
  return adaptiveMode;
}

function isPipelined({ maxInFlight }: RunChoices): boolean {
  return maxInFlight > 1;
}

function isOptimized({ stopRule }: RunChoices): boolean {
  return stopRule === 'odld';
}
