// Outrider in the shape of OpenAI's client, for programs that are written for that.

import { abortion } from './aborting.js';
import type { RequestOptions } from './aborting.js';
import { HOTTEST, MOST_STOPS, MOST_TOP_K } from './api-limits.js';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
  ChatFinish,
  ChatMessage,
  Completion,
  CompletionChunk,
  CompletionOptions,
  CompletionParams,
  CompletionToolCall,
  CompletionUsage,
} from './completions-types.js';
import type { Finish, Message, Piece, Prompt, Round, Summary, TemplateVariables, Tool } from './edge.js';
import { invalidOption, OutriderError } from './errors.js';
import type { Generation } from './generation.js';
import { acceptedRange, reasonAgainst, SMALLEST_TOP_P } from './options.js';
import { ReasoningCounter, ReasoningReader, textOfMessage } from './reasoning.js';
import { logprobsOf, refusalOfLogprobs } from './logprobs.js';
import type { Sampling, SamplingDefaults } from './sampling.js';
import { apiNames, forcesCall } from './shaping.js';
import type { ShapingOptions } from './shaping.js';
import type { ConversationOptions, GenerateOptions } from './options.js';
import type { NumberOption, Range } from './tables.js';
import { refuseUnknown } from './validation.js';

/** The instance that generates. */
interface Writer {
  generate(prompt: Prompt, options?: GenerateOptions): Generation;
  readonly ranges: Readonly<Record<NumberOption, Range>>;
  readonly ready: Promise<'draft' | 'server'>;
  readonly sampling: Pick<SamplingDefaults, 'get'>;
}

/** The chunks of an answer, as they come. Leaving the loop early stops the generation; so does `controller.abort()`. */
export interface CompletionStream<Chunk> extends AsyncIterable<Chunk> {
  readonly controller: AbortController;
}

const model = 'outrider';
/** Most tokens of a text if `max_tokens` is not given, as with OpenAI. */
const COMPLETION_TOKENS = 16;
const MOST_TOP_LOGPROBS = 20;

/** Parameters of OpenAI's API that do not change the text; any value is accepted. */
const withoutEffect = [
  ...['user', 'metadata', 'store', 'service_tier', 'safety_identifier'],
  ...['prompt_cache_key', 'prompt_cache_retention'],
];
/** Parameters that are accepted only with a value that changes nothing, as by the server's API. */
const neutral = {
  // Parameters of other servers that clients send along.
  ...{ ignore_eos: [false], skip_special_tokens: [true] },
};
const neutralOfTexts = { ...neutral, best_of: [1], echo: [false], suffix: [''], logprobs: [false] };
const neutralOfChats = { ...neutral, functions: [[]], modalities: [['text']] };

const commonNames = [
  ...['model', 'stream', 'stream_options', 'stop', 'temperature', 'top_p', 'top_k', 'seed', 'n', 'response_format'],
  ...['presence_penalty', 'frequency_penalty', 'repetition_penalty', 'min_p', 'logit_bias'],
];
/** Parameters of a text completion that change its text. */
export const completionNames = [...commonNames, 'prompt', 'max_tokens'];
/** Parameters of a conversation that change its answer. */
export const chatNames = [
  ...[...commonNames, 'messages', 'tools', 'max_completion_tokens', 'max_tokens'],
  ...['logprobs', 'top_logprobs', 'chat_template_kwargs', 'enable_thinking', 'tool_choice', 'continue_final_message'],
  'reasoning_format',
];

/** The parameters that this package reads; those that are null or undefined count as not given. */
function read<Params extends object>(
  params: Params,
  known: readonly string[],
  neutral: Readonly<Record<string, readonly unknown[]>>,
  where: string,
): { [Name in keyof Params]: Exclude<Params[Name], null> } {
  const given = Object.entries(params).filter(([name, value]) => {
    if (value === undefined || value === null || withoutEffect.includes(name)) return false;
    const [, values] = Object.entries(neutral).find(([other]) => other === name) ?? [];
    if (!values) return true;
    const texts = values.map((value) => JSON.stringify(value));
    if (texts.includes(JSON.stringify(value))) return false;
    throw wrong(name, `is not supported other than as ${texts.join(' or ')}`);
  });
  const rest = Object.fromEntries(given) as { [Name in keyof Params]: Exclude<Params[Name], null> };
  refuseUnknown(rest, known, where);
  return rest;
}

/** Text completions: `outrider.completions`. */
export class Completions {
  readonly #writer: Writer;

  /** @internal */
  constructor(writer: Writer) {
    this.#writer = writer;
  }

