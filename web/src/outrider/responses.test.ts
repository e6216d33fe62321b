// The Responses API over `outrider.fetch`, through the npm client of OpenAI.

import OpenAI from 'openai';
import { expect, test, vi } from 'vitest';
import { ChatCompletions, Completions } from './completions.js';
import type { Piece, Prompt, Round, Summary, Token } from './edge.js';
import { OutriderError } from './errors.js';
import { fetchFrom } from './fetch.js';
import { sampling } from './fixtures.js';
import { emptySummary, Generation } from './generation.js';
import { resolveRequest } from './options.js';
import type { GenerateOptions } from './options.js';
import { generationRanges } from './tables.js';

type Written = readonly (string | Piece)[];

/** A client of a writer of these tokens and calls; the template has reasoning. */
function client(written: Written, finish: Summary['finish'] = 'eos', error?: OutriderError) {
  const asked: { prompt: Prompt; options: GenerateOptions }[] = [];
  const generate = (prompt: Prompt, options: GenerateOptions = {}): Generation => {
    const request = resolveRequest(prompt, options, generationRanges, { gate: false, stop: false });
    asked.push({ prompt, options });
    const generation = new Generation(request, () => {});
    const pieces = written.map((part): Piece => (typeof part === 'string' ? { type: 'text', text: part } : part));
    for (const piece of pieces) {
      const text = piece.type === 'text' ? piece.text : '';
      const tokens: Token[] = [{ id: 1, text, origin: 'accepted' }];
      const round: Round = { tokens, statistics: emptySummary, round: null };
      generation.add(request.tools.length > 0 ? { ...round, pieces: [piece] } : round);
    }
    const text = pieces.map((piece) => (piece.type === 'text' ? piece.text : '')).join('');
    const tools = request.tools.length > 0 && { pieces };
    if (error) generation.fail(error);
    else generation.finish({ ...emptySummary, text, tokens: pieces.length, promptTokens: 5, finish, ...tools });
    return generation;
  };
  const ready: Promise<'draft'> = Promise.resolve('draft');
  const writer = { generate, ranges: generationRanges, ready, sampling };
  const chat = { completions: new ChatCompletions(writer, async (_prompt, _options, end) => end ?? '') };
  const fetch = vi.fn(fetchFrom({ chat, completions: new Completions(writer) }, vi.fn()));
  const baseURL = 'https://outrider.invalid/v1';
  return { asked, fetch, openai: new OpenAI({ apiKey: 'unused', baseURL, fetch, maxRetries: 0 }) };
}

const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const tools = [{ type: 'function', name: 'weather', parameters, strict: false } as const];
const call = { type: 'call', name: 'weather', arguments: '{"city":"Bonn"}' } as const;
const thinking = ['<think>', '\n', 'so', ' so', '\n', '</think>', '\n\n', 'Good', ' day'];

async function eventsOf(openai: OpenAI, request: Partial<OpenAI.Responses.ResponseCreateParamsStreaming> = {}) {
  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  const stream = await openai.responses.create({ model: 'any', input: 'Hello', ...request, stream: true });
  for await (const event of stream) events.push(event);
  return events;
}

