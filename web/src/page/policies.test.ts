import { expect, test } from 'vitest';
import { policyOptions } from '../outrider/index.js';
import {
  addPolicies,
  defaultPolicySettings,
  explanationOf,
  guaranteeOf,
  missingSentence,
  optionsFrom,
  policyOf,
  policySelects,
  policySettingsFromQuery,
  rangeHint,
} from './policies.js';
import type { ChosenPolicies } from './policies.js';

const heads = { gate: false, stop: false };

const choose = (rule: string, gate: string, values: ChosenPolicies['values'] = {}): ChosenPolicies => ({
  policies: { rule: policyOf('rule', rule), gate: policyOf('gate', gate), stopRule: policyOf('stopRule', 'fixed') },
  values,
  adaptiveMode: false,
});

test('every kind of policy has a selector', () => {
  expect(policySelects.map(({ option }) => option).sort()).toEqual(Object.keys(policyOptions).sort());
});

test('only the exact rule without a gate keeps the distribution', () => {
  expect(guaranteeOf(choose('exact', 'none'))).toMatchObject({ lossy: false });
  expect(guaranteeOf(null)).toMatchObject({ lossy: false });
  expect(guaranteeOf(null, true).sentence).toMatch(/token for token/);
  expect(guaranteeOf(null, true, true).sentence).toMatch(/a seed does not repeat it/);
  expect(guaranteeOf(choose('exact', 'token-cascade'))).toMatchObject({ lossy: true });
  expect(guaranteeOf(choose('opt', 'none'))).toEqual({
    lossy: true,
    sentence: 'Under opt, α = 0.3: the text is not distributed as the server’s own model would have it.',
  });
  expect(guaranteeOf(choose('lossy', 'sprinter', { ruleParameter: 0.25, gateThreshold: 0.9 })).sentence).toMatch(
    /^Under lossy, α = 0.25 and sprinter, τ = 0.9: /,
  );
});

test('the exact rule is not said to keep the distribution where a gate breaks it', () => {
  const gate = (name: string) => policyOf('gate', name);
  const exact = policyOf('rule', 'exact');
  expect(explanationOf('rule', exact, gate('none'))).toBe(exact.explanation);
  expect(explanationOf('rule', exact, gate('sprinter'))).toBe(`${exact.explanation} Not under this gate.`);
  const opt = policyOf('rule', 'opt');
  expect(explanationOf('rule', opt, gate('sprinter'))).toBe(opt.explanation);
  expect(explanationOf('gate', gate('none'), gate('sprinter'))).toBe(gate('none').explanation);
});

test('what is missing is said once for each reason, and not of what is chosen', () => {
  const exact = policyOf('rule', 'exact');
  const none = policyOf('gate', 'none');
  const sprinter = policyOf('gate', 'sprinter');
  expect(missingSentence('rule', exact, 'k-sqs', heads)).toBe('');
  expect(missingSentence('rule', exact, 'coupled', heads)).toBe(
    'Each of the others needs the draft’s probabilities, which the scheme coupled does not send.',
  );
  expect(missingSentence('gate', none, 'coupled', heads)).toBe(
    'sprinter needs a trained gate, which this draft model does not have.',
  );
  expect(missingSentence('gate', sprinter, 'coupled', heads)).toBe('');
});

test('a name that is none is the default', () => {
  expect(policyOf('rule', 'toString').name).toBe('exact');
});

test('a range says whether its end belongs to it', () => {
  const range = { min: 0, max: 1, integer: false };
  expect(rangeHint(range, 0.5)).toBe('0 to 1; default 0.5');
  expect(rangeHint({ ...range, excluded: 'max' }, 0.3)).toBe('0 to below 1; default 0.3');
  expect(rangeHint({ ...range, max: Infinity }, 3)).toBe('0 or more; default 3');
  expect(rangeHint({ ...range, min: -1 }, 0.1)).toBe('-1 to 1; default 0.1');
  expect(rangeHint({ ...range, min: -Infinity, max: Infinity }, 0.3)).toBe('any number; default 0.3');
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
  const unknown = new URLSearchParams('rule=generous&ruleParameter=0.9');
  expect(policySettingsFromQuery(unknown)).toEqual(defaultPolicySettings());
});

test('the package is told names and numbers', () => {
  expect(optionsFrom(choose('opt', 'none', { ruleParameter: 0.1 }))).toEqual({
    ...{ rule: 'opt', gate: 'none', stopRule: 'fixed' },
    ruleParameter: 0.1,
    adaptiveMode: false,
  });
});
