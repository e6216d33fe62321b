// Which policies can be had, and why others cannot.

import type { Scheme } from './choices.js';
import type { GenerateRequest, SessionInfo } from './edge.js';
import { invalidOption } from './errors.js';
import { policies as all, policyDefaults, policyOptions } from './tables.js';
import type { Head, Policy, PolicyOption } from './tables.js';

/** The heads that a draft model has. */
export type Heads = Readonly<Record<Head, boolean>>;

/** The policy that an option names. @throws {@link OutriderError} `invalid-option` */
export function policyNamed(option: PolicyOption, name: string): Policy {
  const list: readonly Policy[] = all[policyOptions[option].list];
  const found = list.find((policy) => policy.name === name);
  if (!found) {
    const names = list.map((policy) => `'${policy.name}'`).join(', ');
    throw invalidOption(`${option} must be one of ${names}, not '${name}'`);
  }
  return found;
}

/** Why a policy cannot be had, as the end of a sentence that starts with its name; null if it can. */
export function reasonAgainstPolicy(
  policy: Policy,
  option: PolicyOption,
  scheme: Scheme,
  heads: Heads,
): string | null {
  if (policy.head !== null && !heads[policy.head]) {
    const head = { gate: 'gate', stop: 'stop head' }[policy.head];
    return `needs a trained ${head}, which this draft model does not have`;
  }
  if (option === 'gate' && policy.lossy && scheme === 'ahead') {
    return 'needs rounds, which the scheme ahead does not have';
  }
  // Under any scheme the exact rule can be had, and gates do not look at what rounds send.
  if (option === 'rule' && policy.lossy && all.exactSchemes.includes(scheme)) {
    return `needs the draft’s probabilities, which the scheme ${scheme} does not send`;
  }
  return null;
}

/** What decides whether there are rounds. */
export type Asked = Pick<GenerateRequest, 'mode' | 'scheme' | 'rule' | 'gate' | 'compareSchemes'> &
  Partial<Pick<GenerateRequest, 'stopRule' | 'adaptiveMode' | 'maxInFlight' | 'evidence'>>;

/**
 * Whether a generation is drafted ahead of a text that the server writes, without rounds: `ahead`, and `auto` where the
 * server takes guesses and nothing is asked for but its own text, and nothing of rounds. Crate `speculation` decides the same.
 */
export function willBeAhead(asked: Asked, { maxGuesses }: Pick<SessionInfo, 'maxGuesses'>): boolean {
  if (asked.mode === 'cloud-only') return false;
  if (asked.scheme !== 'auto') return asked.scheme === 'ahead';
  const isLossy = policyNamed('rule', asked.rule).lossy || policyNamed('gate', asked.gate).lossy;
  const { stopRule = policyDefaults.stopRule, adaptiveMode = false, maxInFlight = 1 } = asked;
  const asksForRounds = stopRule !== policyDefaults.stopRule || adaptiveMode || maxInFlight > 1;
  const looksIntoRounds = asked.compareSchemes || (asked.evidence ?? false);
  return maxGuesses > 0 && !isLossy && !looksIntoRounds && !asksForRounds;
}
