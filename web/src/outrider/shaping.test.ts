import { expect, test } from 'vitest';
import type { Tool } from './edge.js';
import { shapingOf } from './shaping.js';
import type { ShapingOptions } from './shaping.js';

const tools: Tool[] = [{ type: 'function', function: { name: 'f' } }];

test('options become fields of OpenAI’s API; those that change nothing are left out', () => {
  expect(shapingOf({}, tools)).toBeNull();
  const nothing = { frequencyPenalty: 0, repetitionPenalty: 1, minP: 0, logitBias: {}, toolChoice: 'auto' } as const;
  expect(shapingOf({ ...nothing, responseFormat: { type: 'text' } }, tools)).toBeNull();
  const schema = { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' } } } as const;
  expect(
    JSON.parse(shapingOf({ presencePenalty: 1, minP: 0.1, logitBias: { 5: -100 }, responseFormat: schema }, [])!),
  ).toEqual({ presence_penalty: 1, min_p: 0.1, logit_bias: { 5: -100 }, response_format: schema });
  const named = { type: 'function', function: { name: 'f' } } as const;
  for (const toolChoice of ['required', named] as const) {
    expect(JSON.parse(shapingOf({ toolChoice }, tools)!)).toEqual({ tools, tool_choice: toolChoice });
  }
});

test('nonsense is refused by its name', () => {
  for (const [options, option] of [
    [{ frequencyPenalty: 3 }, 'frequencyPenalty'],
    [{ minP: Number.NaN }, 'minP'],
    [{ repetitionPenalty: 0 }, 'repetitionPenalty'],
    [{ logitBias: { a: 1 } }, 'logitBias'],
    [{ logitBias: { 5: 101 } }, 'logitBias'],
    [{ logitBias: 5 }, 'logitBias'],
    [{ responseFormat: 'json' }, 'responseFormat'],
    [{ responseFormat: { type: 'xml' } }, 'responseFormat'],
    [{ toolChoice: 'sometimes' }, 'toolChoice'],
    [{ toolChoice: { type: 'function', function: { name: 'g' } } }, 'toolChoice'],
  ] as [ShapingOptions, string][]) {
    expect(() => shapingOf(options, tools), option).toThrow(
      expect.objectContaining({ code: 'invalid-option', option }),
    );
  }
  expect(() => shapingOf({ toolChoice: 'required' }, [])).toThrow('toolChoice');
});