  /**
   * Continues a text with a completion. @throws {@link OutriderError} as `generate()`; unknown parameters are refused
   * by name.
   */
  create(
    params: CompletionParams & { stream: true },
    options?: RequestOptions,
  ): Promise<CompletionStream<CompletionChunk>>;
  create(params: CompletionParams & { stream?: false | null }, options?: RequestOptions): Promise<Completion>;
  create(params: CompletionParams, options?: RequestOptions): Promise<Completion | CompletionStream<CompletionChunk>>;
  async create(
    params: CompletionParams,
    options: RequestOptions = {},
  ): Promise<Completion | CompletionStream<CompletionChunk>> {
    const given = read(params, completionNames, neutralOfTexts, 'completions.create()');
    const { max_tokens } = given;
    const prompt = textOf(given.prompt);
    const { controller, signal, forget } = abortion(options);
    const generation = this.#writer.generate(prompt, {
      ...commonOptions(given, max_tokens ?? COMPLETION_TOKENS, this.#writer.ranges, await this.#writer.sampling.get()),
      signal,
    });
    generation.summary.then(forget, forget);
    const head = { id: `cmpl-${identity(24)}`, object: 'text_completion', created: now(), model } as const;
    const choice = { index: 0, logprobs: null } as const;
    const finish = (reason: Finish) => (ends(reason) ? 'stop' : 'length');
    if (!given.stream) {
      const summary = await generation.summary;
      const { text } = summary;
      const choices = [{ ...choice, text, finish_reason: finish(summary.finish) } as const];
      return { ...head, choices, usage: usageOf(summary) };
    }
    const chunks = async function* (): AsyncGenerator<CompletionChunk> {
      for await (const { text } of generation) {
        if (text !== '') yield { ...head, choices: [{ ...choice, text, finish_reason: null }] };
      }
      const { finish: reason } = await generation.summary;
      yield { ...head, choices: [{ ...choice, text: '', finish_reason: finish(reason) }] };
    };
    return streamed(controller, includesUsage(given), generation, chunks, { ...head, choices: [] });
  }
}

/**
 * Returns the end of a conversation's prompt, which may open the reasoning; null where the chat template has none. `end` is
 * that of a prompt which ends in the last message.
 */
type Tail = (messages: Prompt, options: ConversationOptions, end: string | null) => Promise<string | null>;

/** Chat completions: `outrider.chat.completions`. */
export class ChatCompletions {
  readonly #writer: Writer;
  readonly #tail: Tail;

  /** Makes chat completions of a writer. @internal */
  constructor(writer: Writer, tail: Tail = () => Promise.resolve(null)) {
    this.#writer = writer;
    this.#tail = tail;
  }

