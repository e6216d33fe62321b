// The runs of this visit, for the table and for export. No DOM.

import type { Choices, EngineInfo, Link, Mode, Prompt, Round, Summary } from '../outrider/index.js';
import { formatBytes, formatCount, formatMilliseconds, formatNumber, formatRate } from './format.js';
import type { ServedModels } from './models.js';
import { sameLink } from './prediction.js';
import { linkPresets } from './settings.js';

/** A complete record of a run: settings, models, link and result. */
export interface RunRecord {
  /** The beginning of the run, ISO 8601. */
  at: string;
  /** The page's address with all settings, and without an access token. */
  address: string;
  prompt: Prompt;
  mode: Mode;
  /** The choices, with the scheme that `auto` resolved to. */
  choices: Choices;
  options: Readonly<Record<string, unknown>>;
  models: ServedModels | null;
  engine: EngineInfo;
  link: Link;
  /** True if the link did not change during the run. */
  isSteady: boolean;
  summary: Summary;
  rounds: readonly Round[];
}

/** Most remembered runs; one takes some hundred kilobytes. */
const MOST = 12;

/** The last runs, the latest first. */
export function remembered(runs: readonly RunRecord[], run: RunRecord): RunRecord[] {
  return [run, ...runs].slice(0, MOST);
}

/** The way in which the text was written. */
export function wayOf({ mode, choices }: RunRecord): string {
  if (mode === 'cloud-only') return 'The server alone';
  return choices.scheme === 'ahead' ? 'Draft ahead' : `Rounds, ${choices.scheme.toUpperCase()}`;
}

export function linkWords(link: Link): string {
  const preset = linkPresets.find((preset) => sameLink(preset.link, link));
  if (preset) return preset.name;
  const { uplinkBitsPerSecond, downlinkBitsPerSecond, roundTripMs } = link;
  return `${formatRate(uplinkBitsPerSecond)} up, ${formatRate(downlinkBitsPerSecond)} down, ${formatMilliseconds(roundTripMs)}`;
}

/** The columns of the table of runs. */
export const columns: readonly { label: string; of: (run: RunRecord) => string }[] = [
  { label: 'Way', of: wayOf },
  { label: 'Link', of: ({ link, isSteady }) => (isSteady ? linkWords(link) : `${linkWords(link)}, then changed`) },
  { label: 'Tokens', of: ({ summary }) => formatCount(summary.tokens) },
  { label: 'Tokens/s', of: ({ summary }) => formatNumber(summary.tokensPerSecond) },
  { label: 'Forward passes', of: ({ summary }) => formatCount(summary.serverPasses) },
  { label: 'Sent', of: ({ summary }) => formatBytes((summary.uplinkBits + summary.downlinkBits) / 8) },
];

/** The contents of a run's JSON file. */
export function jsonOf(run: RunRecord): string {
  return `${JSON.stringify({ format: 'outrider run 1', ...run }, null, 1)}\n`;
}

/** The name of a file of a run: sorted by name is sorted by time. */
export function fileName({ at }: Pick<RunRecord, 'at'>, ending: string): string {
  return `outrider-${at.slice(0, 19).replaceAll(':', '-')}.${ending}`;
}
