// What the form holds, apart from the form.

import {
  builds,
  choiceDefaults,
  codes,
  downlinks,
  generationDefaults,
  openLink,
  policyDefaults,
  reasonAgainst,
  schemes,
} from '../outrider/index.js';
import { addPolicies, defaultPolicySettings, policySettingsFromQuery } from './policies.js';
import type { PolicySettings } from './policies.js';
import type {
  Build,
  ChoiceOption,
  Choices,
  Description,
  Link,
  NumberOption,
  Range,
  SchemeOption,
} from '../outrider/index.js';

/** A number field of the form. */
export interface Field {
  option: NumberOption;
  group: 'sampling' | 'drafting' | 'rounds';
  label: string;
  /** The papers' letter for it, if it has one. */
  symbol?: string;
  hint: string;
  step: number;
}

export const fields: readonly Field[] = [
  { option: 'temperature', group: 'sampling', label: 'Temperature', hint: '0 is greedy', step: 0.1 },
  { option: 'topP', group: 'sampling', label: 'Top-p', hint: '1 is off', step: 0.05 },
  { option: 'topK', group: 'sampling', label: 'Top-k', hint: '0 is off', step: 1 },
  { option: 'seed', group: 'sampling', label: 'Seed', hint: 'Repeats a run', step: 1 },
  { option: 'maxNewTokens', group: 'sampling', label: 'Max new tokens', hint: 'Length limit', step: 1 },
  {
    option: 'supportSize',
    group: 'drafting',
    label: 'Support size',
    symbol: 'K',
    hint: 'Candidates sent per token',
    step: 1,
  },
  {
    option: 'latticeResolution',
    group: 'drafting',
    label: 'Lattice resolution',
    symbol: 'ℓ',
    hint: 'Probabilities in steps of 1/ℓ',
    step: 1,
  },
  {
    option: 'droppedMassTarget',
    group: 'drafting',
    label: 'Dropped mass',
    symbol: 'α',
    hint: 'Probability left out, on average',
    step: 0.0005,
  },
  {
    option: 'stepSize',
    group: 'drafting',
    label: 'Step size',
    symbol: 'η',
    hint: 'How fast the threshold moves',
    step: 0.001,
  },
  {
    option: 'initialThreshold',
    group: 'drafting',
    label: 'First threshold',
    symbol: 'β₁',
    hint: 'What is less probable is left out',
    step: 0.001,
  },
  {
    option: 'downlinkSamples',
    group: 'drafting',
    label: 'Samples',
    symbol: 'm',
    hint: 'Sent down per rejection',
    step: 1,
  },
  {
    option: 'draftLength',
    group: 'rounds',
    label: 'Draft length',
    symbol: 'γ',
    hint: 'Tokens per round',
    step: 1,
  },
  {
    option: 'maxInFlight',
    group: 'rounds',
    label: 'Rounds in flight',
    hint: 'Drafted on before the verdict',
    step: 1,
  },
  {
    option: 'bitBudget',
    group: 'rounds',
    label: 'Bit budget',
    symbol: 'B',
    hint: 'Uplink bits per round, 0 is off',
    step: 100,
  },
];

/** A choice of the form. */
export interface Select {
  option: ChoiceOption;
  /** Its id on the page and its name in the address; `downlink` is the link's there. */
  id: string;
  label: string;
  /** How the sentence on what is chosen begins. */
  lead: string;
  names: Readonly<Record<string, Description>>;
}

export const selects: readonly Select[] = [
  { option: 'scheme', id: 'scheme', label: 'Scheme', lead: 'Per token:', names: schemes },
  { option: 'code', id: 'code', label: 'Code', lead: 'Written as:', names: codes },
  {
    option: 'downlink',
    id: 'afterRejection',
    label: 'After a rejection',
    lead: 'Coming down:',
    names: downlinks,
  },
];

/** Stop rules that draft γ tokens, or begin with γ; the others end rounds by what the drafts are. */
const rulesOfLength: readonly string[] = ['fixed', 'odld'];

/** Whether an option makes a difference under these choices. */
export function isUsed(
  option: NumberOption | ChoiceOption,
  choices: Choices,
  stopRule: string = policyDefaults.stopRule,
  gate: string = policyDefaults.gate,
): boolean {
  if (option === 'maxInFlight') return gate === 'none';
  if (option === 'draftLength') return rulesOfLength.includes(stopRule);
  if (!(schemeOptions as ReadonlySet<string>).has(option)) return true;
  if (option === 'downlinkSamples' && choices.downlink === 'full') return false;
  return (schemes[choices.scheme].options as readonly string[]).includes(option);
}

/** The options that not every scheme uses. */
const schemeOptions: ReadonlySet<SchemeOption> = new Set(
  Object.values(schemes).flatMap(({ options }) => options),
);

/** A field's text as a number, or the reason why it is none, as a sentence. */
export function parseField(field: Field, text: string, range: Range): number | { reason: string } {
  return parseNumber(field.label, text, range);
}

/** The same for any number that has a name. */
export function parseNumber(label: string, text: string, range: Range): number | { reason: string } {
  const trimmed = text.trim();
  if (trimmed === '') return { reason: `${label} needs a number.` };
  const value = Number(trimmed);
  const reason = reasonAgainst(value, range);
  return reason === null ? value : { reason: `${label} ${reason}.` };
}

