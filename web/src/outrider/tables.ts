// The tables of options, in the forms that the package and the page use. The engine's crate generates their contents.

import { names, numbers } from './choices.js';
import type { Policy, PolicyParameterOption, Range } from './descriptions.js';

export type * from './descriptions.js';
import type { Code, Downlink, Goal, NameOptions, NumberOptions, Scheme, Verification } from './choices.js';

/** The options that are numbers of their own. */
export type NumberOption = keyof NumberOptions;

/** The options that name a policy: how drafts are judged, which tokens skip verification, what ends a round. */
export type PolicyOption = 'rule' | 'gate' | 'stopRule';

/** The options that are a choice among names, apart from `mode` and the policies. */
export type ChoiceOption = Exclude<keyof NameOptions, PolicyOption>;

/** A value for every choice. */
export type Choices = { [Option in ChoiceOption]: NonNullable<NameOptions[Option]> };

/** The acceptance rules, gates and stop rules. The first of each kind is the default. */
export interface Policies {
  /** Values of `rule`: how the server judges drafts. */
  rules: readonly Policy[];
  /** Values of `gate`: which tokens are committed unverified. */
  gates: readonly Policy[];
  /** Values of `stopRule`: what ends a round. */
  stopRules: readonly Policy[];
  /** Schemes whose payload suffices for the rule `exact` only. */
  exactSchemes: readonly Scheme[];
}

/** The list that each policy option chooses from, and the option for its number. */
export const policyOptions: Readonly<
  Record<PolicyOption, { list: Exclude<keyof Policies, 'exactSchemes'>; parameter: PolicyParameterOption }>
> = {
  rule: { list: 'rules', parameter: 'ruleParameter' },
  gate: { list: 'gates', parameter: 'gateThreshold' },
  stopRule: { list: 'stopRules', parameter: 'stopThreshold' },
};

const byName = <Name extends string>(option: ChoiceOption) =>
  Object.fromEntries(names[option].entries.map((entry) => [entry.name, entry])) as Record<Name, Policy>;

/** The uplink schemes by name. */
export const schemes: Readonly<Record<Scheme, Policy>> = byName('scheme');
/** The codes of probabilities on a lattice, by name. */
export const codes: Readonly<Record<Code, Policy>> = byName('code');
/** The answers of `dssd` after a rejection, by name. */
export const downlinks: Readonly<Record<Downlink, Policy>> = byName('downlink');
/** The goals of drafting ahead, by name. */
export const goals: Readonly<Record<Goal, Policy>> = byName('goal');
/** The ways to choose the accepted drafts of a round, by name. */
export const verifications: Readonly<Record<Verification, Policy>> = byName('verification');

/** All acceptance rules, gates and stop rules. */
export const policies: Policies = {
  rules: names.rule.entries,
  gates: names.gate.entries,
  stopRules: names.stopRule.entries,
  exactSchemes: names.scheme.entries.filter((scheme) => !scheme.sendsDistributions).map(({ name }) => name as Scheme),
};

const mapped = <Key extends string, From, To>(from: Readonly<Record<Key, From>>, to: (value: From) => To) =>
  Object.fromEntries(Object.entries<From>(from).map(([key, value]) => [key, to(value)])) as Record<Key, To>;
const nameDefaults = mapped(names, (name) => name.default);

/** Defaults of the number options; null where one depends on other options. */
export const generationDefaults: Readonly<Record<NumberOption, number | null>> = mapped(numbers, (n) => n.default);

/** Ranges of the number options, before a model or server narrows them. */
export const generationRanges: Readonly<Record<NumberOption, Range>> = mapped(numbers, (n) => n.range);

/** Defaults of the choices. */
export const choiceDefaults = {
  scheme: nameDefaults.scheme,
  code: nameDefaults.code,
  downlink: nameDefaults.downlink,
  goal: nameDefaults.goal,
  verification: nameDefaults.verification,
} as Readonly<Choices>;

/** Defaults of the policies. */
export const policyDefaults: Readonly<Record<PolicyOption, string>> = {
  rule: nameDefaults.rule,
  gate: nameDefaults.gate,
  stopRule: nameDefaults.stopRule,
};
