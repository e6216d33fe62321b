import { expect, test } from 'vitest';
import { resolveRequest } from './options.js';
import type { GenerateOptions } from './options.js';
import { reasonAgainstPolicy, willBeAhead } from './policies.js';
import { generationRanges, policies, policyDefaults, policyOptions } from './tables.js';
import type { PolicyOption } from './tables.js';

const none = { gate: false, stop: false };
const resolve = (options: GenerateOptions, heads = none) => resolveRequest('p', options, generationRanges, heads);

test('what is not given is the first of each kind', () => {
  for (const [option, { list }] of Object.entries(policyOptions)) {
    expect(policies[list][0]?.name).toBe(policyDefaults[option as PolicyOption]);
  }
  expect(resolve({})).toMatchObject({
    ...policyDefaults,
    ...{ ruleParameter: null, gateThreshold: null, stopThreshold: null },
    adaptiveMode: false,
  });
});

test('a number that is not given is the policy’s own', () => {
  expect(resolve({ rule: 'opt', gate: 'token-cascade' })).toMatchObject({
    ...{ rule: 'opt', ruleParameter: 0.3 },
    ...{ gate: 'token-cascade', gateThreshold: 0.5 },
  });
  expect(resolve({ rule: 'opt', ruleParameter: 0, adaptiveMode: true })).toMatchObject({
    ruleParameter: 0,
    adaptiveMode: true,
  });
  expect(resolve({ rule: 'exact', ruleParameter: 9 })).toMatchObject({ ruleParameter: null });
});

test('with a gate one round is in flight', () => {
  expect(() => resolve({ gate: 'token-cascade', maxInFlight: 2 })).toThrow(
    "maxInFlight must be 1 with gate 'token-cascade'",
  );
  expect(resolve({ gate: 'token-cascade', maxInFlight: 1 })).toMatchObject({ maxInFlight: 1 });
  expect(resolve({ maxInFlight: 2 })).toMatchObject({ maxInFlight: 2, gate: 'none' });
  expect(resolve({ mode: 'cloud-only', gate: 'token-cascade', maxInFlight: 2 })).toMatchObject({ maxInFlight: 2 });
});

test('numbers out of a policy’s range are refused, each by its own range', () => {
  const wrong: [GenerateOptions, unknown][] = [
    [{ rule: 'lossy', ruleParameter: 1 }, "ruleParameter of 'lossy' must be below 1"],
    [{ rule: 'chow', ruleParameter: -0.1 }, "ruleParameter of 'chow' must be at least 0"],
    [{ rule: 'diff', ruleParameter: -1.1 }, "ruleParameter of 'diff' must be at least -1"],
    [{ rule: 'opt', ruleParameter: Infinity }, "ruleParameter of 'opt' must be a number"],
    [{ gate: 'token-cascade', gateThreshold: 1.1 }, "gateThreshold of 'token-cascade' must be at most 1"],
    [{ rule: 'strict' }, expect.stringMatching(/^rule must be one of 'exact', 'lossy', .*, not 'strict'$/)],
    [{ stopRule: 'late' }, "stopRule must be one of 'fixed', 'odld', 'adaedl', 'specdec', 'bild', not 'late'"],
  ];
  for (const [options, message] of wrong) {
    expect(() => resolve(options)).toThrow(expect.objectContaining({ code: 'invalid-option', message }));
  }
  expect(resolve({ rule: 'opt', ruleParameter: 7 })).toMatchObject({ ruleParameter: 7 });
  expect(resolve({ rule: 'opt', ruleParameter: -7 })).toMatchObject({ ruleParameter: -7 });
});

test('what needs a head that is not there is refused, and had with it', () => {
  expect(() => resolve({ gate: 'sprinter' })).toThrow(
    "gate 'sprinter' needs a trained gate, which this draft model does not have",
  );
  expect(() => resolve({ stopRule: 'specdec' })).toThrow("stopRule 'specdec' needs a trained stop head");
  const heads = { gate: true, stop: false };
  expect(resolve({ gate: 'sprinter' }, heads)).toMatchObject({ gateThreshold: 0.5 });
  expect(() => resolve({ stopRule: 'specdec' }, heads)).toThrow('stop head');
});

test('lossy rules need the probabilities; gates and the exact rule do not', () => {
  for (const scheme of ['dssd', 'coupled'] as const) {
    expect(() => resolve({ scheme, rule: 'opt' })).toThrow(
      `rule 'opt' needs the draft’s probabilities, which the scheme ${scheme} does not send`,
    );
    expect(resolve({ scheme, gate: 'token-cascade' })).toMatchObject({ scheme, rule: 'exact' });
  }
  for (const policy of policies.rules) {
    expect(reasonAgainstPolicy(policy, 'rule', 'k-sqs', none)).toBeNull();
  }
});

test('gates need rounds', () => {
  expect(() => resolve({ scheme: 'ahead', gate: 'token-cascade' })).toThrow(
    "gate 'token-cascade' needs rounds, which the scheme ahead does not have",
  );
  expect(() => resolve({ scheme: 'ahead', rule: 'opt' })).toThrow('which the scheme ahead does not send');
  expect(resolve({ scheme: 'auto', gate: 'token-cascade', rule: 'opt' })).toMatchObject({ scheme: 'auto' });
});

test('by default drafts are made ahead of the server, where it takes guesses and its own text is wanted', () => {
  const takes = { maxGuesses: 16 };
  expect(willBeAhead(resolve({}), takes)).toBe(true);
  expect(willBeAhead(resolve({}), { maxGuesses: 0 })).toBe(false);
  expect(willBeAhead(resolve({ mode: 'cloud-only' }), takes)).toBe(false);
  for (const policy of policies.rules) {
    expect(willBeAhead(resolve({ rule: policy.name }), takes), policy.name).toBe(!policy.lossy);
  }
  expect(willBeAhead(resolve({ gate: 'token-cascade' }), takes)).toBe(false);
  expect(willBeAhead(resolve({ compareSchemes: true }), takes)).toBe(false);
  expect(willBeAhead(resolve({ stopRule: 'odld' }), takes)).toBe(false);
  expect(willBeAhead(resolve({ adaptiveMode: true }), takes)).toBe(false);
  expect(willBeAhead(resolve({ scheme: 'ahead' }), { maxGuesses: 0 })).toBe(true);
  expect(willBeAhead(resolve({ scheme: 'k-sqs' }), takes)).toBe(false);
});

test('the server alone needs none of it, but names must be names', () => {
  const alone = { mode: 'cloud-only' } as const;
  expect(resolve({ ...alone, gate: 'sprinter', scheme: 'dssd', rule: 'opt' }).mode).toBe('cloud-only');
  expect(() => resolve({ ...alone, gate: 'fence' })).toThrow('gate must be one of');
});
