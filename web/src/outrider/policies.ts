// The policies that are available, and why others are not.

import type { Scheme } from './choices.js';
import type { GenerateRequest, SessionInfo } from './edge.js';
import { invalidOption } from './errors.js';
import { policies as all, policyDefaults, policyOptions } from './tables.js';
import type { Head, Policy, PolicyOption } from './tables.js';

/** The heads that a draft model has. */
export type Heads = Readonly<Record<Head, boolean>>;

/** Looks up the policy that an option names. @throws {@link OutriderError} `invalid-option` */
export function policyNamed(option: PolicyOption, name: string): Policy {
  const list: readonly Policy[] = all[policyOptions[option].list];
  const found = list.find((policy) => policy.name === name);
  if (!found) {
    const names = list.map((policy) => `'${policy.name}'`).join(', ');
    throw invalidOption(`${option} must be one of ${names}, not '${name}'`, { option });
  }
  return found;
}

/** Describes why a policy is not available, as the end of a sentence that starts with its name; null if it is. */
export function reasonAgainstPolicy(policy: Policy, option: PolicyOption, scheme: Scheme, heads: Heads): string | null {
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

/** The parts of a request that decide whether it has rounds. */
export type Asked = Pick<GenerateRequest, 'mode' | 'scheme' | 'rule' | 'gate' | 'compareSchemes'> &
  Partial<Pick<GenerateRequest, 'stopRule' | 'adaptiveMode' | 'maxInFlight' | 'evidence'>>;

/**
 * Decides whether a generation drafts ahead of a text that the server writes, without rounds: under `ahead`, and under
 * `auto` where the server takes guesses and no option asks for rounds or a lossy text. Crate `speculation` decides the
 * same.
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
