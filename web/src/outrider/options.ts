import { names } from './choices.js';
import type { NameOptions, NumberOptions, ParameterOptions } from './choices.js';
import type {
  GenerateRequest,
  Link,
  Message,
  Mode,
  ModelInfo,
  Prompt,
  RequestNumbers,
  SessionInfo,
  Tool,
} from './edge.js';
import { OutriderError } from './errors.js';
import { policyNamed, reasonAgainstPolicy } from './policies.js';
import type { Heads } from './policies.js';
import {
  choiceDefaults,
  generationDefaults,
  generationRanges,
  policyDefaults,
  policyOptions,
} from './tables.js';
import type { ChoiceOption, Choices, NumberOption, PolicyOption, Range } from './tables.js';

/** How to generate. Everything has a default; see {@link generationDefaults} and {@link generationRanges}. */
export interface GenerateOptions extends NameOptions, ParameterOptions, NumberOptions {
  /** `speculative` (default) drafts here and lets the server verify, or write on meanwhile: see `scheme`; `cloud-only` lets the server decode alone. */
  mode?: Mode;
  /** Lets the server write alone as long as that is faster (AS²). */
  adaptiveMode?: boolean;
  /**
   * Also computes what the same drafts would have cost under each scheme, for {@link RoundRecord.otherBits}; drafting slows.
   * That needs rounds: `scheme: 'auto'` then has them.
   */
  compareSchemes?: boolean;
  /**
   * What the assistant may call in a conversation. The model's chat template shows it to the model; one that has no place
   * for tools is an error. What the model calls is in its text, in the model's own form: `<tool_call>…</tool_call>` mostly.
   */
  tools?: readonly Tool[];
  /** Stops the generation; it then ends quietly, with `finish: 'cancelled'`, as after {@link Generation.stop}. */
  signal?: AbortSignal;
}

/** {@link generationRanges}, narrowed to what this draft and this server can do. */
export function rangesFor(model: ModelInfo, session: SessionInfo): Record<NumberOption, Range> {
  const context = Math.min(model.contextLength, session.contextLength);
  const narrowed = (option: NumberOption, max: number): Range => ({
    ...generationRanges[option],
    max: Math.min(generationRanges[option].max, max),
  });
  return {
    ...generationRanges,
    maxNewTokens: narrowed('maxNewTokens', context),
    topK: narrowed('topK', model.vocabSize),
    supportSize: narrowed('supportSize', model.vocabSize),
    draftLength: narrowed('draftLength', session.maxDraftTokens),
    maxInFlight: narrowed('maxInFlight', session.maxInFlight),
  };
}

/** The link as it is: nothing added, nothing limited. */
export const openLink: Readonly<Link> = {
  uplinkBitsPerSecond: null,
  downlinkBitsPerSecond: null,
  roundTripMs: 0,
};

/** Why a value is outside its range, as the end of a sentence that starts with its name; null if it is inside. */
export function reasonAgainst(value: number, range: Range): string | null {
  if (!Number.isFinite(value)) return 'must be a number';
  if (range.integer && !Number.isInteger(value)) return 'must be a whole number';
  if (range.excluded === 'max' && value >= range.max) return `must be below ${range.max}`;
  if (value < range.min) return `must be at least ${range.min}`;
  if (value > range.max) return `must be at most ${range.max}`;
  return null;
}

/** What is left of a value in JSON. */
function inJson<T>(value: T): T {
  try {
    return JSON.parse(JSON.stringify(value)) as T;
  } catch {
    throw new OutriderError('invalid-option', 'messages and tools must be JSON');
  }
}

const isText = (value: unknown): boolean => typeof value === 'string';

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function isContent(content: Message['content']): boolean {
  return isText(content) || (Array.isArray(content) && content.every((part) => isText(part?.text)));
}

function isCalls(calls: Message['tool_calls']): boolean {
  const isCall = (call: NonNullable<typeof calls>[number]): boolean =>
    isText(call?.function?.name) && (isText(call.function.arguments) || isObject(call.function.arguments));
  return Array.isArray(calls) && calls.length > 0 && calls.every(isCall);
}

function isMessage(message: Message): boolean {
  if (!isObject(message)) return false;
  const { role, content = null, tool_calls: calls = null } = message;
  if (role === 'assistant' && calls !== null)
    return isCalls(calls) && (content === null || isContent(content));
  return ['system', 'user', 'assistant', 'tool'].includes(role) && calls === null && isContent(content);
}

function resolvePrompt(prompt: Prompt): Prompt {
  if (typeof prompt === 'string') return prompt;
  const messages = inJson(prompt);
  if (Array.isArray(messages) && messages.length > 0 && messages.every(isMessage)) return messages;
  const wanted =
    'a text, or messages with a role (system, user, assistant or tool) and content or tool_calls';
  throw new OutriderError('invalid-option', `prompt must be ${wanted}`);
}