test('a response has the text, and the chat what was asked', async () => {
  const { openai, asked } = client(['Good', ' day']);
  const response = await openai.responses.create({
    ...{ model: 'any', instructions: 'Be brief.', max_output_tokens: 9, temperature: 0, truncation: 'disabled' },
    ...{ store: false, text: { format: { type: 'json_schema', name: 'n', schema: { type: 'object' } } } },
    input: [
      { role: 'user', content: [{ type: 'input_text', text: 'Hello' }] },
      { type: 'function_call', call_id: '1', name: 'weather', arguments: '{}' },
      { type: 'function_call', call_id: '2', name: 'weather', arguments: '{}' },
      { type: 'function_call_output', call_id: '1', output: 'sun' },
    ],
  });
  expect(response.output_text).toBe('Good day');
  const hex = /^resp_([0-9a-z]{24})$/.exec(response.id)?.[1];
  const content = [{ type: 'output_text', text: 'Good day', annotations: [] }];
  expect(response).toMatchObject({
    ...{ object: 'response', status: 'completed', error: null, incomplete_details: null, model: 'outrider' },
    output: [{ id: `msg_${hex}00`, type: 'message', role: 'assistant', status: 'completed', content }],
    usage: { input_tokens: 5, output_tokens: 2, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 7 },
  });
  const made = (id: string) => ({ id, type: 'function', function: { name: 'weather', arguments: '{}' } });
  expect(asked[0]?.prompt).toEqual([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
    { role: 'assistant', content: null, tool_calls: [made('1'), made('2')] },
    { role: 'tool', tool_call_id: '1', content: 'sun' },
  ]);
  expect(asked[0]?.options).toMatchObject({
    ...{ maxNewTokens: 9, temperature: 0 },
    responseFormat: { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' } } },
  });
});

test('the events of a stream are those of the server, in its order', async () => {
  const events = await eventsOf(client(thinking).openai);
  expect(events.map(({ type }) => type.replace('response.', ''))).toEqual([
    ...['created', 'in_progress'],
    ...['output_item.added', 'content_part.added', 'reasoning_text.delta', 'reasoning_text.delta'],
    ...['reasoning_text.done', 'content_part.done', 'output_item.done'],
    ...['output_item.added', 'content_part.added', 'output_text.delta', 'output_text.delta'],
    ...['output_text.done', 'content_part.done', 'output_item.done', 'completed'],
  ]);
  expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
  const last = events.at(-1);
  if (last?.type !== 'response.completed') throw new Error();
  const id = last.response.id.slice('resp_'.length);
  expect(last.response).toMatchObject({
    output: [
      { id: `rs_${id}00`, type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'so so' }] },
      { id: `msg_${id}01`, content: [{ text: 'Good day' }] },
    ],
    usage: { output_tokens: 9, output_tokens_details: { reasoning_tokens: 4 } },
  });
  const place = { item_id: `rs_${id}00`, output_index: 0, content_index: 0 };
  expect(events[3]).toMatchObject({ ...place, part: { type: 'reasoning_text', text: '' } });
  expect(events[6]).toMatchObject({ ...place, text: 'so so' });
  expect(events[7]).toMatchObject({ ...place, part: { type: 'reasoning_text', text: 'so so' } });
  expect(events[11]).toMatchObject({ item_id: `msg_${id}01`, output_index: 1, content_index: 0, delta: 'Good' });
  expect(events[0]).toMatchObject({ response: { status: 'in_progress', output: [], usage: null } });
});

test('the client of OpenAI puts a stream together, with its reasoning', async () => {
  const stream = client(thinking).openai.responses.stream({ model: 'any', input: 'Hello' });
  const response = await stream.finalResponse();
  expect(response.output_text).toBe('Good day');
  expect(response.output).toMatchObject([
    { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'so so' }] },
    { type: 'message', content: [{ text: 'Good day' }] },
  ]);
});

test('calls are items of their own', async () => {
  const { openai, asked } = client(['Hm.', call, call]);
  const response = await openai.responses.create({ model: 'any', input: 'Hello', tools });
  const id = response.id.slice('resp_'.length);
  const item = { type: 'function_call', name: 'weather', arguments: '{"city":"Bonn"}', status: 'completed' };
  const call_id = expect.stringMatching(/^[0-9a-z]{9}$/) as string;
  expect(response.output).toMatchObject([
    { type: 'message', content: [{ text: 'Hm.' }] },
    { ...item, id: `fc_${id}01`, call_id },
    { ...item, id: `fc_${id}02`, call_id },
  ]);
  const shown = [{ type: 'function', function: { name: 'weather', parameters } }];
  expect(asked[0]?.options).toMatchObject({ tools: shown, toolChoice: undefined });
  const forced = await openai.responses.create({
    ...{ model: 'any', input: 'Hello', tools, tool_choice: { type: 'function', name: 'weather' } },
  });
  expect(forced.output).toHaveLength(3);
  expect(asked[1]?.options.tools).toEqual(shown);
  expect(asked[1]?.options.toolChoice).toEqual({ type: 'function', function: { name: 'weather' } });
  const events = await eventsOf(client([call]).openai, { tools: [...tools] });
  expect(events.map(({ type }) => type.replace('response.', ''))).toEqual([
    ...['created', 'in_progress', 'output_item.added', 'function_call_arguments.delta'],
    ...['function_call_arguments.done', 'output_item.done', 'completed'],
  ]);
  expect(events[2]).toMatchObject({ item: { type: 'function_call', arguments: '', status: 'in_progress' } });
});

