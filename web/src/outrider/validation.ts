// Checks of arguments that are more than a number or a name, so that errors are thrown at the call.

import { closest, distance } from 'fastest-levenshtein';
import * as v from 'valibot';
import type { Message, Prompt, TemplateVariables, Tool } from './edge.js';
import { invalidOption, OutriderError } from './errors.js';
import type { SuspendedGeneration } from './generation.js';

/** Most wrong letters in a name for which another is suggested. */
const MOST_TYPOS = 3;

/** Refuses unknown names. @throws {@link OutriderError} `invalid-option` */
export function refuseUnknown(given: object, known: readonly string[], where: string): void {
  if (typeof given !== 'object' || given === null) throw invalidOption(`options of ${where} must be an object`);
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const nearest = closest(unknown, known);
  const isTypo = distance(unknown.toLowerCase(), nearest.toLowerCase()) <= MOST_TYPOS;
  const hint = isTypo ? `; did you mean ${nearest}?` : `; there are ${known.join(', ')}`;
  throw invalidOption(`${where} has no option ${unknown}${hint}`, { option: unknown });
}

/** Converts a value to JSON and back. */
function inJson(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value)) as unknown;
  } catch (cause) {
    throw invalidOption('messages, tools and chatTemplateKwargs must be JSON', { cause });
  }
}

const anyObject = v.custom<Record<string, unknown>>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
);
const content = v.union([v.string(), v.array(v.looseObject({ text: v.string() }))]);
const call = v.looseObject({
  function: v.looseObject({ name: v.string(), arguments: v.union([v.string(), anyObject]) }),
});
const message = v.union([
  v.looseObject({
    role: v.picklist(['system', 'user', 'assistant', 'tool']),
    content,
    tool_calls: v.nullish(v.never()),
  }),
  v.looseObject({
    role: v.literal('assistant'),
    content: v.nullish(content),
    tool_calls: v.pipe(v.array(call), v.minLength(1)),
  }),
]);
/** A part of a message's content that has no text. */
const otherPart = v.object({ type: v.string(), text: v.nullish(v.never()) });
const messages = v.pipe(v.array(message), v.minLength(1));
const tool = v.looseObject({ type: v.literal('function'), function: v.looseObject({ name: v.string() }) });

type Part = v.InferOutput<typeof otherPart>;

/** Checks a prompt, and copies it for the engine. @throws {@link OutriderError} `invalid-option` */
export function checkedPrompt(prompt: Prompt): Prompt {
  if (typeof prompt === 'string') return prompt;
  const given = Array.isArray(prompt) ? inJson(prompt) : null;
  if (v.is(messages, given)) return given as readonly Message[];
  const parts = v.is(v.array(anyObject), given) ? given.flatMap(({ content }) => content) : [];
  const other = parts.find((part): part is Part => v.is(otherPart, part));
  if (other) throw invalidOption(`messages have text parts only, not ${other.type}`, { option: 'prompt' });
  const wanted = 'a text, or messages with a role (system, user, assistant or tool) and content or tool_calls';
  throw invalidOption(`prompt must be ${wanted}`, { option: 'prompt' });
}

/** More characters than a token of any published vocabulary has. */
const LONGEST_TOKEN = 256;

/** Refuses a prompt that cannot fit the context, before it is read. @throws {@link OutriderError} `prompt-too-long` */
export function refuseTooLong(prompt: Prompt, contextLength: number): void {
  const lengthOf = (content: Message['content']): number =>
    typeof content === 'string' ? content.length : (content ?? []).reduce((sum, { text }) => sum + text.length, 0);
  const parts = typeof prompt === 'string' ? [prompt] : prompt.map(({ content }) => content);
  const length = parts.reduce((sum, content) => sum + lengthOf(content), 0);
  if (length <= contextLength * LONGEST_TOKEN) return;
  const limit = `more than a context of ${contextLength} tokens can hold; shorten it`;
  throw new OutriderError('prompt-too-long', `the prompt has ${length} characters, ${limit}`);
}

/** Checks tools, and copies them for the engine. @throws {@link OutriderError} `invalid-option` */
export function checkedTools(tools: readonly Tool[], prompt: Prompt): readonly Tool[] {
  const given = inJson(tools);
  if (!v.is(v.array(tool), given)) {
    const wanted = "a list of { type: 'function', function: { name, description, parameters } }";
    throw invalidOption(`tools must be ${wanted}`, { option: 'tools' });
  }
  if (given.length > 0 && typeof prompt === 'string') {
    throw invalidOption('tools need a conversation, not a text', { option: 'tools' });
  }
  return given as readonly Tool[];
}

/** Names of a template's variables that the rest of a request determines. */
const reserved = ['messages', 'tools', 'add_generation_prompt', 'bos_token', 'eos_token', 'now'];

/** Checks variables of the chat template, and copies them. @throws {@link OutriderError} `invalid-option` */
export function checkedVariables(variables: TemplateVariables): TemplateVariables {
  const given = inJson(variables);
  const option = 'chatTemplateKwargs';
  if (!v.is(anyObject, given)) throw invalidOption(`${option} must be an object`, { option });
  const name = reserved.find((name) => Object.hasOwn(given, name));
  if (name === undefined) return given;
  throw invalidOption(`${option} cannot have ${name}: it follows from the rest of the request`, { option });
}

/** Most strings that stop a text, and most characters of one, which is the text that may wait. */
const MOST_STOPS = 16;
const LONGEST_STOP = 256;
const stopString = v.pipe(v.string(), v.minLength(1), v.maxLength(LONGEST_STOP));
const stops = v.pipe(v.array(stopString), v.maxLength(MOST_STOPS));

/** Checks the strings that stop a text. @throws {@link OutriderError} `invalid-option` */
export function checkedStops(stop: string | readonly string[]): readonly string[] {
  const given = typeof stop === 'string' ? [stop] : stop;
  if (v.is(stops, given)) return [...given];
  const wanted = `a text of 1 to ${LONGEST_STOP} characters, or a list of up to ${MOST_STOPS} of them`;
  throw invalidOption(`stop must be ${wanted}`, { option: 'stop' });
}

const id = v.pipe(v.number(), v.integer(), v.minValue(0));
const suspended = v.looseObject({
  claim: v.looseObject({ session: v.string(), secret: v.string(), attempts: id, generation: id }),
  request: v.looseObject({ prompt: v.unknown(), maxNewTokens: id }),
  tokens: v.array(v.looseObject({ id, text: v.string() })),
});

/** Checks a suspended generation, which comes from a store. @throws {@link OutriderError} `invalid-option` */
export function checkedState(state: SuspendedGeneration | null | undefined): SuspendedGeneration {
  if (v.is(suspended, state)) return state as SuspendedGeneration;
  throw invalidOption('this is no generation that was suspended');
}

const tokenIds = v.array(v.pipe(id, v.maxValue(0xffff_ffff)));

/** Checks a list of token ids. @throws {@link OutriderError} `invalid-option` */
export function checkedIds(ids: readonly number[]): readonly number[] {
  if (v.is(tokenIds, ids)) return ids;
  throw invalidOption('ids must be a list of whole numbers from 0 on');
}