function resolveTools(tools: readonly Tool[], prompt: Prompt): readonly Tool[] {
  const resolved = inJson(tools);
  const isTool = (tool: Tool): boolean => tool?.type === 'function' && isText(tool.function?.name);
  if (!Array.isArray(resolved) || !resolved.every(isTool)) {
    const wanted = "a list of { type: 'function', function: { name, description, parameters } }";
    throw new OutriderError('invalid-option', `tools must be ${wanted}`);
  }
  if (resolved.length > 0 && typeof prompt === 'string') {
    throw new OutriderError('invalid-option', 'tools need a conversation, not a text');
  }
  return resolved;
}

/** Fills the defaults in. @throws {@link OutriderError} `invalid-option` */
export function resolveRequest(
  prompt: Prompt,
  options: GenerateOptions,
  ranges: Readonly<Record<NumberOption, Range>>,
  heads: Heads,
): GenerateRequest {
  const resolved = resolvePrompt(prompt);
  const tools = resolveTools(options.tools ?? [], resolved);
  const mode = options.mode ?? 'speculative';
  if (mode !== 'speculative' && mode !== 'cloud-only') {
    throw new OutriderError('invalid-option', `mode must be 'speculative' or 'cloud-only', not '${mode}'`);
  }
  const number = (option: NumberOption): number | null => {
    const range = ranges[option];
    const given = options[option];
    // A default above what this server allows is no mistake of the caller's.
    const otherwise = generationDefaults[option];
    if (given === undefined) return otherwise === null ? null : Math.min(otherwise, range.max);
    const reason = reasonAgainst(given, range);
    if (reason !== null) throw new OutriderError('invalid-option', `${option} ${reason}`);
    return given;
  };
  const choice = (option: ChoiceOption): string => {
    const given = options[option] ?? choiceDefaults[option];
    const { entries } = names[option];
    if (!entries.some(({ name }) => name === given)) {
      const list = entries.map(({ name }) => `'${name}'`).join(', ');
      throw new OutriderError('invalid-option', `${option} must be one of ${list}, not '${given}'`);
    }
    return given;
  };
  const choices = {} as Record<ChoiceOption, string>;
  for (const option of Object.keys(choiceDefaults) as ChoiceOption[]) choices[option] = choice(option);
  const { scheme } = choices as Choices;
  const policy = (option: PolicyOption): { name: string; parameter: number | null } => {
    const chosen = policyNamed(option, options[option] ?? policyDefaults[option]);
    const { name, parameter } = chosen;
    // The server alone drafts nothing; what it does not need may be missing.
    const missing = mode === 'speculative' ? reasonAgainstPolicy(chosen, option, scheme, heads) : null;
    if (missing !== null) throw new OutriderError('invalid-option', `${option} '${name}' ${missing}`);
    if (parameter === null) return { name, parameter };
    const { parameter: parameterOption } = policyOptions[option];
    const given = options[parameterOption] ?? parameter.default;
    const reason = reasonAgainst(given, parameter.range);
    if (reason !== null) {
      throw new OutriderError('invalid-option', `${parameterOption} of '${name}' ${reason}`);
    }
    return { name, parameter: given };
  };
  const rule = policy('rule');
  const gate = policy('gate');
  const stop = policy('stopRule');
  const numbers = {} as RequestNumbers;
  for (const option of Object.keys(generationDefaults) as NumberOption[]) {
    Object.assign(numbers, { [option]: number(option) });
  }
  if (mode === 'speculative' && numbers.maxInFlight > 1 && gate.name !== policyDefaults.gate) {
    throw new OutriderError('invalid-option', `maxInFlight must be 1 with gate '${gate.name}'`);
  }
  return {
    prompt: resolved,
    tools,
    mode,
    ...numbers,
    ...(choices as Choices),
    rule: rule.name,
    ruleParameter: rule.parameter,
    gate: gate.name,
    gateThreshold: gate.parameter,
    stopRule: stop.name,
    stopThreshold: stop.parameter,
    adaptiveMode: options.adaptiveMode ?? false,
    compareSchemes: options.compareSchemes ?? false,
  };
}

/** Checks a link. @throws {@link OutriderError} `invalid-option` */
export function checkLink(link: Link): void {
  for (const rate of ['uplinkBitsPerSecond', 'downlinkBitsPerSecond'] as const) {
    const value = link[rate];
    if (value !== null && !(Number.isFinite(value) && value > 0)) {
      throw new OutriderError('invalid-option', `${rate} must be above 0, or null for no limit`);
    }
  }
  if (!(Number.isFinite(link.roundTripMs) && link.roundTripMs >= 0)) {
    throw new OutriderError('invalid-option', 'roundTripMs must be at least 0');
  }
}
