// The tables of options, in the forms that the package and the page want. What stands in them is written by the engine's crate.

import { names, numbers } from './choices.js';
import type {
  Code,
  Downlink,
  Goal,
  NameOptions,
  NumberOptions,
  ParameterOptions,
  Scheme,
} from './choices.js';

/** The options that are numbers of their own. */
export type NumberOption = keyof NumberOptions;

/** The options that name a policy: how drafts are judged, which tokens skip verification, what ends a round. */
export type PolicyOption = 'rule' | 'gate' | 'stopRule';

/** The options that are a policy's number. */
export type PolicyParameterOption = keyof ParameterOptions;

/** The options that are a choice among names, apart from `mode` and the policies. */
export type ChoiceOption = Exclude<keyof NameOptions, PolicyOption>;

/** A name for every choice. */
export type Choices = Required<Pick<NameOptions, ChoiceOption>>;

/** The parts of the page. */
export type Group = 'sampling' | 'drafting' | 'verification' | 'rounds';

/** The allowed values of an option, bounds included. */
export interface Range {
  min: number;
  max: number;
  integer: boolean;
  /** The bound that is itself not allowed. */
  excluded?: 'max';
}

/** An option that is a number. */
export interface NumberDescription {
  /** Its name for people. */
  label: string;
  /** The papers' letter; empty if it has none. */
  symbol: string;
  /** What it is, as a phrase. */
  explanation: string;
  group: Group;
  /** Null where it hangs on other options. */
  default: number | null;
  /** What is then taken, as a phrase. */
  unset?: string;
  range: Range;
  /** How far an arrow key moves it. */
  step: number;
}

/** An option that is a name. */
export interface NameDescription {
  label: string;
  /** What it decides, as a phrase. */
  explanation: string;
  /** How a sentence on what is chosen begins; empty if entries have sentences of their own. */
  lead: string;
  group: Group;
  default: string;
  /** The option that is the number of what is chosen; null if there is none. */
  parameter: { option: PolicyParameterOption; label: string } | null;
  entries: readonly Policy[];
}

/** A linear head that can be trained on the draft model's hidden states. */
export type Head = 'gate' | 'stop';

/** One of several named ways to do something. */
export interface Policy {
  /** As options and papers have it. */
  name: string;
  /** Its name for people. */
  label: string;
  /** One sentence; of schemes, codes and downlinks what travels, to be put behind a colon. */
  explanation: string;
  /** Where it was first described. */
  source: string;
  /** The options that it reads, of those that not all of its kind read. */
  options: readonly string[];
  /** The number that comes with it; null if none does. */
  parameter: PolicyParameter | null;
  /** Whether the text may be distributed otherwise than the server's model would have it. */
  lossy: boolean;
  /** The head that the draft model must have for it; null if none. */
  head: Head | null;
  /** Of rules: whether the server adds a token after a round in which all drafts are accepted. */
  hasBonus?: boolean;
  /** Of schemes: whether any rule can judge what is sent; otherwise only the exact one can. */
  sendsDistributions?: boolean;
}

/** The number that comes with a policy. */
export interface PolicyParameter {
  /** The papers' letter. */
  symbol: string;
  default: number;
  range: Range;
}

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
