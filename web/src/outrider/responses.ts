// The Responses API, for text and calls of functions: its requests as those of a chat, and a chat's answer as its objects
// and events, all as by the server. Nothing is stored: a conversation is sent whole.

import { ApiError } from './api-error.js';
import type { ChatCompletionChunk, CompletionToolCall, CompletionUsage } from './completions-types.js';

type Fields = Record<string, unknown>;

/** An event of a response that is being written. */
export type ResponseEvent = Fields & { type: string; sequence_number: number };

/** Names that a chat has in place of others here. */
const ofChats = ['messages', 'n', 'response_format', 'max_tokens', 'max_completion_tokens', 'logprobs'];
/** Values that keep nothing and cut nothing. */
const neutral = { background: false, truncation: 'disabled', include: [], reasoning: {}, top_logprobs: 0 };
const textParts: readonly unknown[] = ['input_text', 'output_text', 'text'];

/**
 * Converts a request to that of a chat, whose answer comes in chunks with its usage. The chat checks the rest.
 * @throws {@link ApiError}
 */
export function asChat(params: Fields): Fields {
  const given = withoutNulls(params);
  const ofChat = ofChats.find((name) => name in given);
  if (ofChat !== undefined) throw unsupported(ofChat);
  const { input, instructions, max_output_tokens, text, tools, tool_choice, ...rest } = given;
  const messages: Fields[] = [];
  if (instructions !== undefined) {
    if (typeof instructions !== 'string') throw wrong('instructions', 'a text');
    messages.push({ role: 'system', content: instructions });
  }
  if (typeof input === 'string') messages.push({ role: 'user', content: input });
  else if (Array.isArray(input) && input.length > 0) for (const item of input) addItem(item, messages);
  else throw wrong('input', 'a text, or a list of messages and calls');
  for (const [name, value] of Object.entries(neutral)) {
    const [given = value, only] = [rest[name], JSON.stringify(value)];
    if (JSON.stringify(given) !== only) throw unsupported(name, ` other than as ${only}`);
    delete rest[name];
  }
  if (text !== undefined && !isObject(text)) throw wrong('text', 'an object with a format');
  const { stream = true, stream_options: options = {} } = rest;
  return {
    ...rest,
    messages,
    ...(max_output_tokens !== undefined && { max_completion_tokens: lengthOf(max_output_tokens) }),
    ...(text !== undefined && { response_format: formatOf(text) }),
    ...(tools !== undefined && { tools: Array.isArray(tools) ? tools.map(nested) : tools }),
    ...(tool_choice !== undefined && { tool_choice: nested(tool_choice) }),
    stream: stream === false || stream,
    stream_options: isObject(options) ? { ...options, include_usage: true } : options,
  };
}

/** Checks the length of the answer, which has another name in a chat. */
function lengthOf(tokens: unknown): unknown {
  if (Number.isInteger(tokens) && (tokens as number) >= 1) return tokens;
  throw wrong('max_output_tokens', 'a whole number from 1');
}

/** The form of the answer as a chat has it. */
function formatOf({ format, ...rest }: Fields): Fields | undefined {
  const [other] = Object.keys(withoutNulls(rest));
  if (other !== undefined)
    throw new ApiError(400, `text.${other} is not supported here.`, 'unsupported_parameter', other);
  if (format === undefined || format === null) return undefined;
  if (!isObject(format)) throw wrong('text.format', 'an object with a type');
  const { type, ...schema } = format;
  return { type, ...(type === 'json_schema' && { json_schema: schema }) };
}

/** Moves the fields of a function, which stand beside its type here, into an object of their own. */
function nested(value: unknown): unknown {
  if (!isObject(value)) return value;
  const { type, ...fields } = value;
  return { type, function: fields };
}

/** Adds an item of the input to the messages. */
function addItem(item: unknown, messages: Fields[]): void {
  const refused = wrong('input', 'a text, or a list of messages, function_call and function_call_output items');
  if (!isObject(item)) throw refused;
  switch (item['type'] ?? 'message') {
    case 'message': {
      const { role, content } = item;
      messages.push({ role, content: textsOf(content, refused) });
      return;
    }
    case 'function_call': {
      const { call_id: id, name, arguments: given } = item;
      const call = { id, type: 'function', function: { name, arguments: given } };
      // Calls of one answer are of one message.
      const last = messages.at(-1);
      if (last?.['role'] !== 'assistant') messages.push({ role: 'assistant', content: null, tool_calls: [call] });
      else last['tool_calls'] = [...((last['tool_calls'] as object[] | undefined) ?? []), call];
      return;
    }
    case 'function_call_output':
      messages.push({ role: 'tool', tool_call_id: item['call_id'], content: textsOf(item['output'], refused) });
      return;
    case 'reasoning':
      // Templates leave the reasoning of earlier answers out.
      return;
    default:
      throw refused;
  }
}

