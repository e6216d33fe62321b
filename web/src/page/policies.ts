// How drafts are judged and rounds ended, as the form has it: what can be chosen, why not, and what it does to the text.

import { policyDefaults, policyOptions, reasonAgainstPolicy } from '../outrider/index.js';
import type {
  GenerateOptions,
  Policies,
  Policy,
  PolicyNeeds,
  PolicyOption,
  PolicyParameterOption,
  Range,
  Scheme,
} from '../outrider/index.js';

/** A selector of the form, and the number beside it. */
export interface PolicySelect {
  option: PolicyOption;
  group: 'verification' | 'rounds';
  label: string;
  parameterLabel: string;
}

export const policySelects: readonly PolicySelect[] = [
  { option: 'rule', group: 'verification', label: 'Acceptance rule', parameterLabel: 'Parameter' },
  { option: 'gate', group: 'verification', label: 'Gate', parameterLabel: 'Threshold' },
  { option: 'stopRule', group: 'rounds', label: 'Stop rule', parameterLabel: 'Threshold' },
];

/** What the form holds of them. The engine, which knows what there is, comes later than the form. */
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

/** Policies out of an address's query: the options by their names. Nobody knows yet whether there are such policies. */
export function policySettingsFromQuery(query: URLSearchParams): PolicySettings {
  const settings = defaultPolicySettings();
  for (const { option } of policySelects) {
    settings.names[option] = query.get(option) ?? settings.names[option];
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

/** The policies that a selector chooses from. */
export function policiesOf(policies: Policies, option: PolicyOption): readonly Policy[] {
  return policies[policyOptions[option].list];
}

/** The policy of that name; the default if there is none of that name. */
export function policyOf(policies: Policies, option: PolicyOption, name: string): Policy {
  const list = policiesOf(policies, option);
  const found = list.find((policy) => policy.name === name) ?? list[0];
  if (!found) throw new Error(`the engine knows no ${option}`);
  return found;
}

/** A policy's sentence. That of an exact rule does not hold where a gate lets tokens pass. */
export function explanationOf(option: PolicyOption, policy: Policy, gate: Policy): string {
  const broken = option === 'rule' && !policy.lossy && gate.lossy;
  return broken ? `${policy.explanation} Not under this gate.` : policy.explanation;
}

/** What cannot be chosen, and why; empty if everything can. */
export function missingSentence(
  option: PolicyOption,
  chosen: Policy,
  scheme: Scheme,
  needs: PolicyNeeds,
): string {
  const names = new Map<string, string[]>();
  for (const policy of policiesOf(needs.policies, option)) {
    const reason = reasonAgainstPolicy(policy, option, scheme, needs);
    if (reason !== null && policy !== chosen) names.set(reason, [...(names.get(reason) ?? []), policy.name]);
  }
  return [...names]
    .map(([reason, [name, ...more]]) => `${more.length > 0 ? 'Each of the others' : name} ${reason}.`)
    .join(' ');
}

/** A policy and its number as papers write it: `opt, α = 0.3`. */
export function policyName({ name, parameter }: Policy, value: number | undefined): string {
  return parameter === null ? name : `${name}, ${parameter.symbol} = ${value ?? parameter.default}`;
}

/** Where a number may be, and what it is when not given. */
export function rangeHint({ min, max, excluded }: Range, usual: number): string {
  const range =
    max === Infinity ? `${min} or more` : excluded === 'max' ? `${min} to below ${max}` : `${min} to ${max}`;
  return `${range}; default ${usual}`;
}

/** The policies of a run. */
export interface ChosenPolicies {
  policies: Record<PolicyOption, Policy>;
  values: Partial<Record<PolicyParameterOption, number>>;
  adaptiveMode: boolean;
}

/** The same as the package wants them. */
export function optionsFrom({ policies, values, adaptiveMode }: ChosenPolicies): GenerateOptions {
  const { rule, gate, stopRule } = policies;
  return { rule: rule.name, gate: gate.name, stopRule: stopRule.name, ...values, adaptiveMode };
}

/** What a text promises. */
export interface Law {
  lossy: boolean;
  sentence: string;
}

/** Whose law a text has, and by what it has lost it; null is a text of the server alone. */
export function lawOf(chosen: Pick<ChosenPolicies, 'policies' | 'values'> | null): Law {
  if (!chosen) return { lossy: false, sentence: 'The server’s own model wrote it alone.' };
  const { policies, values } = chosen;
  const guilty = (['rule', 'gate'] as const)
    .filter((option) => policies[option].lossy)
    .map((option) => policyName(policies[option], values[policyOptions[option].parameter]));
  if (guilty.length === 0) {
    return { lossy: false, sentence: 'The text has the law of the server’s own model.' };
  }
  return {
    lossy: true,
    sentence: `Under ${guilty.join(' and ')}: the text does not have the law of the server’s own model.`,
  };
}
