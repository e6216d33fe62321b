// How drafts are judged, which tokens pass unverified, and what ends a round. The table is the engine's own; here are
// its types, and what follows from it.

import { OutriderError } from './errors.js';
import type { Range } from './options.js';
import type { Scheme } from './schemes.js';

/** A linear head that can be trained on the draft model's hidden states. */
export type Head = 'gate' | 'stop';

/** One of several named ways to decide something. */
export interface Policy {
  /** As options and papers have it. */
  name: string;
  /** The number that comes with it; null if none does. */
  parameter: PolicyParameter | null;
  /** One sentence. */
  explanation: string;
  /** Where it was first described. */
  source: string;
  /** Whether the text's law may differ from that of the server's model. */
  lossy: boolean;
  /** The head that the draft model must have for it; null if none. */
  head: Head | null;
}

/** The number that comes with a policy. */
export interface PolicyParameter {
  /** The papers' letter. */
  symbol: string;
  default: number;
  range: Range;
}

/** An acceptance rule. */
export interface RulePolicy extends Policy {
  /** Whether the server adds a token after a round in which all drafts stand. */
  hasBonus: boolean;
}

/** Everything there is, as the engine tells it. The first of each kind is the default. */
export interface Policies {
  /** `rule`: how the server judges drafts. */
  rules: readonly RulePolicy[];
  /** `gate`: which tokens are committed here without asking. */
  gates: readonly Policy[];
  /** `stopRule`: what ends a round. */
  stopRules: readonly Policy[];
  /** Schemes that send too little for any rule but `exact`. */
  exactSchemes: readonly Scheme[];
}

/** The options that name a policy. */
export type PolicyOption = 'rule' | 'gate' | 'stopRule';

/** The options that are a policy's number. */
export type PolicyParameterOption = 'ruleParameter' | 'gateThreshold' | 'stopThreshold';

/** Which list an option chooses from, and which option is the number that comes with it. */
export const policyOptions: Readonly<
  Record<PolicyOption, { list: Exclude<keyof Policies, 'exactSchemes'>; parameter: PolicyParameterOption }>
> = {
  rule: { list: 'rules', parameter: 'ruleParameter' },
  gate: { list: 'gates', parameter: 'gateThreshold' },
  stopRule: { list: 'stopRules', parameter: 'stopThreshold' },
};

/** What decides which policies can be had. */
export interface PolicyNeeds {
  policies: Policies;
  /** The heads that the draft model has. */
  heads: Readonly<Record<Head, boolean>>;
}

/** The policy that an option names. @throws {@link OutriderError} `invalid-option` */
export function policyNamed(policies: Policies, option: PolicyOption, name: string): Policy {
  const list: readonly Policy[] = policies[policyOptions[option].list];
  const found = list.find((policy) => policy.name === name);
  if (!found) {
    const names = list.map((policy) => `'${policy.name}'`).join(', ');
    throw new OutriderError('invalid-option', `${option} must be one of ${names}, not '${name}'`);
  }
  return found;
}

/** Why a policy cannot be had, as the end of a sentence that starts with its name; null if it can. */
export function reasonAgainstPolicy(
  policy: Policy,
  option: PolicyOption,
  scheme: Scheme,
  { policies, heads }: PolicyNeeds,
): string | null {
  if (policy.head !== null && !heads[policy.head]) {
    const head = { gate: 'gate', stop: 'stop head' }[policy.head];
    return `needs a trained ${head}, which this draft model does not have`;
  }
  // Under any scheme the exact rule can be had, and gates do not look at what is sent.
  if (option === 'rule' && policy.lossy && policies.exactSchemes.includes(scheme)) {
    return `needs the draft’s probabilities, which the scheme ${scheme} does not send`;
  }
  return null;
}
