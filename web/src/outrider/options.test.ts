import { expect, test } from 'vitest';
import { reasonAgainst, resolveRequest } from './options.js';
import type { GenerateOptions } from './options.js';
import {
  choiceDefaults,
  codes,
  downlinks,
  generationDefaults,
  generationRanges,
  policyOptions,
  schemes,
} from './tables.js';
import type { NumberOption } from './tables.js';
import type { Scheme } from './choices.js';

const heads = { gate: false, stop: false };
const resolve = (options: GenerateOptions) => resolveRequest('p', options, generationRanges, heads);

test('every default is inside its range', () => {
  for (const [option, value] of Object.entries(generationDefaults)) {
    if (value === null) continue;
    expect(reasonAgainst(value, generationRanges[option as NumberOption]), option).toBeNull();
  }
});

test('a request has every field, whatever the scheme', () => {
  const fields = [
    ...['prompt', 'mode'],
    ...Object.keys(generationDefaults),
    ...Object.keys(choiceDefaults),
    ...Object.entries(policyOptions).flatMap(([option, { parameter }]) => [option, parameter]),
    ...['adaptiveMode', 'compareSchemes'],
  ].sort();
  for (const scheme of Object.keys(schemes) as Scheme[]) {
    const request = resolve({ scheme });
    expect(Object.keys(request).sort()).toEqual(fields);
    expect(request).toMatchObject({
      ...{ prompt: 'p', mode: 'speculative' },
      ...generationDefaults,
      ...choiceDefaults,
      scheme,
    });
  }
});

test('what is given is what is sent', () => {
  const options: GenerateOptions = {
    scheme: 'c-sqs',
    code: 'adaptive',
    downlink: 'full',
    droppedMassTarget: 0,
    stepSize: 1,
    initialThreshold: 1,
    downlinkSamples: 64,
  };
  expect(resolve(options)).toMatchObject(options);
});

test('a draft temperature is the target’s unless it is given, 0 included', () => {
  expect(resolve({ temperature: 0.3 }).draftTemperature).toBeNull();
  expect(resolve({ draftTemperature: 0 }).draftTemperature).toBe(0);
  expect(() => resolve({ draftTemperature: -0.1 })).toThrow('draftTemperature must be at least 0');
});

test('the draft length is left to the gate unless it is given', () => {
  expect(resolve({}).draftLength).toBeNull();
  expect(resolve({ draftLength: 4 }).draftLength).toBe(4);
});

test('bounds hold, and those that are excluded are', () => {
  const wrong: [GenerateOptions, string][] = [
    [{ droppedMassTarget: 1 }, 'droppedMassTarget must be below 1'],
    [{ droppedMassTarget: -0.1 }, 'droppedMassTarget must be at least 0'],
    [{ stepSize: -0.1 }, 'stepSize must be at least 0'],
    [{ stepSize: 1.1 }, 'stepSize must be at most 1'],
    [{ initialThreshold: 1.1 }, 'initialThreshold must be at most 1'],
    [{ downlinkSamples: 0 }, 'downlinkSamples must be at least 1'],
    [{ downlinkSamples: 65 }, 'downlinkSamples must be at most 64'],
    [{ downlinkSamples: 1.5 }, 'downlinkSamples must be a whole number'],
  ];
  for (const [options, message] of wrong) {
    expect(() => resolve(options)).toThrow(expect.objectContaining({ code: 'invalid-option', message }));
  }
});

test('a prompt is a text or a conversation', () => {
  const resolved = (prompt: unknown) => resolveRequest(prompt as string, {}, generationRanges, heads).prompt;
  const messages = [{ role: 'user', content: 'Hello' }];
  expect(resolved(messages)).toBe(messages);
  for (const wrong of [[], null, 7, [{ role: 'tool', content: '' }], [{ role: 'user' }], ['Hello']]) {
    expect(() => resolved(wrong)).toThrow(expect.objectContaining({ code: 'invalid-option' }));
  }
});

test('a name that is none lists those there are', () => {
  expect(() => resolve({ scheme: 'sqs' as Scheme })).toThrow(
    "scheme must be one of 'auto', 'ahead', 'dense', 'qs', 'k-sqs', 'c-sqs', 'tk-slt', 'dssd', 'coupled', not 'sqs'",
  );
  // Neither are those that every object has.
  expect(() => resolve({ scheme: 'toString' as Scheme })).toThrow('scheme must be one of');
  expect(() => resolve({ code: 'zip' as 'adaptive' })).toThrow(
    "code must be one of 'enumerative', 'adaptive'",
  );
  expect(() => resolve({ downlink: '' as 'full' })).toThrow("downlink must be one of 'full', 'sampled'");
});

test('everything named is described, and uses options that exist', () => {
  for (const { label, explanation, source } of [schemes, codes, downlinks].flatMap((table) =>
    Object.values(table),
  )) {
    expect(label).not.toBe('');
    expect(explanation).toMatch(/^[a-z].*\.$/);
    expect(source).not.toBe('');
  }
  const request = resolve({});
  for (const { options } of Object.values(schemes)) {
    for (const option of options) expect(request).toHaveProperty(option);
  }
});