  /**
   * Answers in a conversation. @throws {@link OutriderError} as `generate()`; unknown parameters are refused by name.
   */
  create(
    params: ChatCompletionParams & { stream: true },
    options?: RequestOptions,
  ): Promise<CompletionStream<ChatCompletionChunk>>;
  create(params: ChatCompletionParams & { stream?: false | null }, options?: RequestOptions): Promise<ChatCompletion>;
  create(
    params: ChatCompletionParams,
    options?: RequestOptions,
  ): Promise<ChatCompletion | CompletionStream<ChatCompletionChunk>>;
  async create(
    params: ChatCompletionParams,
    options: RequestOptions = {},
  ): Promise<ChatCompletion | CompletionStream<ChatCompletionChunk>> {
    // A forced call is one; without a grammar there may be several.
    const mayBeOne = !params.tools?.length || forcesCall(params.tool_choice ?? undefined);
    const accepted = {
      ...neutralOfChats,
      parallel_tool_calls: mayBeOne ? [true, false] : [true],
      add_generation_prompt: [params.continue_final_message !== true],
    };
    const given = read(params, chatNames, accepted, 'chat.completions.create()');
    checkTruth('logprobs', given.logprobs);
    const { tools = [], max_tokens, reasoning_format: format = 'auto' } = given;
    if (!['auto', 'deepseek', 'none'].includes(format))
      throw wrong('reasoning_format', 'must be auto, deepseek or none');
    if (!Array.isArray(given.messages)) throw wrong('messages', 'must be a list');
    const messages = given.messages.map(systemOf);
    if (!Array.isArray(tools)) throw wrong('tools', 'must be a list');
    const isStrict = tools.some((tool: Tool & { function: { strict?: boolean } }) => tool.function?.strict);
    if (isStrict && given.tool_choice !== 'none' && !forcesCall(given.tool_choice)) {
      throw wrong('tools', 'cannot be strict: only calls that tool_choice forces follow their schema');
    }
    const likeliest = topLogprobs(given);
    if (likeliest !== null && (await this.#writer.ready) === 'server') {
      throw new OutriderError('no-draft', 'logprobs need rounds, and no draft model runs here', { option: 'logprobs' });
    }
    const { controller, signal, forget } = abortion(options);
    const { ranges } = this.#writer;
    const most = given.max_completion_tokens ?? max_tokens ?? ranges.maxNewTokens.max;
    const conversation = { tools: tools.map(withoutStrict), chatTemplateKwargs: variablesOf(given) };
    const generation = this.#writer.generate(messages, {
      ...commonOptions(given, most, ranges, await this.#writer.sampling.get()),
      ...{ ...conversation, toolChoice: given.tool_choice, tagsReasoning: format !== 'none' },
      continueFinalMessage: given.continue_final_message ?? false,
      evidence: likeliest !== null,
      signal,
    });
    generation.summary.then(forget, forget);
    const end = given.continue_final_message ? textOfMessage(messages.at(-1)) : null;
    const tail = format === 'none' ? null : this.#tail(messages, conversation, end).catch(() => null);
    const reasoning: Reasoning = { tokens: 0, tailOf: async (text) => (text?.isTagged ? '' : tail) };
    const id = `chatcmpl-${identity(24)}`;
    const head = { id, created: now(), model };
    const fail = (error: unknown): never => {
      throw likeliest === null ? error : refusalOfLogprobs(error);
    };
    if (!given.stream) return whole(head, generation, likeliest, reasoning).catch(fail);
    const chunk = { ...head, object: 'chat.completion.chunk' } as const;
    const chunks = async function* (): AsyncGenerator<ChatCompletionChunk> {
      try {
        yield* chatChunks(chunk, generation, likeliest, reasoning);
      } catch (error) {
        fail(error);
      }
    };
    return streamed(controller, includesUsage(given), generation, chunks, { ...chunk, choices: [] }, reasoning);
  }
}

interface Head {
  id: string;
  created: number;
  model: string;
}

/** Reasoning of an answer that is being written. */
interface Reasoning {
  /** The number of its tokens. */
  tokens: number;
  /** The end of the prompt, as a reader of this text needs it; null for an answer without reasoning. */
  tailOf(text: Pick<Round, 'isTagged'> | undefined): Promise<string | null>;
}

