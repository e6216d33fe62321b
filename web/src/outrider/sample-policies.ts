// A few policies for tests: one of each shape. The engine has them all.

import type { Policies, Policy, PolicyNeeds, RulePolicy } from './policies.js';

const policy = (name: string, part: Partial<Policy> = {}): Policy => ({
  name,
  parameter: null,
  explanation: `What ${name} does.`,
  source: 'a test',
  lossy: false,
  head: null,
  ...part,
});
const rule = (name: string, part: Partial<RulePolicy> = {}): RulePolicy => ({
  ...policy(name, part),
  hasBonus: part.hasBonus ?? false,
});
const probability = { min: 0, max: 1, integer: false };

export const samplePolicies: Policies = {
  rules: [
    rule('exact', { hasBonus: true }),
    rule('lossy', {
      lossy: true,
      parameter: { symbol: 'α', default: 0.3, range: { ...probability, excluded: 'max' } },
    }),
    rule('opt', {
      lossy: true,
      parameter: { symbol: 'α', default: 0.3, range: { ...probability, max: Infinity } },
    }),
  ],
  gates: [
    policy('none'),
    policy('sprinter', {
      lossy: true,
      head: 'gate',
      parameter: { symbol: 'τ', default: 0.5, range: probability },
    }),
    policy('token-cascade', {
      lossy: true,
      parameter: { symbol: 'α', default: 0.5, range: probability },
    }),
  ],
  stopRules: [
    policy('fixed'),
    policy('specdec', { head: 'stop', parameter: { symbol: 'h', default: 0.5, range: probability } }),
  ],
  exactSchemes: ['dssd', 'coupled'],
};

/** With a draft model that has no heads. */
export const sampleNeeds: PolicyNeeds = { policies: samplePolicies, heads: { gate: false, stop: false } };
