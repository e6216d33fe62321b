// Options that change the server's probabilities: grammars, penalties, biases. The server applies them to what its model
// says, so that drafts need not know them.

import type { Tool } from './edge.js';
import { invalidOption } from './errors.js';

/** The form of an answer, as in OpenAI's API. A JSON schema gets an answer that fits it, unless it is cut. */
export type ResponseFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  | {
      type: 'json_schema';
      json_schema: { name?: string; description?: string; schema: Record<string, unknown>; strict?: boolean | null };
    };

/** Calls of an answer, as in OpenAI's API: `required` and a function's name force a call that fits its parameters. */
export type ToolChoice = 'auto' | 'none' | 'required' | { type: 'function'; function: { name: string } };

/** Options that change the server's probabilities before temperature, top-k and top-p. */
export interface ShapingOptions {
  /** The form of the answer. */
  responseFormat?: ResponseFormat | undefined;
  /** Calls of the answer, where there are `tools`. */
  toolChoice?: ToolChoice | undefined;
  /** Lowers the logit of a token by this for each time that the answer has it; from −2 to 2. */
  frequencyPenalty?: number | undefined;
  /** Lowers the logits of tokens that the answer has by this, once; from −2 to 2. */
  presencePenalty?: number | undefined;
  /** Divides the logits of tokens that prompt and answer have by this, or multiplies negative ones. */
  repetitionPenalty?: number | undefined;
  /** Excludes tokens less likely than this share of the likeliest; from 0 to 1. */
  minP?: number | undefined;
  /** Adds to the logits of these token ids, from −100 to 100. */
  logitBias?: Readonly<Record<number, number>> | undefined;
}

const numbers = {
  frequencyPenalty: { name: 'frequency_penalty', min: -2, max: 2, neutral: 0 },
  presencePenalty: { name: 'presence_penalty', min: -2, max: 2, neutral: 0 },
  repetitionPenalty: { name: 'repetition_penalty', min: 0.01, max: 100, neutral: 1 },
  minP: { name: 'min_p', min: 0, max: 1, neutral: 0 },
} as const;

/** The names of the options. */
export const shapingNames: Readonly<Record<keyof ShapingOptions, true>> = {
  ...{ responseFormat: true, toolChoice: true, logitBias: true },
  ...{ frequencyPenalty: true, presencePenalty: true, repetitionPenalty: true, minP: true },
};

/** The same options in OpenAI's API. */
export const apiNames = {
  ...{ response_format: 'responseFormat', tool_choice: 'toolChoice', logit_bias: 'logitBias' },
  ...{ frequency_penalty: 'frequencyPenalty', presence_penalty: 'presencePenalty' },
  ...{ repetition_penalty: 'repetitionPenalty', min_p: 'minP' },
} as const;

/** Returns true for a choice that forces a call. */
export function forcesCall(choice: ToolChoice | undefined): boolean {
  return choice === 'required' || typeof choice === 'object';
}

/**
 * Writes the options as fields of OpenAI's API, in JSON; null if they change nothing.
 * @throws {@link OutriderError} `invalid-option`
 */
export function shapingOf(options: ShapingOptions, tools: readonly Tool[]): string | null {
  const fields: Record<string, unknown> = {};
  for (const [option, { name, min, max, neutral }] of Object.entries(numbers)) {
    const given = options[option as keyof typeof numbers];
    if (given === undefined || given === neutral) continue;
    if (!(typeof given === 'number' && given >= min && given <= max)) {
      throw invalidOption(`${option} must be a number from ${min} to ${max}`, { option });
    }
    fields[name] = given;
  }
  const { responseFormat, toolChoice, logitBias } = options;
  if (logitBias !== undefined) {
    const isBias = (bias: unknown): boolean => typeof bias === 'number' && bias >= -100 && bias <= 100;
    const entries = typeof logitBias === 'object' && logitBias !== null ? Object.entries(logitBias) : [['', '']];
    if (!entries.every(([id, bias]) => /^\d+$/.test(String(id)) && isBias(bias))) {
      const reason = 'must be an object of token ids, each with a number from -100 to 100';
      throw invalidOption(`logitBias ${reason}`, { option: 'logitBias' });
    }
    if (entries.length > 0) fields['logit_bias'] = logitBias;
  }
  if (responseFormat !== undefined) {
    const { type } = (responseFormat ?? {}) as { type?: unknown };
    if (!['text', 'json_object', 'json_schema'].includes(type as string)) {
      const reason = "must have the type 'text', 'json_object' or 'json_schema'";
      throw invalidOption(`responseFormat ${reason}`, { option: 'responseFormat' });
    }
    if (type !== 'text') fields['response_format'] = responseFormat;
  }
  if (forcesCall(toolChoice)) Object.assign(fields, { tools, tool_choice: toolChoice });
  const isNamed = ({ function: { name } }: Tool): boolean =>
    toolChoice === 'required' || (typeof toolChoice === 'object' && name === toolChoice?.function?.name);
  const isKnown = toolChoice === undefined || toolChoice === 'auto' || toolChoice === 'none' || tools.some(isNamed);
  if (!isKnown) {
    const reason = "must be 'auto', 'none', 'required', or a function of tools by its name";
    throw invalidOption(`toolChoice ${reason}`, { option: 'toolChoice' });
  }
  return Object.keys(fields).length > 0 ? JSON.stringify(fields) : null;
}