/** The content of a message as a chat has it. @throws {@link ApiError} if a part of it is no text */
function textsOf(content: unknown, refused: ApiError): unknown {
  if (!Array.isArray(content)) return content;
  const parts = content.map(partOf);
  const other = content[parts.indexOf(null)] as unknown;
  if (isObject(other))
    throw new ApiError(400, `input has text parts only, not ${String(other['type'])}.`, null, 'input');
  if (parts.includes(null)) throw refused;
  return parts;
}

/** A part of a message's content as a chat has it; null if it is no text. */
function partOf(part: unknown): Fields | null {
  return isObject(part) && textParts.includes(part['type']) ? { type: 'text', text: part['text'] } : null;
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function withoutNulls(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));
}

function wrong(name: string, expected: string): ApiError {
  return new ApiError(400, `${name} must be ${expected}.`, null, name);
}

function unsupported(name: string, otherThan = ''): ApiError {
  return new ApiError(400, `${name} is not supported here${otherThan}.`, 'unsupported_parameter', name);
}

/** The kinds of items that consist of text. */
type Kind = 'reasoning' | 'message';

const prefixes = { reasoning: 'rs', message: 'msg' } as const;
/** The events of their texts, with the fields that those of a message have besides. */
const textEvents = { reasoning: 'response.reasoning_text', message: 'response.output_text' } as const;
const besides = { reasoning: {}, message: { logprobs: [] } } as const;

/** The part of an item that has its text. */
function partWith(kind: Kind, text: string): Fields {
  return kind === 'reasoning'
    ? { type: 'reasoning_text', text }
    : { type: 'output_text', text, annotations: [], logprobs: [] };
}

/** A response that is being written. Its methods return the events of what they add. */
class ResponseWriter {
  readonly #head: ChatCompletionChunk;
  /** Fields of the request that a response repeats. */
  readonly #settings: Fields;
  /** Items that are complete. */
  readonly #output: Fields[] = [];
  /** The item under way, with its text. */
  #open: { kind: Kind; text: string } | null = null;
  /** True if a limit has cut the text. */
  #isCut = false;
  #sequence = 0;

