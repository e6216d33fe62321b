import { expect, test } from 'vitest';
import { changedLink, openLink, reasonAgainst, resolveRequest } from './options.js';
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
import type { Prompt, Tool } from './edge.js';
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
    ...['prompt', 'tools', 'chatTemplateKwargs', 'continueFinalMessage', 'stop', 'shaping', 'evidence', 'mode'],
    ...Object.keys(generationDefaults),
    ...Object.keys(choiceDefaults),
    ...Object.entries(policyOptions).flatMap(([option, { parameter }]) => [option, parameter]),
    ...['adaptiveMode', 'compareSchemes'],
  ].sort();
  for (const scheme of Object.keys(schemes) as Scheme[]) {
    const request = resolve({ scheme });
    expect(Object.keys(request).sort()).toEqual(fields);
    expect(request).toMatchObject({
      ...{ prompt: 'p', tools: [], chatTemplateKwargs: {}, continueFinalMessage: false, mode: 'speculative' },
      ...{ ...generationDefaults, seed: expect.any(Number) },
      ...choiceDefaults,
      scheme,
    });
  }
});

test('a seed is random unless it is given, and any given one is kept', () => {
  const seeds = new Set(Array.from({ length: 20 }, () => resolve({}).seed));
  expect(seeds.size).toBeGreaterThan(15);
  for (const seed of seeds) expect(reasonAgainst(seed, generationRanges.seed)).toBeNull();
  expect(resolve({ seed: 0 }).seed).toBe(0);
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
    [{ stepSize: 10.1 }, 'stepSize must be at most 10'],
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
  const call = { id: '1', type: 'function', function: { name: 'f', arguments: { b: 1, a: '2' } } };
  const messages = [
    { role: 'user', content: 'Hello' },
    { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
    { role: 'assistant', content: null, tool_calls: [call] },
    { tool_calls: [{ function: { name: 'f', arguments: '{}' } }], role: 'assistant' },
    { role: 'assistant', content: 'Hi', tool_calls: null },
    { role: 'tool', tool_call_id: '1', name: 'f', content: '4' },
  ];
  expect(JSON.stringify(resolved(messages))).toBe(JSON.stringify(messages));
  // As in JSON: what is undefined is not there.
  expect(resolved([{ role: 'user', content: 'a', name: undefined }])).toStrictEqual([{ role: 'user', content: 'a' }]);
  const circle: unknown[] = [];
  circle.push(circle);
  const withCalls = (calls: unknown) => [{ role: 'assistant', content: '', tool_calls: calls }];
  for (const wrong of [
    ...[[], null, 7, circle, ['Hello']],
    ...[[{ role: 'critic', content: '' }], [{ role: 'user' }], [{ role: 'user', content: null }]],
    ...[[{ role: 'user', content: [{ type: 'image_url' }] }], [{ role: 'user', content: '', tool_calls: [call] }]],
    ...[withCalls([]), withCalls({}), withCalls(['f']), withCalls([{ function: { name: 'f' } }])],
  ]) {
    expect(() => resolved(wrong)).toThrow(expect.objectContaining({ code: 'invalid-option' }));
  }
});

test('variables of the chat template are an object without reserved names', () => {
  const resolved = (chatTemplateKwargs: unknown) =>
    resolveRequest([{ role: 'user', content: 'a' }], { chatTemplateKwargs } as GenerateOptions, generationRanges, heads)
      .chatTemplateKwargs;
  expect(resolved(undefined)).toEqual({});
  expect(resolved({ enable_thinking: false, a: [1] })).toEqual({ enable_thinking: false, a: [1] });
  expect(() => resolved([])).toThrow('must be an object');
  for (const name of ['messages', 'tools', 'add_generation_prompt', 'bos_token', 'eos_token']) {
    expect(() => resolved({ [name]: null })).toThrow(`cannot have ${name}`);
  }
});

test('a message goes on if it is the assistant’s and has a text', () => {
  const options = { continueFinalMessage: true };
  const of = (prompt: Prompt) => resolveRequest(prompt, options, generationRanges, heads).continueFinalMessage;
  const user = { role: 'user', content: 'a' } as const;
  expect(of([user, { role: 'assistant', content: 'The' }])).toBe(true);
  for (const prompt of ['a', [user], [user, { role: 'assistant', content: '' }]] as Prompt[]) {
    expect(() => of(prompt)).toThrow('needs messages, the last of them a text of the assistant');
  }
});

test('tools are JSON, and for conversations', () => {
  const conversation = [{ role: 'user', content: 'Hello' }] as const;
  const resolved = (tools: unknown, prompt: Prompt = conversation) =>
    resolveRequest(prompt, { tools: tools as Tool[] }, generationRanges, heads).tools;
  const tool = { type: 'function', function: { parameters: { type: 'object' }, name: 'f' } };
  expect(JSON.stringify(resolved([tool]))).toBe(JSON.stringify([tool]));
  expect(resolved([])).toEqual([]);
  expect(resolved([], 'Once')).toEqual([]);
  for (const wrong of [
    {},
    'f',
    ['f'],
    [{ type: 'function' }],
    [{ function: { name: 'f' } }],
    [{ ...tool, size: 1n }],
  ]) {
    expect(() => resolved(wrong)).toThrow(expect.objectContaining({ code: 'invalid-option' }));
  }
  expect(() => resolved([tool], 'Once')).toThrow('tools need a conversation');
});

test('a name that is none lists those there are', () => {
  expect(() => resolve({ scheme: 'sqs' as Scheme })).toThrow(
    "scheme must be one of 'auto', 'ahead', 'dense', 'qs', 'k-sqs', 'c-sqs', 'tk-slt', 'dssd', 'coupled', not 'sqs'",
  );
  // Neither are those that every object has.
  expect(() => resolve({ scheme: 'toString' as Scheme })).toThrow('scheme must be one of');
  expect(() => resolve({ code: 'zip' as 'adaptive' })).toThrow("code must be one of 'enumerative', 'adaptive'");
  expect(() => resolve({ downlink: '' as 'full' })).toThrow("downlink must be one of 'full', 'sampled'");
});

test('everything named is described, and uses options that exist', () => {
  for (const { label, explanation, source } of [schemes, codes, downlinks].flatMap((table) => Object.values(table))) {
    expect(label).not.toBe('');
    expect(explanation).toMatch(/^[a-z].*\.$/);
    expect(source).not.toBe('');
  }
  const request = resolve({});
  for (const { options } of Object.values(schemes)) {
    for (const option of options) expect(request).toHaveProperty(option);
  }
});

test('a link changes by the fields that are given, and nonsense is refused', () => {
  for (const isCut of [null, 1, 'yes'])
    expect(() => changedLink(openLink, { isCut } as never)).toThrow('isCut must be');
  expect(() => changedLink(openLink, { roundtripMs: 5 } as never)).toThrow('did you mean roundTripMs?');
  const cut = changedLink(openLink, { isCut: true, roundTripMs: undefined } as never);
  expect(cut).toEqual({ ...openLink, isCut: true });
  // The link without limits is not cut either.
  expect(changedLink(cut, openLink)).toEqual(openLink);
});
