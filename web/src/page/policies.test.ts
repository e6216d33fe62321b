import { expect, test } from 'vitest';
import { policyOptions } from '../outrider/index.js';
import { sampleNeeds, samplePolicies } from '../outrider/sample-policies.js';
import {
  addPolicies,
  defaultPolicySettings,
  explanationOf,
  lawOf,
  missingSentence,
  optionsFrom,
  policyOf,
  policySelects,
  policySettingsFromQuery,
  rangeHint,
} from './policies.js';
import type { ChosenPolicies } from './policies.js';

const choose = (rule: string, gate: string, values: ChosenPolicies['values'] = {}): ChosenPolicies => ({
  policies: {
    rule: policyOf(samplePolicies, 'rule', rule),
    gate: policyOf(samplePolicies, 'gate', gate),
    stopRule: policyOf(samplePolicies, 'stopRule', 'fixed'),
  },
  values,
  adaptiveMode: false,
});

test('every kind of policy has a selector', () => {
  expect(policySelects.map(({ option }) => option).sort()).toEqual(Object.keys(policyOptions).sort());
});

test('only the exact rule without a gate keeps the law', () => {
  expect(lawOf(choose('exact', 'none'))).toMatchObject({ lossy: false });
  expect(lawOf(null)).toMatchObject({ lossy: false });
  expect(lawOf(choose('exact', 'token-cascade'))).toMatchObject({ lossy: true });
  expect(lawOf(choose('opt', 'none'))).toEqual({
    lossy: true,
    sentence: 'Under opt, α = 0.3: the text does not have the law of the server’s own model.',
  });
  expect(lawOf(choose('lossy', 'sprinter', { ruleParameter: 0.25, gateThreshold: 0.9 })).sentence).toMatch(
    /^Under lossy, α = 0.25 and sprinter, τ = 0.9: /,
  );
});

test('the exact rule is not said to keep the law where a gate breaks it', () => {
  const gate = (name: string) => policyOf(samplePolicies, 'gate', name);
  const exact = policyOf(samplePolicies, 'rule', 'exact');
  expect(explanationOf('rule', exact, gate('none'))).toBe('What exact does.');
  expect(explanationOf('rule', exact, gate('sprinter'))).toBe('What exact does. Not under this gate.');
  const opt = policyOf(samplePolicies, 'rule', 'opt');
  expect(explanationOf('rule', opt, gate('sprinter'))).toBe('What opt does.');
  expect(explanationOf('gate', gate('none'), gate('sprinter'))).toBe('What none does.');
});

test('what is missing is said once for each reason, and not of what is chosen', () => {
  const exact = policyOf(samplePolicies, 'rule', 'exact');
  const none = policyOf(samplePolicies, 'gate', 'none');
  const sprinter = policyOf(samplePolicies, 'gate', 'sprinter');
  expect(missingSentence('rule', exact, 'k-sqs', sampleNeeds)).toBe('');
  expect(missingSentence('rule', exact, 'coupled', sampleNeeds)).toBe(
    'Each of the others needs the draft’s probabilities, which the scheme coupled does not send.',
  );
  expect(missingSentence('gate', none, 'coupled', sampleNeeds)).toBe(
    'sprinter needs a trained gate, which this draft model does not have.',
  );
  expect(missingSentence('gate', sprinter, 'coupled', sampleNeeds)).toBe('');
});

test('a name that is none is the default', () => {
  expect(policyOf(samplePolicies, 'rule', 'toString').name).toBe('exact');
});

test('a range says whether its end belongs to it', () => {
  const range = { min: 0, max: 1, integer: false };
  expect(rangeHint(range, 0.5)).toBe('0 to 1; default 0.5');
  expect(rangeHint({ ...range, excluded: 'max' }, 0.3)).toBe('0 to below 1; default 0.3');
  expect(rangeHint({ ...range, max: Infinity }, 3)).toBe('0 or more; default 3');
});

test('settings come back from their query, and the defaults need none', () => {
  const settings = defaultPolicySettings();
  const query = new URLSearchParams();
  addPolicies(settings, query);
  expect(query.toString()).toBe('');
  settings.names = { rule: 'opt', gate: 'sprinter', stopRule: 'odld' };
  settings.texts = { rule: '0.7', gate: 'much', stopRule: '' };
  settings.adaptiveMode = true;
  addPolicies(settings, query);
  expect(query.toString()).toBe(
    'rule=opt&ruleParameter=0.7&gate=sprinter&gateThreshold=much&stopRule=odld&adaptiveMode=true',
  );
  expect(policySettingsFromQuery(query)).toEqual(settings);
});

test('the package is told names and numbers', () => {
  expect(optionsFrom(choose('opt', 'none', { ruleParameter: 0.1 }))).toEqual({
    ...{ rule: 'opt', gate: 'none', stopRule: 'fixed' },
    ruleParameter: 0.1,
    adaptiveMode: false,
  });
});
