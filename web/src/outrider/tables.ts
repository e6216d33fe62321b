// The tables of options, in the forms that the package and the page want. What stands in them is written by the engine's crate.

import { names, numbers } from './choices.js';
import type { Policy, PolicyParameterOption, Range } from './descriptions.js';

export type * from './descriptions.js';
import type { Code, Downlink, Goal, NameOptions, NumberOptions, Scheme } from './choices.js';

/** The options that are numbers of their own. */
export type NumberOption = keyof NumberOptions;

/** The options that name a policy: how drafts are judged, which tokens skip verification, what ends a round. */
export type PolicyOption = 'rule' | 'gate' | 'stopRule';

/** The options that are a choice among names, apart from `mode` and the policies. */
export type ChoiceOption = Exclude<keyof NameOptions, PolicyOption>;

/** A name for every choice. */
export type Choices = Required<Pick<NameOptions, ChoiceOption>>;

/** What there is to judge, to skip verification and to end rounds by. The first of each kind is the default. */
export interface Policies {
  /** `rule`: how the server judges drafts. */
  rules: readonly Policy[];
  /** `gate`: which tokens are committed here without asking. */
  gates: readonly Policy[];
  /** `stopRule`: what ends a round. */
  stopRules: readonly Policy[];
  /** Schemes that send too little for any rule but `exact`. */
  exactSchemes: readonly Scheme[];
}

/** Which list an option chooses from, and which option is the number that comes with it. */
export const policyOptions: Readonly<
  Record<PolicyOption, { list: Exclude<keyof Policies, 'exactSchemes'>; parameter: PolicyParameterOption }>
> = {
  rule: { list: 'rules', parameter: 'ruleParameter' },
  gate: { list: 'gates', parameter: 'gateThreshold' },
  stopRule: { list: 'stopRules', parameter: 'stopThreshold' },
};

const byName = <Name extends string>(option: ChoiceOption) =>
  Object.fromEntries(names[option].entries.map((entry) => [entry.name, entry])) as Record<Name, Policy>;

/** The uplink schemes. */
export const schemes: Readonly<Record<Scheme, Policy>> = byName('scheme');
/** How probabilities on a lattice become bits. */
export const codes: Readonly<Record<Code, Policy>> = byName('code');
/** What `dssd` sends down after a rejection. */
export const downlinks: Readonly<Record<Downlink, Policy>> = byName('downlink');
/** What drafting ahead is for. */
export const goals: Readonly<Record<Goal, Policy>> = byName('goal');

/** The acceptance rules, gates and stop rules that there are. */
export const policies: Policies = {
  rules: names.rule.entries,
  gates: names.gate.entries,
  stopRules: names.stopRule.entries,
  exactSchemes: names.scheme.entries
    .filter((scheme) => !scheme.sendsDistributions)
    .map(({ name }) => name as Scheme),
};

const mapped = <Key extends string, From, To>(from: Readonly<Record<Key, From>>, to: (value: From) => To) =>
  Object.fromEntries(Object.entries<From>(from).map(([key, value]) => [key, to(value)])) as Record<Key, To>;
const nameDefaults = mapped(names, (name) => name.default);

/** What options are when not given; null where that hangs on other options. */
export const generationDefaults: Readonly<Record<NumberOption, number | null>> = mapped(
  numbers,
  (n) => n.default,
);

/** What options may be before a model or server narrows them. */
export const generationRanges: Readonly<Record<NumberOption, Range>> = mapped(numbers, (n) => n.range);

/** What choices are when not made. */
export const choiceDefaults = {
  scheme: nameDefaults.scheme,
  code: nameDefaults.code,
  downlink: nameDefaults.downlink,
  goal: nameDefaults.goal,
} as Readonly<Choices>;

/** What names of policies are when not given. */
export const policyDefaults: Readonly<Record<PolicyOption, string>> = {
  rule: nameDefaults.rule,
  gate: nameDefaults.gate,
  stopRule: nameDefaults.stopRule,
};