/** The next value up (`direction` 1) or down (-1), inside the range. */
export function stepped(field: Pick<Field, 'step'>, value: number, range: Range, direction: 1 | -1): number {
  const next = Math.min(range.max, Math.max(range.min, value + direction * field.step));
  // Steps of a tenth must not show binary fractions.
  const rounded = Number(next.toFixed(6));
  return reasonAgainst(rounded, range) === null ? rounded : value;
}

/** Everything that can be set on the page. */
export interface Settings {
  prompt: string;
  /** The texts of the number fields; they may be out of range. */
  texts: Record<NumberOption, string>;
  choices: Choices;
  policies: PolicySettings;
  link: Link;
  /** Which engine drafts; null threads leave their number to the package. */
  engine: { build: Build | 'auto'; threads: number | null };
  /** What the server wants to be shown; null if there is none. */
  token: string | null;
}

export const defaultPrompt = 'Once upon a time';

export function defaultSettings(): Settings {
  const texts = {} as Record<NumberOption, string>;
  for (const { option } of fields) texts[option] = String(generationDefaults[option]);
  return {
    prompt: defaultPrompt,
    texts,
    choices: { ...choiceDefaults },
    policies: defaultPolicySettings(),
    link: { ...openLink },
    engine: { build: 'auto', threads: null },
    token: null,
  };
}

/**
 * Settings from an address's query: `prompt`, every number option by its name, `scheme`, `code`, `afterRejection`, the
 * policies with their numbers, `adaptiveMode`, `build`, `threads` and `token`, and `uplink`, `downlink` (bits per second) and
 * `roundTrip` (milliseconds). What is missing has its default; so has what is senseless for a choice, the engine or the
 * link.
 */
export function settingsFromQuery(query: URLSearchParams): Settings {
  const settings = defaultSettings();
  settings.prompt = query.get('prompt') ?? settings.prompt;
  for (const { option } of fields) settings.texts[option] = query.get(option) ?? settings.texts[option];
  const { choices } = settings;
  choices.scheme = chosen(query.get('scheme'), schemes) ?? choices.scheme;
  choices.code = chosen(query.get('code'), codes) ?? choices.code;
  choices.downlink = chosen(query.get('afterRejection'), downlinks) ?? choices.downlink;
  settings.policies = policySettingsFromQuery(query);
  const positive = (name: string): number | null => {
    const value = Number(query.get(name) ?? Number.NaN);
    return Number.isFinite(value) && value > 0 ? value : null;
  };
  settings.link = {
    uplinkBitsPerSecond: positive('uplink'),
    downlinkBitsPerSecond: positive('downlink'),
    roundTripMs: positive('roundTrip') ?? 0,
  };
  const threads = positive('threads');
  settings.engine = {
    build: builds.find((build) => build === query.get('build')) ?? 'auto',
    threads: Number.isInteger(threads) ? threads : null,
  };
  settings.token = query.get('token');
  return settings;
}

/** A text as one of a table's names; null if it is none. */
export function chosen<Name extends string>(
  text: string | null,
  names: Readonly<Record<Name, unknown>>,
): Name | null {
  return text !== null && Object.hasOwn(names, text) ? (text as Name) : null;
}

/** The query that gives these settings back; only what differs from the defaults. */
export function queryFromSettings(settings: Settings): URLSearchParams {
  const query = new URLSearchParams();
  const defaults = defaultSettings();
  if (settings.prompt !== defaults.prompt) query.set('prompt', settings.prompt);
  for (const { option } of fields) {
    if (settings.texts[option] !== defaults.texts[option]) query.set(option, settings.texts[option]);
  }
  for (const { option, id } of selects) {
    if (settings.choices[option] !== defaults.choices[option]) query.set(id, settings.choices[option]);
  }
  addPolicies(settings.policies, query);
  const { uplinkBitsPerSecond, downlinkBitsPerSecond, roundTripMs } = settings.link;
  if (uplinkBitsPerSecond !== null) query.set('uplink', String(uplinkBitsPerSecond));
  if (downlinkBitsPerSecond !== null) query.set('downlink', String(downlinkBitsPerSecond));
  if (roundTripMs !== 0) query.set('roundTrip', String(roundTripMs));
  const { build, threads } = settings.engine;
  if (build !== 'auto') query.set('build', build);
  if (threads !== null) query.set('threads', String(threads));
  if (settings.token !== null) query.set('token', settings.token);
  return query;
}

/** Links to try; roughly what such links give. */
export const linkPresets: readonly { name: string; link: Link }[] = [
  { name: 'As it is', link: { ...openLink } },
  {
    name: '4G',
    link: { uplinkBitsPerSecond: 10_000_000, downlinkBitsPerSecond: 40_000_000, roundTripMs: 50 },
  },
  {
    name: 'Satellite',
    link: { uplinkBitsPerSecond: 3_200_000, downlinkBitsPerSecond: 20_000_000, roundTripMs: 600 },
  },
  {
    name: '2G',
    link: { uplinkBitsPerSecond: 20_000, downlinkBitsPerSecond: 40_000, roundTripMs: 400 },
  },
];
