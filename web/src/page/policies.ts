// How drafts are judged and rounds ended, as the form has it: what can be chosen, why not, and what it does to the text.

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

export const policySelects: readonly PolicySelect[] = (Object.keys(policyDefaults) as PolicyOption[]).map(
  (option) => ({ option, parameterLabel: names[option].parameter?.label ?? '', ...names[option] }),
);

/** What the form holds of them. */
export interface PolicySettings {
  names: Record<PolicyOption, string>;
  /** The numbers as typed; empty for a policy's own default. */
  texts: Record<PolicyOption, string>;
  /** Whether the server writes alone where that is faster. */
  adaptiveMode: boolean;
}

export function defaultPolicySettings(): PolicySettings {
  return {
    names: { ...policyDefaults },
    texts: { rule: '', gate: '', stopRule: '' },
    adaptiveMode: false,
  };
}

/** Policies out of an address's query: the options by their names. Names that are none become the default. */
export function policySettingsFromQuery(query: URLSearchParams): PolicySettings {
  const settings = defaultPolicySettings();
  for (const { option } of policySelects) {
    const name = query.get(option) ?? settings.names[option];
    settings.names[option] = policyOf(option, name).name;
    // A number of one rule means nothing to another.
    if (settings.names[option] === name)
      settings.texts[option] = query.get(policyOptions[option].parameter) ?? '';
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

/** What cannot be chosen, and why; empty if everything can. */
export function missingSentence(option: PolicyOption, chosen: Policy, scheme: Scheme, heads: Heads): string {
  const missing = new Map<string, string[]>();
  for (const policy of names[option].entries) {
    const reason = reasonAgainstPolicy(policy, option, scheme, heads);
    if (reason !== null && policy !== chosen)
      missing.set(reason, [...(missing.get(reason) ?? []), policy.name]);
  }
  return [...missing]
    .map(([reason, [name, ...more]]) => `${more.length > 0 ? 'Each of the others' : name} ${reason}.`)
    .join(' ');
}

/** A policy and its number as papers write it: `opt, α = 0.3`. */
export function policyName({ name, parameter }: Policy, value: number | undefined): string {
  return parameter === null ? name : `${name}, ${parameter.symbol} = ${value ?? parameter.default}`;
}

/** Where a number may be, and what it is when not given. */
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

/** Those of nobody's choice: the exact rule, no gate, rounds of a fixed length. */
export function defaultPolicies(): ChosenPolicies {
  const policies = Object.fromEntries(
    policySelects.map(({ option }) => [option, policyOf(option, policyDefaults[option])]),
  ) as ChosenPolicies['policies'];
  return { policies, values: {}, adaptiveMode: false };
}

/** The same as the package wants them. */
export function optionsFrom({ policies, values, adaptiveMode }: ChosenPolicies): GenerateOptions {
  const { rule, gate, stopRule } = policies;
  return { rule: rule.name, gate: gate.name, stopRule: stopRule.name, ...values, adaptiveMode };
}

/** How a text is distributed. */
export interface Guarantee {
  lossy: boolean;
  sentence: string;
}

/**
 * Whether a text is distributed as the server's model would have it, and by what it is not; null: by the server alone.
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
      ? 'The text is distributed as the server’s own model would have it; the engine behind it draws by itself, so that a seed does not repeat it.'
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
