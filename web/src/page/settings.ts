// The settings of the form, without the form.

import {
  builds,
  choiceDefaults,
  engines,
  generationDefaults,
  names,
  numbers,
  openLink,
  policyDefaults,
  reasonAgainst,
} from '../outrider/index.js';
import { addPolicies, defaultPolicySettings, policySettingsFromQuery } from './policies.js';
import type { PolicySettings } from './policies.js';
import type {
  Build,
  ChoiceOption,
  Choices,
  EngineKind,
  Link,
  NameDescription,
  NumberDescription,
  NumberOption,
  Range,
} from '../outrider/index.js';

/** A number field of the form. */
export type Field = NumberDescription & { option: NumberOption };

export const fields: readonly Field[] = (Object.keys(numbers) as NumberOption[]).map((option) => {
  const { unset, ...described } = numbers[option];
  // Runs that are compared need one seed.
  return { option, ...described, ...(unset !== undefined && option !== 'seed' && { unset }) };
});

/** A choice of the form. */
export type Select = NameDescription & {
  option: ChoiceOption;
  /** Its id on the page and its name in the address; `downlink` is the link's there. */
  id: string;
};

export const selects: readonly Select[] = (Object.keys(choiceDefaults) as ChoiceOption[]).map((option) => ({
  option,
  id: option === 'downlink' ? 'afterRejection' : option,
  ...names[option],
}));

/** Decides whether an option has an effect: not if only entries read it that are not chosen. */
export function isUsed(
  option: NumberOption | ChoiceOption,
  choices: Choices,
  stopRule: string = policyDefaults.stopRule,
  gate: string = policyDefaults.gate,
): boolean {
  // Ahead of the server there are none.
  if (choices.scheme === 'ahead' && { ...numbers, ...names }[option].group === 'rounds') return false;
  const chosen = { ...choices, stopRule, gate, rule: policyDefaults.rule };
  return (Object.keys(names) as (keyof typeof names)[]).every((kind) => {
    const readers = names[kind].entries.filter(({ options }) => options.includes(option));
    return readers.length === 0 || readers.some(({ name }) => name === chosen[kind]);
  });
}

/** Parses a field's text: a number, a sentence on why it is none, or null for an empty field that may be empty. */
export function parseField(
  field: Pick<Field, 'label' | 'unset'>,
  text: string,
  range: Range,
): number | null | { reason: string } {
  if (field.unset !== undefined && text.trim() === '') return null;
  return parseNumber(field.label, text, range);
}

/** Parses any number that has a name. */
export function parseNumber(label: string, text: string, range: Range): number | { reason: string } {
  const trimmed = text.trim();
  if (trimmed === '') return { reason: `${label} needs a number.` };
  if (range.integer && /[.,]/.test(trimmed)) {
    return { reason: `${label} must be a whole number without a comma or a point.` };
  }
  // Some keyboards have a comma where the number has a point.
  const value = Number(/^[+-]?\d*,\d+$/.test(trimmed) ? trimmed.replace(',', '.') : trimmed);
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
  /** The engine; null threads leave their number to the package. */
  engine: { engine: EngineKind | 'auto'; build: Build | 'auto'; threads: number | null };
  /** Asks for the candidates of each token. */
  evidence: boolean;
  /** The address of a draft model in place of the server's; null if there is none. */
  draft: string | null;
  /** The access token; null if there is none. It is read from an address and never written into one. */
  token: string | null;
}

export const defaultPrompt = 'Once upon a time';

/** The default of the most tokens of a text. */
export const defaultLength = generationDefaults.maxNewTokens;

export function defaultSettings(): Settings {
  const texts = {} as Record<NumberOption, string>;
  for (const { option } of fields) texts[option] = String(generationDefaults[option] ?? (option === 'seed' ? 1 : ''));
  return {
    prompt: defaultPrompt,
    texts,
    choices: { ...choiceDefaults },
    policies: defaultPolicySettings(),
    link: { ...openLink },
    engine: { engine: 'auto', build: 'auto', threads: null },
    evidence: false,
    draft: null,
    token: null,
  };
}

/**
 * Settings from an address's query: `prompt`, every number option by its name, `scheme`, `code`, `afterRejection`, the
 * policies with their numbers, `adaptiveMode`, `engine`, `build`, `threads`, `evidence`, `draft` and `token`, and `uplink`, `downlink`
 * (bits per second) and `roundTrip` (milliseconds). What is missing has its default; so has what is senseless for a choice, the engine or the
 * link.
 */
export function settingsFromQuery(query: URLSearchParams): Settings {
  const settings = defaultSettings();
  settings.prompt = query.get('prompt') ?? settings.prompt;
  for (const { option } of fields) settings.texts[option] = query.get(option) ?? settings.texts[option];
  const { choices } = settings;
  for (const { option, id, entries } of selects) {
    const found = entries.find(({ name }) => name === query.get(id));
    if (found) Object.assign(choices, { [option]: found.name });
  }
  settings.policies = policySettingsFromQuery(query);
  const positive = (name: string): number | null => {
    const value = Number(query.get(name) ?? Number.NaN);
    return Number.isFinite(value) && value > 0 ? value : null;
  };
  settings.link = {
    uplinkBitsPerSecond: positive('uplink'),
    downlinkBitsPerSecond: positive('downlink'),
    roundTripMs: positive('roundTrip') ?? 0,
    isCut: false,
  };
  const threads = positive('threads');
  settings.engine = {
    engine: engines.find((engine) => engine === query.get('engine')) ?? 'auto',
    build: builds.find((build) => build === query.get('build')) ?? 'auto',
    threads: Number.isInteger(threads) ? threads : null,
  };
  settings.evidence = query.get('evidence') === 'true';
  settings.draft = query.get('draft');
  settings.token = query.get('token');
  return settings;
}

/** The query that gives these settings back, but for the access token; only what differs from the defaults. */
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
  const { engine, build, threads } = settings.engine;
  if (engine !== 'auto') query.set('engine', engine);
  if (build !== 'auto') query.set('build', build);
  if (threads !== null) query.set('threads', String(threads));
  if (settings.evidence) query.set('evidence', 'true');
  if (settings.draft !== null) query.set('draft', settings.draft);
  return query;
}

/** Links to try; roughly what such links give. */
export const linkPresets: readonly { name: string; link: Link }[] = [
  { name: 'As it is', link: { ...openLink } },
  {
    name: '4G',
    link: { ...openLink, uplinkBitsPerSecond: 10_000_000, downlinkBitsPerSecond: 40_000_000, roundTripMs: 50 },
  },
  {
    name: 'Satellite',
    link: { ...openLink, uplinkBitsPerSecond: 3_200_000, downlinkBitsPerSecond: 20_000_000, roundTripMs: 600 },
  },
  { name: '2G', link: { ...openLink, uplinkBitsPerSecond: 20_000, downlinkBitsPerSecond: 40_000, roundTripMs: 400 } },
];

/** Example prompts to continue. The built-in models know fairy tales. */
export const examplePrompts: readonly string[] = [
  defaultPrompt,
  'The old man went to the river and',
  'A girl and her dog found',
  'The king said to the youngest of his three sons:',
];

/** Example questions to a model that has a chat template. */
export const exampleQuestions: readonly string[] = [
  'Why is the sky blue?',
  'Give me three tips for sleeping better',
  'Explain how a bicycle stays upright',
  'Write a short poem about the sea',
];