test('a text that is cut is incomplete, and an empty one is a message', async () => {
  const { openai } = client(['<think>', 'so'], 'length');
  expect(await openai.responses.create({ model: 'any', input: 'Hello' })).toMatchObject({
    ...{ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
    output: [{ type: 'reasoning', status: 'incomplete' }],
  });
  expect((await eventsOf(openai)).at(-1)?.type).toBe('response.incomplete');
  const { output } = await client([]).openai.responses.create({ model: 'any', input: 'Hello' });
  expect(output).toMatchObject([{ type: 'message', content: [{ text: '' }] }]);
});

test('an error has a status until the text begins, and is an event from then on', async () => {
  const error = new OutriderError('connection-lost', 'away');
  const failing = client([], 'eos', error).openai;
  for (const stream of [true, false]) {
    const response = failing.responses.create({ model: 'any', input: 'Hello', stream });
    await expect(response).rejects.toMatchObject({ status: 503, code: 'connection-lost' });
  }
  const { fetch } = client(['Good'], 'eos', error);
  const body = JSON.stringify({ input: 'Hello', stream: true });
  const response = await fetch('https://outrider.invalid/v1/responses', { method: 'POST', body });
  const events = (await response.text()).trimEnd().split('\n\n');
  expect(response.headers.get('Content-Type')).toBe('text/event-stream');
  const last = { type: 'error', sequence_number: 5, code: 'connection-lost', message: 'away' };
  expect(events.at(-1)).toBe(`event: error\ndata: ${JSON.stringify(last)}`);
});

test('what is not supported is refused by its name, as by the server', async () => {
  const { fetch } = client(['Good']);
  const refused = async (request: object) => {
    const body = JSON.stringify({ input: 'Hello', ...request });
    const response = await fetch('https://outrider.invalid/v1/responses', { method: 'POST', body });
    const { error } = (await response.json()) as { error?: { param: string; code: string | null } };
    return [response.status, error?.param, error?.code];
  };
  const unsupported = 'unsupported_parameter';
  for (const [request, param, code] of [
    [{ messages: [] }, 'messages', unsupported],
    [{ n: 1 }, 'n', unsupported],
    [{ logprobs: true }, 'logprobs', unsupported],
    [{ top_logprobs: 2 }, 'top_logprobs', unsupported],
    [{ text: 'json' }, 'text', null],
    [{ text: { format: 'x' } }, 'text.format', null],
    [{ input: [] }, 'input', null],
    [{ max_tokens: 1 }, 'max_tokens', unsupported],
    [{ background: true }, 'background', unsupported],
    [{ truncation: 'auto' }, 'truncation', unsupported],
    [{ include: ['a'] }, 'include', unsupported],
    [{ reasoning: { effort: 'low' } }, 'reasoning', unsupported],
    [{ previous_response_id: 'a' }, 'previous_response_id', unsupported],
    [{ text: { verbosity: 'low' } }, 'verbosity', unsupported],
    [{ instructions: 1 }, 'instructions', null],
    [{ input: null }, 'input', null],
    [{ input: 1 }, 'input', null],
    [{ input: [1] }, 'input', null],
    [{ input: [{ type: 'item_reference', id: 'a' }] }, 'input', null],
    [{ input: [{ role: 'user', content: [{ type: 'input_image' }] }] }, 'input', null],
    [{ input: [{ role: 'critic', content: 'a' }] }, 'messages', null],
    [{ max_output_tokens: 0 }, 'max_output_tokens', null],
    [{ tools: [{ ...tools[0], strict: true }] }, 'tools', null],
    [{ stream: 'yes' }, 'stream', null],
    [{ stream_options: 1 }, 'stream_options', null],
  ] as const) {
    expect(await refused(request), JSON.stringify(request)).toEqual([400, param, code]);
  }
  const neutral = { background: false, include: [], reasoning: {}, text: { format: { type: 'text' } }, seed: null };
  expect(await refused(neutral)).toEqual([200, undefined, undefined]);
});
