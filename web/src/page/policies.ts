// Acceptance rule, gate and stop rule in the form: the entries, why some are not available, and the guarantee.

import { names, policyDefaults, policyOptions, reasonAgainstPolicy } from '../outrider/index.js';
import type {
  GenerateOptions,
  Heads,
  NameDescription,
  Policy,
  PolicyOption,
  PolicyParameterOption,
  Range,
  Scheme,
} from '../outrider/index.js';

/** A selector of the form, and the number beside it. */
export type PolicySelect = NameDescription & { option: PolicyOption; parameterLabel: string };

export const policySelects: readonly PolicySelect[] = (Object.keys(policyDefaults) as PolicyOption[]).map((option) => ({
  option,
  parameterLabel: names[option].parameter?.label ?? '',
  ...names[option],
}));

/** The policies in the form. */
export interface PolicySettings {
  names: Record<PolicyOption, string>;
  /** The numbers as typed; empty for a policy's own default. */
  texts: Record<PolicyOption, string>;
  /** Lets the server write alone where that is faster (AS²). */
  adaptiveMode: boolean;
}

export function defaultPolicySettings(): PolicySettings {
  return { names: { ...policyDefaults }, texts: { rule: '', gate: '', stopRule: '' }, adaptiveMode: false };
}

/** Policies out of an address's query: the options by their names. Names that are none become the default. */
export function policySettingsFromQuery(query: URLSearchParams): PolicySettings {
  const settings = defaultPolicySettings();
  for (const { option } of policySelects) {
    const name = query.get(option) ?? settings.names[option];
    settings.names[option] = policyOf(option, name).name;
    // A number of one rule means nothing to another.
    if (settings.names[option] === name) settings.texts[option] = query.get(policyOptions[option].parameter) ?? '';
  }
  settings.adaptiveMode = query.get('adaptiveMode') === 'true';
  return settings;
}

/** Puts into the query what differs from the defaults. */
export function addPolicies(settings: PolicySettings, query: URLSearchParams): void {
  for (const { option } of policySelects) {
    if (settings.names[option] !== policyDefaults[option]) query.set(option, settings.names[option]);
    if (settings.texts[option] !== '') query.set(policyOptions[option].parameter, settings.texts[option]);
  }
  if (settings.adaptiveMode) query.set('adaptiveMode', 'true');
}

/** The policy of that name; the default if there is none of that name. */
export function policyOf(option: PolicyOption, name: string): Policy {
  const { entries } = names[option];
  const found = entries.find((policy) => policy.name === name) ?? entries[0];
  if (!found) throw new Error(`there is no ${option}`);
  return found;
}

/** A policy's sentence. That of an exact rule does not hold where a gate lets tokens pass. */
export function explanationOf(option: PolicyOption, policy: Policy, gate: Policy): string {
  const broken = option === 'rule' && !policy.lossy && gate.lossy;
  return broken ? `${policy.explanation} Not under this gate.` : policy.explanation;
}

/** Sentences on the entries that are not available; empty if all are. */
export function missingSentence(option: PolicyOption, chosen: Policy, scheme: Scheme, heads: Heads): string {
  const missing = new Map<string, string[]>();
  for (const policy of names[option].entries) {
    const reason = reasonAgainstPolicy(policy, option, scheme, heads);
    if (reason !== null && policy !== chosen) missing.set(reason, [...(missing.get(reason) ?? []), policy.name]);
  }
  return [...missing]
    .map(([reason, [name, ...more]]) => `${more.length > 0 ? 'Each of the others' : name} ${reason}.`)
    .join(' ');
}

/** A policy and its number as papers write it: `opt, α = 0.3`. */
export function policyName({ name, parameter }: Policy, value: number | undefined): string {
  return parameter === null ? name : `${name}, ${parameter.symbol} = ${value ?? parameter.default}`;
}

/** The range and the default of a number in words. */
export function rangeHint({ min, max, excluded }: Range, usual: number): string {
  const upTo = excluded === 'max' ? `${min} to below ${max}` : `${min} to ${max}`;
  const range = min === -Infinity ? 'any number' : max === Infinity ? `${min} or more` : upTo;
  return `${range}; default ${usual}`;
}

/** The policies of a run. */
export interface ChosenPolicies {
  policies: Record<PolicyOption, Policy>;
  values: Partial<Record<PolicyParameterOption, number>>;
  adaptiveMode: boolean;
}

/** The default policies: the exact rule, no gate, rounds of a fixed length. */
export function defaultPolicies(): ChosenPolicies {
  const policies = Object.fromEntries(
    policySelects.map(({ option }) => [option, policyOf(option, policyDefaults[option])]),
  ) as ChosenPolicies['policies'];
  return { policies, values: {}, adaptiveMode: false };
}

/** Converts policies to options of the package. */
export function optionsFrom({ policies, values, adaptiveMode }: ChosenPolicies): GenerateOptions {
  const { rule, gate, stopRule } = policies;
  return { rule: rule.name, gate: gate.name, stopRule: stopRule.name, ...values, adaptiveMode };
}

/** The guarantee about the distribution of a text. */
export interface Guarantee {
  lossy: boolean;
  sentence: string;
}

/**
 * The guarantee of a text: exact, or lossy because of the named policies. `chosen` is null for the server alone.
 * @param isAhead whether the server writes, and is drafted ahead of
 * @param ownDraws whether its draws are its own, so that a seed does not repeat them
 */
export function guaranteeOf(
  chosen: Pick<ChosenPolicies, 'policies' | 'values'> | null,
  isAhead = false,
  ownDraws = false,
): Guarantee {
  if (isAhead) {
    const sentence = ownDraws
      ? 'The text is distributed as the server’s own model would have it; its engine makes its own random draws, so a seed does not repeat it.'
      : 'The text is the one that the server’s own model writes alone at this seed, token for token.';
    return { lossy: false, sentence };
  }
  if (!chosen) return { lossy: false, sentence: 'The server’s own model wrote it alone.' };
  const { policies, values } = chosen;
  const guilty = (['rule', 'gate'] as const)
    .filter((option) => policies[option].lossy)
    .map((option) => policyName(policies[option], values[policyOptions[option].parameter]));
  if (guilty.length === 0) {
    return { lossy: false, sentence: 'The text is distributed as the server’s own model would have it.' };
  }
  return {
    lossy: true,
    sentence: `Under ${guilty.join(' and ')}: the text is not distributed as the server’s own model would have it.`,
  };
}