  /** Makes a writer of the response with the id, time and model of a chunk. */
  constructor(head: ChatCompletionChunk, { tools, tool_choice, parallel_tool_calls }: Fields) {
    this.#head = head;
    this.#settings = {
      tools: tools ?? [],
      tool_choice: tool_choice ?? 'auto',
      parallel_tool_calls: parallel_tool_calls ?? true,
    };
  }

  /** Begins a response without output. */
  begin(): ResponseEvent[] {
    const response = this.#object('in_progress', null);
    return [this.event('response.created', { response }), this.event('response.in_progress', { response })];
  }

  add({ choices: [choice] }: ChatCompletionChunk): ResponseEvent[] {
    if (!choice) return [];
    const { delta, finish_reason: finish } = choice;
    this.#isCut ||= finish === 'length';
    const events = [
      ...this.#write('reasoning', delta.reasoning_content ?? ''),
      ...this.#write('message', delta.content ?? ''),
      ...(delta.tool_calls ?? []).flatMap((call) => this.#call(call)),
    ];
    if (finish === null) return events;
    if (!this.#open && this.#output.length === 0) events.push(...this.#begin('message'));
    return [...events, ...this.#close()];
  }

  /** Ends the response and gives its last event. */
  end(usage: CompletionUsage | null): ResponseEvent {
    return this.event(`response.${this.#status}`, { response: this.response(usage) });
  }

  event(type: string, fields: Fields): ResponseEvent {
    return { type, sequence_number: this.#sequence++, ...fields };
  }

  /** The response with all of its items and the counts of tokens. */
  response(usage: CompletionUsage | null): Fields {
    const counts = usage && {
      input_tokens: usage.prompt_tokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: usage.completion_tokens,
      output_tokens_details: { reasoning_tokens: usage.outrider.reasoning_tokens },
      total_tokens: usage.total_tokens,
    };
    return this.#object(this.#status, counts);
  }

  get #status(): string {
    return this.#isCut ? 'incomplete' : 'completed';
  }

  get #id(): string {
    return this.#head.id.replace('chatcmpl-', '');
  }

  /** The id of the item under way, or of the next one. */
  #itemId(prefix: string): string {
    return `${prefix}_${this.#id}${this.#output.length.toString(16).padStart(2, '0')}`;
  }

  /** An item that consists of a text; null while it is under way. */
  #item(kind: Kind, text: string | null): Fields {
    const status = text === null ? 'in_progress' : this.#status;
    const [id, content] = [this.#itemId(prefixes[kind]), text === null ? [] : [partWith(kind, text)]];
    if (kind === 'reasoning') return { id, type: kind, summary: [], status, content };
    return { id, type: kind, role: 'assistant', status, content };
  }

  #begin(kind: Kind): ResponseEvent[] {
    const [item, output_index] = [this.#item(kind, null), this.#output.length];
    this.#open = { kind, text: '' };
    return [
      this.event('response.output_item.added', { output_index, item }),
      this.event('response.content_part.added', { ...this.#place(kind), part: partWith(kind, '') }),
    ];
  }

  #place(kind: Kind): Fields {
    return { item_id: this.#itemId(prefixes[kind]), output_index: this.#output.length, content_index: 0 };
  }

  #write(kind: Kind, delta: string): ResponseEvent[] {
    if (delta === '') return [];
    const events = this.#open?.kind === kind ? [] : [...this.#close(), ...this.#begin(kind)];
    if (this.#open) this.#open.text += delta;
    return [...events, this.event(`${textEvents[kind]}.delta`, { ...this.#place(kind), delta, ...besides[kind] })];
  }

  /** Completes the item under way. */
  #close(): ResponseEvent[] {
    if (!this.#open) return [];
    const { kind, text } = this.#open;
    this.#open = null;
    const [item, place] = [this.#item(kind, text), this.#place(kind)];
    const events = [
      this.event(`${textEvents[kind]}.done`, { ...place, text, ...besides[kind] }),
      this.event('response.content_part.done', { ...place, part: partWith(kind, text) }),
      this.event('response.output_item.done', { output_index: this.#output.length, item }),
    ];
    this.#output.push(item);
    return events;
  }

  #call({ id: call_id, function: { name, arguments: given } }: CompletionToolCall): ResponseEvent[] {
    const events = this.#close();
    const [id, output_index] = [this.#itemId('fc'), this.#output.length];
    const item = { id, type: 'function_call', call_id, name };
    const done = { ...item, arguments: given, status: 'completed' };
    const place = { item_id: id, output_index };
    events.push(
      this.event('response.output_item.added', {
        output_index,
        item: { ...item, arguments: '', status: 'in_progress' },
      }),
      this.event('response.function_call_arguments.delta', { ...place, delta: given }),
      this.event('response.function_call_arguments.done', { ...place, arguments: given }),
      this.event('response.output_item.done', { output_index, item: done }),
    );
    this.#output.push(done);
    return events;
  }

  #object(status: string, usage: Fields | null): Fields {
    return {
      ...{ id: `resp_${this.#id}`, object: 'response', created_at: this.#head.created, status, error: null },
      incomplete_details: this.#isCut ? { reason: 'max_output_tokens' } : null,
      ...{ model: this.#head.model, output: [...this.#output], usage },
      ...this.#settings,
    };
  }
}

/** The events of the response to a request, from its chat's chunks. An error ends them, as one of them. */
export async function* responseEvents(
  params: Fields,
  chunks: AsyncIterable<ChatCompletionChunk>,
  errorOf: (error: unknown) => ApiError,
): AsyncGenerator<ResponseEvent> {
  let writer: ResponseWriter | null = null;
  let usage: CompletionUsage | null = null;
  try {
    for await (const chunk of chunks) {
      if (!writer) yield* (writer = new ResponseWriter(chunk, params)).begin();
      yield* writer.add(chunk);
      usage = chunk.usage ?? usage;
    }
    if (writer) yield writer.end(usage);
  } catch (error) {
    const { code, message } = errorOf(error).body.error;
    if (writer) yield writer.event('error', { code, message });
  }
}

/** The whole response to a request, from its chat's chunks. */
export async function responseOf(params: Fields, chunks: AsyncIterable<ChatCompletionChunk>): Promise<unknown> {
  const rethrow = (error: unknown): never => {
    throw error;
  };
  let last: ResponseEvent | undefined;
  for await (const event of responseEvents(params, chunks, rethrow)) last = event;
  return last?.['response'];
}