async function whole(
  head: Head,
  generation: Generation,
  likeliest: number | null,
  reasoning: Reasoning,
): Promise<ChatCompletion> {
  const rounds: Round[] = [];
  for await (const round of generation.rounds()) rounds.push(round);
  const summary = await generation.summary;
  // A text that was stopped before it began has no reasoning to look for.
  if (rounds.length === 0) reasoning = { ...reasoning, tailOf: async () => null };
  const { pieces = [{ type: 'text', text: summary.text }] } = summary;
  // A draft model that has joined gives the text as it is, without the server's tags.
  const reader = new ReasoningReader(await reasoning.tailOf(summary));
  const counter = new ReasoningCounter(await reasoning.tailOf(rounds[0]));
  for (const round of rounds) counter.add(round);
  reasoning.tokens = counter.finish();
  const parts = pieces.map((piece) => reader.push(piece.type === 'text' ? piece.text : ''));
  parts.push(reader.finish());
  const [thought, text] = [0, 1].map((index) => parts.map((part) => part[index]).join('')) as [string, string];
  const calls = pieces.flatMap((piece) => (piece.type === 'call' ? [toolCall(piece)] : []));
  const message = {
    ...({ role: 'assistant', refusal: null } as const),
    content: text === '' && calls.length > 0 ? null : text,
    ...(thought !== '' && { reasoning_content: thought }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  const tokens = rounds.flatMap((round) => round.tokens);
  const logprobs = likeliest === null ? null : logprobsOf(tokens, likeliest);
  const finish_reason = finishOf(summary.finish, calls.length);
  const choices = [{ index: 0, message, logprobs, finish_reason }];
  return { ...head, object: 'chat.completion', choices, usage: usageOf(summary, reasoning.tokens) };
}

async function* chatChunks(
  head: Head & { object: 'chat.completion.chunk' },
  generation: Generation,
  likeliest: number | null,
  reasoning: Reasoning,
): AsyncGenerator<ChatCompletionChunk> {
  type Choice = ChatCompletionChunk['choices'][number];
  const chunk = (delta: Choice['delta'], more: Partial<Choice> = {}): ChatCompletionChunk => ({
    ...head,
    choices: [{ index: 0, delta, finish_reason: null, ...more }],
  });
  yield chunk({ role: 'assistant', content: '' });
  let calls = 0;
  let hasPieces = false;
  let readers: { text: ReasoningReader; tokens: ReasoningCounter } | null = null;
  for await (const round of generation.rounds()) {
    const { tokens, pieces } = round;
    if (!readers) {
      const tail = await reasoning.tailOf(round);
      readers = { text: new ReasoningReader(tail), tokens: new ReasoningCounter(tail) };
    }
    readers.tokens.add(round);
    hasPieces ||= pieces !== undefined;
    const text = tokens.map((token) => token.text).join('');
    const added: readonly Piece[] = pieces ?? (hasPieces || text === '' ? [] : [{ type: 'text', text }]);
    const told = likeliest === null || tokens.length === 0 ? {} : { logprobs: logprobsOf(tokens, likeliest) };
    // With its pieces a round tells of its tokens once.
    let more: Partial<Choice> = told;
    for (const piece of added) {
      const deltas =
        piece.type === 'text'
          ? deltasOf(readers.text.push(piece.text))
          : [{ tool_calls: [{ index: calls++, ...toolCall(piece) }] }];
      for (const delta of deltas) {
        yield chunk(delta, more);
        more = {};
      }
    }
    if (more.logprobs) yield chunk({}, more);
  }
  for (const delta of deltasOf(readers?.text.finish() ?? ['', ''])) yield chunk(delta);
  reasoning.tokens = readers?.tokens.finish() ?? 0;
  const { finish } = await generation.summary;
  yield chunk({}, { finish_reason: finishOf(finish, calls) });
}

/** The additions to an answer by a part of its reasoning and of its text. */
function deltasOf([reasoning, text]: readonly [string, string]): ChatCompletionChunk['choices'][number]['delta'][] {
  return [...(reasoning === '' ? [] : [{ reasoning_content: reasoning }]), ...(text === '' ? [] : [{ content: text }])];
}

/** A stream of chunks; `withUsage` adds a last one with `usage`. */
function streamed<Chunk extends { usage?: CompletionUsage | null }>(
  controller: AbortController,
  withUsage: boolean,
  generation: Generation,
  chunks: () => AsyncGenerator<Chunk>,
  last: Chunk,
  reasoning = { tokens: 0 },
): CompletionStream<Chunk> {
  return {
    controller,
    async *[Symbol.asyncIterator]() {
      try {
        for await (const chunk of chunks()) {
          if (controller.signal.aborted) return;
          yield withUsage ? { ...chunk, usage: null } : chunk;
        }
      } finally {
        // Who leaves at the first chunk leaves before there is a round.
        generation.stop();
      }
      if (controller.signal.aborted) return;
      if (withUsage) yield { ...last, usage: usageOf(await generation.summary, reasoning.tokens) };
    },
  };
}

/** The text of a prompt, which clients also send as a list of one. */
function textOf(prompt: CompletionParams['prompt']): string {
  const [text, ...more] = typeof prompt === 'string' ? [prompt] : Array.isArray(prompt) ? prompt : [];
  if (typeof text === 'string' && more.length === 0) return text;
  throw wrong('prompt', 'must be a text; one prompt a request');
}

/** The error for a parameter that is refused. */
function wrong(option: string, reason: string): OutriderError {
  return invalidOption(`${option} ${reason}`, { option });
}

function commonOptions(
  params: CompletionOptions,
  tokens: number,
  ranges: Writer['ranges'],
  sampling: Required<Sampling>,
): GenerateOptions {
  // Wrong options of a stream are refused without one, too.
  includesUsage(params);
  if ((params.n ?? 1) !== 1) throw wrong('n', 'must be 1');
  checkTruth('stream', params.stream);
  if (typeof (params.model ?? '') !== 'string') throw wrong('model', 'must be a text');
  if (Array.isArray(params.stop) && params.stop.length > MOST_STOPS) {
    throw wrong('stop', `must be at most ${MOST_STOPS} texts`);
  }
  const { maxNewTokens, temperature, topP, topK } = ranges;
  const bounds = {
    ...{ temperature: { ...temperature, max: HOTTEST }, seed: acceptedRange('seed', ranges) },
    ...{ top_p: { ...topP, min: 0 }, top_k: { ...topK, min: -1, max: MOST_TOP_K } },
    ...{ max_tokens: { ...maxNewTokens, max: Infinity }, max_completion_tokens: { ...maxNewTokens, max: Infinity } },
  };
  for (const [name, range] of Object.entries(bounds)) {
    const given = (params as Record<string, unknown>)[name];
    const reason = given === undefined ? null : reasonAgainst(given as number, range);
    if (reason !== null) throw wrong(name, reason);
  }
  const shaping = Object.entries(apiNames).map(([name, option]) => [option, (params as Record<string, unknown>)[name]]);
  return {
    ...(Object.fromEntries(shaping) as ShapingOptions),
    temperature: params.temperature ?? sampling.temperature,
    // 0 keeps the most likely token, as any small enough share does.
    topP: Math.max(params.top_p ?? sampling.topP, SMALLEST_TOP_P),
    topK: params.top_k === -1 ? 0 : Math.min(params.top_k ?? sampling.topK, topK.max),
    seed: params.seed ?? undefined,
    maxNewTokens: Math.min(tokens, ranges.maxNewTokens.max),
    ...(params.stop != null && { stop: params.stop }),
  };
}

function topLogprobs({ logprobs, top_logprobs: top }: ChatCompletionParams): number | null {
  if (!logprobs) {
    if (top) throw wrong('top_logprobs', 'needs logprobs');
    return null;
  }
  const count = top ?? 0;
  if (Number.isInteger(count) && count >= 0 && count <= MOST_TOP_LOGPROBS) return count;
  throw wrong('top_logprobs', `must be from 0 to ${MOST_TOP_LOGPROBS}`);
}

function variablesOf(params: ChatCompletionParams): TemplateVariables {
  const { chat_template_kwargs: variables, enable_thinking: thinking } = params;
  if (thinking == null) return variables ?? {};
  if (typeof thinking !== 'boolean') throw wrong('enable_thinking', 'must be true or false');
  const other = variables?.['enable_thinking'] ?? thinking;
  if (other !== thinking) throw wrong('enable_thinking', 'must be the same as in chat_template_kwargs');
  return { ...variables, enable_thinking: thinking };
}

/** Gives a developer's message the older name of its role. */
function systemOf(message: ChatMessage): Message {
  return message?.role === 'developer' ? { ...message, role: 'system' } : message;
}

/** A tool as the chat template shows it. */
function withoutStrict(tool: Tool): Tool {
  if (!tool?.function) return tool;
  const { strict, ...shown } = tool.function as Tool['function'] & { strict?: unknown };
  return { ...tool, function: shown };
}

function checkTruth(name: string, value: unknown): void {
  if (value != null && typeof value !== 'boolean') throw wrong(name, 'must be true or false');
}

function includesUsage({ stream_options: options }: CompletionOptions): boolean {
  if (typeof (options ?? {}) !== 'object') throw wrong('stream_options', 'must be an object');
  // Padding of chunks hides their lengths; here they do not travel.
  const accepted = { include_obfuscation: [false, true] };
  return read(options ?? {}, ['include_usage'], accepted, 'stream_options').include_usage ?? false;
}

function usageOf(summary: Summary, reasoning_tokens = 0): CompletionUsage {
  // Tokens after a stop string do not count.
  const completion = summary.tokenIds.length || summary.tokens;
  return {
    prompt_tokens: summary.promptTokens,
    completion_tokens: completion,
    total_tokens: summary.promptTokens + completion,
    outrider: {
      server_passes: summary.serverPasses,
      saved_passes: Math.max(0, summary.tokens - summary.serverPasses),
      drafted: summary.drafted,
      accepted: summary.accepted,
      reasoning_tokens,
      uplink_bytes: Math.ceil(summary.uplinkBits / 8),
      downlink_bytes: Math.ceil(summary.downlinkBits / 8),
      elapsed_ms: summary.elapsedMs,
    },
  };
}

/** True for an end of the text or a stop, false for a limit that was reached. */
function ends(finish: Finish): boolean {
  return finish === 'eos' || finish === 'stop' || finish === 'cancelled';
}

function finishOf(finish: Finish, calls: number): ChatFinish {
  if (!ends(finish)) return 'length';
  return calls > 0 && finish !== 'cancelled' ? 'tool_calls' : 'stop';
}

function toolCall({ name, arguments: given }: Extract<Piece, { type: 'call' }>): CompletionToolCall {
  // Nine letters and digits, as Mistral's templates want it.
  return { id: identity(9), type: 'function', function: { name, arguments: given } };
}

const now = (): number => Math.floor(Date.now() / 1000);

const letters = '0123456789abcdefghijklmnopqrstuvwxyz';
const identity = (length: number): string =>
  Array.from({ length }, () => letters[Math.floor(Math.random() * letters.length)]).join('');
