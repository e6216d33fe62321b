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

/** The choices of a run that decide which numbers it has. */
export type RunChoices = Choices &
  Readonly<Record<PolicyOption, string>> & {
    adaptiveMode: boolean;
    maxInFlight: number;
    /** True if the run drafts ahead of the server, without rounds. */
    isAhead: boolean;
  };

/** A number of the statistics, and the runs that have it. */
export interface Counter {
  name: Exclude<keyof Statistics, 'rule' | 'lossy' | 'ahead'>;
  label: string;
  /** The name of the number in runs that draft ahead of the server, if it is another. */
  aheadLabel?: string;
  format: (value: number) => string;
  /** True if runs of the server alone lack the number, as they have no drafts and no round trips. */
  speculativeOnly?: boolean;
  /** Totals that the number is a share or a mean of; while one is 0 there is no value. */
  of?: readonly ('judged' | 'drafted' | 'rounds')[];
  /** Decides which runs the number concerns, if not all. Where it has no value it is not shown. */
  concerns?: (choices: RunChoices) => boolean;
}

const tokensPerSecond: Counter = { name: 'tokensPerSecond', label: 'Tokens per second', format: formatNumber };
const passes: Counter = { name: 'serverPassesPerToken', label: 'Server passes per token', format: formatNumber };
const up: Counter = { name: 'uplinkBitsPerToken', label: 'Up, per token', format: formatBits };
const down: Counter = { name: 'downlinkBitsPerToken', label: 'Down, per token', format: formatBits };
const tokens: Counter = { name: 'tokens', label: 'Tokens', format: formatCount };
const drafted = { speculativeOnly: true, of: ['judged'] } as const;

/** A counter that concerns some runs only. */
function special(
  name: Counter['name'],
  label: string,
  format: Counter['format'],
  concerns: (choices: RunChoices) => boolean,
): Counter {
  return { name, label, format, concerns };
}

const isConformal = ({ scheme }: RunChoices): boolean => scheme === 'c-sqs';
const isSplit = ({ scheme }: RunChoices): boolean => scheme === 'dssd';
const isSampled = (choices: RunChoices): boolean => isSplit(choices) && choices.downlink === 'sampled';
const isOptimized = ({ stopRule }: RunChoices): boolean => stopRule === 'odld';

/** The tiles above the text. */
export const liveCounters: readonly Counter[] = [
  tokensPerSecond,
  {
    ...{ name: 'acceptanceRate', label: 'Drafts accepted', aheadLabel: 'Guesses right', format: formatPercent },
    ...drafted,
  },
  passes,
  {
    ...{ name: 'roundTripMs', label: 'Last round trip', format: formatMilliseconds },
    ...{ speculativeOnly: true, of: ['rounds'] },
  },
  {
    ...{ name: 'uplinkBitsPerDraftedToken', label: 'Up, per drafted token', format: formatBits },
    // Guesses ahead are not sent in Draft frames.
    ...{ speculativeOnly: true, of: ['drafted', 'rounds'] },
  },
  ...[up, down, tokens],
  special('meanDroppedMass', 'Dropped mass, the session’s mean', formatProbability, isConformal),
  special('droppedMassBound', 'Its bound, Theorem 2', formatProbability, isConformal),
  special('followUps', 'Follow-ups, no sample kept', formatCount, isSampled),
  special('downlinkBytesPerRejection', 'Down, per rejection', formatBytes, isSplit),
  special('inTime', 'Guessed in time', formatCount, ({ isAhead }) => isAhead),
  special('passed', 'Passed unverified', formatCount, ({ gate }) => gate !== 'none'),
  special('streamed', 'Written by the server alone', formatCount, ({ adaptiveMode }) => adaptiveMode),
  special('wasted', 'Drafts wasted', formatCount, ({ maxInFlight }) => maxInFlight > 1),
  special('optimalDraftLength', 'Best draft length γ*', formatCount, isOptimized),
  special('costRatio', 'Cost of one more draft, L', formatNumber, isOptimized),
];

/** The rows of the comparison. */
export const comparedCounters: readonly Counter[] = [
  tokensPerSecond,
  { name: 'firstTokenMs', label: 'First token after', format: formatMilliseconds },
  ...[passes, up, down],
  { ...{ name: 'acceptanceRate', label: 'Drafts accepted, or guesses right', format: formatPercent }, ...drafted },
  tokens,
];

/** Reads a counter; NaN where a run has no such number. */
export function readCounter(
  { name, of, speculativeOnly, concerns }: Counter,
  statistics: Statistics | null,
  mode: Mode,
  choices?: RunChoices,
): number {
  const isMissing =
    of?.some((total) => statistics?.[total] === 0) ||
    ((speculativeOnly || concerns) && mode === 'cloud-only') ||
    (concerns && !(choices && concerns(choices)));
  return isMissing ? Number.NaN : Number(statistics?.[name] ?? Number.NaN);
}
