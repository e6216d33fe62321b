// The npm clients of OpenAI's API, each with its own calls, over `outrider.fetch`.

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { AIMessageChunk } from '@langchain/core/messages';
import { HumanMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAI as LangchainTexts } from '@langchain/openai';
import { APICallError, DirectChatTransport, generateText, streamText, tool as aiTool, ToolLoopAgent } from 'ai';
import type { ToolSet, UIMessageChunk } from 'ai';
import OpenAI from 'openai';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { baseURL, HANGS, WritingWorker } from './fetch-fixtures.js';
import { Outrider } from './index.js';

let outrider: Outrider;
let openai: OpenAI;

beforeEach(async () => {
  WritingWorker.reset();
  vi.stubGlobal('Worker', WritingWorker);
  vi.stubGlobal('location', new URL('https://example.org/page/'));
  // Nothing may reach the network.
  vi.stubGlobal('fetch', () => {
    throw new Error('a request left the page');
  });
  outrider = await Outrider.load({ wait: 'draft' });
  openai = new OpenAI({ apiKey: 'unused', baseURL, fetch: outrider.fetch, maxRetries: 0 });
});
afterEach(() => vi.unstubAllGlobals());

const messages = [{ role: 'user', content: 'Hello' }] as const;
const hanging = [{ role: 'user', content: HANGS }] as const;
const chat = { model: 'any', messages: [...messages], seed: 4 };
const call = { type: 'call', name: 'weather', arguments: '{"city":"Bonn"}' } as const;
const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const tools = [{ type: 'function', function: { name: 'weather', parameters } } as const];

test('openai: an answer, a text and the models', async () => {
  const answer = await openai.chat.completions.create({ ...chat, max_tokens: 9, temperature: 0 });
  expect(answer.choices).toMatchObject([
    { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Good day 4' } },
  ]);
  expect(answer.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 });
  expect(WritingWorker.requests[0]).toMatchObject({ prompt: messages, maxNewTokens: 9, temperature: 0, seed: 4 });
  const text = await openai.completions.create({ model: 'any', prompt: ['Once'], seed: 7 });
  expect(text.choices).toMatchObject([{ text: 'Good day 7', finish_reason: 'stop' }]);
  expect(WritingWorker.requests[1]).toMatchObject({ prompt: 'Once', maxNewTokens: 16 });
  const names: string[] = [];
  for await (const { id } of openai.models.list()) names.push(id);
  expect(names).toEqual(['outrider']);
  expect(await openai.models.retrieve('outrider')).toMatchObject({ id: 'outrider', object: 'model' });
});

test('openai: the scores of a prompt are asked of the server, with its token and model', async () => {
  const scores = { tokens: ['Once', ' upon'], token_logprobs: [null, -1.5] };
  const asked = vi.fn(() =>
    Promise.resolve(Response.json({ choices: [{ index: 0, text: 'Once upon', logprobs: scores }] })),
  );
  const scoring = await Outrider.load({ wait: 'draft', token: 'secret', model: 'large' });
  vi.stubGlobal('fetch', asked);
  const client = new OpenAI({ apiKey: 'unused', baseURL, fetch: scoring.fetch, maxRetries: 0 });
  const body = { model: 'any', prompt: 'Once upon', echo: true, logprobs: 0, max_tokens: 0 };
  expect((await client.completions.create(body)).choices[0]?.logprobs).toEqual(scores);
  const [[url, init]] = asked.mock.calls as unknown as [[URL, RequestInit & { body: string }]];
  expect(url.href).toBe('https://example.org/v1/completions');
  expect(init.headers).toMatchObject({ Authorization: 'Bearer secret' });
  expect(JSON.parse(init.body)).toEqual({ ...body, model: 'large' });
  expect(WritingWorker.requests).toEqual([]);
  asked.mockRejectedValue(new TypeError('Failed to fetch'));
  await expect(client.completions.create(body)).rejects.toMatchObject({ status: 503, code: 'connection-failed' });
});

test('openai: a stream has its text in chunks, and usage if it is wanted', async () => {
  const stream = await openai.chat.completions.create({
    ...{ ...chat, stream: true, stream_options: { include_usage: true } },
  });
  const chunks: OpenAI.ChatCompletionChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  const texts = chunks.map(({ choices }) => choices[0]?.delta.content);
  expect(texts).toEqual(['', 'Good ', 'day ', '4', undefined, undefined]);
  expect(chunks.map(({ choices }) => choices[0]?.finish_reason).filter(Boolean)).toEqual(['stop']);
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 8 } });
  const plain: string[] = [];
  for await (const { choices, usage } of await openai.completions.create({
    model: 'a',
    prompt: 'a',
    seed: 1,
    stream: true,
  })) {
    expect(usage).toBeUndefined();
    plain.push(choices[0]?.text ?? '');
  }
  expect(plain).toEqual(['Good ', 'day ', '1', '']);
  // The client's own accumulation.
  expect(await openai.chat.completions.stream(chat).finalContent()).toBe('Good day 4');
});

test('openai: tools are called, and their results go back', async () => {
  WritingWorker.pieces = [call];
  const { choices } = await openai.chat.completions.create({ ...chat, tools, tool_choice: 'auto' });
  expect(choices[0]).toMatchObject({
    ...{ finish_reason: 'tool_calls' },
    message: {
      content: null,
      tool_calls: [{ type: 'function', function: { name: 'weather', arguments: call.arguments } }],
    },
  });
  expect(WritingWorker.requests[0]?.tools).toEqual(tools);
  const asked: unknown[] = [];
  const answer = openai.chat.completions.runTools({
    ...{ ...chat, stream: true },
    tools: [
      {
        type: 'function',
        function: {
          ...{ name: 'weather', description: 'the weather', parameters, parse: JSON.parse },
          function: (given: object) => {
            asked.push(given);
            WritingWorker.pieces = null;
            return 'sun';
          },
        },
      },
    ],
  });
  expect(await answer.finalContent()).toBe('Good day 4');
  expect(asked).toEqual([{ city: 'Bonn' }]);
  expect(WritingWorker.requests.at(-1)?.prompt).toMatchObject([
    {},
    { role: 'assistant' },
    { role: 'tool', content: 'sun' },
  ]);
});

test('openai: several choices have seeds of their own, and their tokens are added', async () => {
  const { choices, usage } = await openai.chat.completions.create({ ...chat, n: 3 });
  expect(choices.map(({ index, message }) => [index, message.content])).toEqual([
    ...[
      [0, 'Good day 4'],
      [1, 'Good day 5'],
      [2, 'Good day 6'],
    ],
  ]);
  expect(usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 9, total_tokens: 14 });
  expect(usage).toMatchObject({ outrider: { server_passes: 6 } });
  const texts = ['', ''];
  let [ids, last] = [new Set<string>(), null as OpenAI.CompletionUsage | null];
  for await (const chunk of await openai.chat.completions.create({
    ...{ ...chat, n: 2, stream: true, stream_options: { include_usage: true } },
  })) {
    for (const { index, delta } of chunk.choices) texts[index] += delta.content ?? '';
    ids.add(chunk.id);
    if (chunk.usage) last = chunk.usage;
  }
  expect(texts).toEqual(['Good day 4', 'Good day 5']);
  expect([ids.size, last]).toMatchObject([1, { prompt_tokens: 5, completion_tokens: 6 }]);
});

test('openai: requests that come together are answered side by side, beside the page’s own text', async () => {
  const asked = [1, 2, 3, 4].map((seed) => openai.chat.completions.create({ ...chat, seed, stream: seed % 2 === 0 }));
  const own = outrider.generate(HANGS, { seed: 0 });
  const texts = await Promise.all(
    asked.map(async (answer) => {
      const got = await answer;
      if ('choices' in got) return got.choices[0]?.message.content;
      let text = '';
      for await (const { choices } of got) text += choices[0]?.delta.content ?? '';
      return text;
    }),
  );
  expect(texts).toEqual(['Good day 1', 'Good day 2', 'Good day 3', 'Good day 4']);
  own.stop();
  expect((await own.summary).text).toBe('cut');
});

test('openai: each prompt of a list has its choices, and counts once', async () => {
  const prompt = ['one', 'two'];
  const { choices, usage } = await openai.completions.create({ model: 'any', prompt, n: 2, seed: 4 });
  expect(choices.map(({ index, text }) => [index, text])).toEqual([
    ...[
      [0, 'Good day 4'],
      [1, 'Good day 5'],
      [2, 'Good day 4'],
      [3, 'Good day 5'],
    ],
  ]);
  expect(usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 12, total_tokens: 22 });
  expect(WritingWorker.requests.map((request) => request.prompt)).toEqual(['one', 'one', 'two', 'two']);
});

test('openai: the choices of a request are written side by side; the failure of one stops the others', async () => {
  const several = openai.chat.completions.create({ ...chat, seed: 10, n: 3 });
  await vi.waitFor(() => expect(WritingWorker.requests.map(({ seed }) => seed)).toEqual([10, 11, 12]));
  expect((await several).choices.map(({ index, message }) => [index, message.content])).toEqual([
    [0, 'Good day 10'],
    [1, 'Good day 11'],
    [2, 'Good day 12'],
  ]);
  Object.assign(WritingWorker, { error: { code: 'prompt-too-long', message: 'it is too long' }, failing: 21 });
  const failing = openai.chat.completions.create({ ...chat, messages: [...hanging], seed: 20, n: 3 });
  await expect(failing).rejects.toMatchObject({ status: 400 });
  expect(WritingWorker.stops).toBe(2);
});

test('openai: refusals have the server’s statuses, names and codes', async () => {
  const refused = async (more: object) => {
    const error = await openai.chat.completions.create({ ...chat, ...more }).then(
      () => null,
      (error: unknown) => error,
    );
    if (!(error instanceof OpenAI.APIError)) throw new Error(`${JSON.stringify(more)} gave ${String(error)}`);
    return [error.status, error.type, error.param, error.code];
  };
  const wrong = (param: string, code: string | null = null) => [400, 'invalid_request_error', param, code];
  for (const [more, expected] of [
    [{ temperature: 2.5 }, wrong('temperature')],
    [{ top_p: 2 }, wrong('top_p')],
    [{ max_tokens: 0 }, wrong('max_tokens')],
    [{ n: 17 }, wrong('n')],
    [{ n: 'two' }, wrong('n')],
    [{ seed: 1.5 }, wrong('seed')],
    [{ stop: '' }, wrong('stop')],
    [{ stream: 'yes' }, wrong('stream')],
    [{ model: 5 }, wrong('model')],
    [{ messages: [] }, wrong('messages')],
    [{ messages: 'Hello' }, wrong('messages')],
    [{ tools: [{}] }, wrong('tools')],
    [{ top_logprobs: 1 }, wrong('top_logprobs')],
    [{ chat_template_kwargs: { messages: [] } }, wrong('chat_template_kwargs')],
    [{ logit_bias: { 5: 101 } }, wrong('logit_bias')],
    [{ presence_penalty: 3 }, wrong('presence_penalty')],
    [{ response_format: { type: 'xml' } }, wrong('response_format')],
    [{ tool_choice: 'required' }, wrong('tool_choice')],
    [{ reasoning_effort: 'low' }, wrong('reasoning_effort', 'unsupported_parameter')],
    [{ stream_options: { unknown: 1 }, stream: true }, wrong('unknown', 'unsupported_parameter')],
  ] as const) {
    expect(await refused(more), JSON.stringify(more)).toEqual(expected);
  }
  for (const [code, expected] of [
    ['prompt-too-long', [400, 'invalid_request_error', 'messages', 'context_length_exceeded']],
    ['invalid-parameters', [400, 'invalid_request_error', null, null]],
    ['unauthorized', [401, 'authentication_error', null, 'unauthorized']],
    ['server-full', [503, 'server_error', null, 'server_full']],
    ['worker-crashed', [500, 'server_error', null, 'worker-crashed']],
  ] as const) {
    WritingWorker.error = { code, message: 'no' };
    // Also of a stream: until its text begins an error has a status.
    for (const stream of [false, true]) expect(await refused({ stream }), code).toEqual(expected);
  }
  await expect(openai.models.retrieve('gpt')).rejects.toMatchObject({ status: 404, code: 'model_not_found' });
  await expect(openai.embeddings.create({ model: 'a', input: 'a' })).rejects.toMatchObject({ code: 'unknown_url' });
});

test('what is no request of the API is refused as by the server', async () => {
  const answerOf = async (path: string, init?: RequestInit) => {
    const response = await outrider.fetch(`https://outrider.invalid${path}`, init);
    return [response.status, ((await response.json()) as { error: { code: string } }).error.code];
  };
  const post = (body: string) => ({ method: 'POST', body });
  expect(await answerOf('/v1/completions')).toEqual([405, 'method_not_allowed']);
  expect(await answerOf('/v1/models', post('{}'))).toEqual([405, 'method_not_allowed']);
  expect(await answerOf('/completions', post('{}'))).toEqual([404, 'unknown_url']);
  expect(await answerOf('/v1/completions/', post('{}'))).toEqual([404, 'unknown_url']);
  for (const body of ['', '[]', 'null', '{"prompt": "a"']) {
    expect(await answerOf('/v1/completions', post(body)), body).toEqual([400, null]);
  }
  const request = new Request(new URL('https://elsewhere.invalid/api/v1/completions'), post('{"prompt":"a","seed":2}'));
  const { choices } = (await (await outrider.fetch(request)).json()) as OpenAI.Completion;
  expect(choices[0]?.text).toBe('Good day 2');
});

test('openai: an error in the middle of a stream reaches the client', async () => {
  const stream = await openai.chat.completions.create({ ...chat, messages: [...hanging], stream: true });
  const read = async () => {
    for await (const { choices } of stream) if (choices[0]?.delta.content) await outrider.close();
  };
  await expect(read()).rejects.toMatchObject({ code: 'closed' });
});

test('an error in the middle of a stream that is not read yet is for its reader alone', async () => {
  const unhandled = vi.fn();
  process.on('unhandledRejection', unhandled);
  try {
    const body = JSON.stringify({ prompt: HANGS, stream: true });
    const response = await outrider.fetch(`${baseURL}/completions`, { method: 'POST', body });
    void outrider.close();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(unhandled).not.toHaveBeenCalled();
    expect(await response.text()).toContain('this instance was closed');
  } finally {
    process.off('unhandledRejection', unhandled);
  }
});

test('openai: an abort ends its requests at once, and a stream that is left stops', async () => {
  const generate = (count: number) => vi.waitFor(() => expect(WritingWorker.requests).toHaveLength(count));
  const abort = new AbortController();
  const create = (signal: AbortSignal) =>
    openai.chat.completions.create({ ...chat, messages: [...hanging] }, { signal });
  const failed = Promise.allSettled([create(abort.signal), create(abort.signal)]);
  await generate(2);
  abort.abort();
  for (const outcome of await failed) {
    expect(outcome).toMatchObject({ reason: expect.any(OpenAI.APIUserAbortError) as unknown });
  }
  expect(WritingWorker.stops).toBe(2);
  await expect(create(abort.signal)).rejects.toThrow(OpenAI.APIUserAbortError);
  const stream = () => openai.chat.completions.create({ ...chat, messages: [...hanging], stream: true });
  const chunks: string[] = [];
  const aborted = await stream();
  for await (const { choices } of aborted) {
    chunks.push(choices[0]?.delta.content ?? '');
    if (chunks.length === 2) aborted.controller.abort();
  }
  expect(chunks).toEqual(['', 'Good ']);
  for await (const { choices } of await stream()) if (choices[0]?.delta.content) break;
  await vi.waitFor(() => expect(WritingWorker.stops).toBe(4));
  const body = JSON.stringify({ messages: hanging, stream: true });
  const { body: left } = await outrider.fetch(`${baseURL}/chat/completions`, { method: 'POST', body });
  await left?.cancel();
  await vi.waitFor(() => expect(WritingWorker.stops).toBe(5));
  expect((await openai.chat.completions.create(chat)).choices[0]?.message.content).toBe('Good day 4');
  expect(WritingWorker.requests).toHaveLength(6);
});

test('ai: texts, streams, tools, usage, errors and aborts', async () => {
  const provider = createOpenAICompatible({ name: 'outrider', baseURL, fetch: outrider.fetch, includeUsage: true });
  const model = provider('any');
  const { text, usage, finishReason } = await generateText({ model, prompt: 'Hello', seed: 4, maxOutputTokens: 9 });
  expect([text, finishReason]).toEqual(['Good day 4', 'stop']);
  expect(usage).toMatchObject({ inputTokens: 5, outputTokens: 3, totalTokens: 8 });
  const streamed = streamText({ model, prompt: 'Hello', seed: 5 });
  const parts: string[] = [];
  for await (const part of streamed.textStream) parts.push(part);
  expect(parts).toEqual(['Good ', 'day ', '5']);
  expect(await streamed.usage).toMatchObject({ totalTokens: 8 });
  expect((await generateText({ model: provider.completionModel('any'), prompt: 'Once', seed: 6 })).text).toBe(
    'Good day 6',
  );

  WritingWorker.pieces = [call];
  const weather = aiTool({ description: 'the weather', inputSchema: z.object({ city: z.string() }) });
  // Its types are not meant for `exactOptionalPropertyTypes`.
  const tools: ToolSet = { weather: weather as never };
  const called = await generateText({ model, prompt: 'Hello', tools });
  expect(called.toolCalls).toMatchObject([{ toolName: 'weather', input: { city: 'Bonn' } }]);
  const calls = await streamText({ model, prompt: 'Hello', tools }).toolCalls;
  expect(calls).toMatchObject([{ toolName: 'weather', input: { city: 'Bonn' } }]);

  WritingWorker.pieces = null;
  const refused = generateText({ model, prompt: 'Hello', presencePenalty: 3, maxRetries: 0 });
  const error = await refused.catch((error: unknown) => error);
  expect(APICallError.isInstance(error) && error.statusCode).toBe(400);
  const abortSignal = AbortSignal.timeout(50);
  await expect(generateText({ model, prompt: HANGS, abortSignal })).rejects.toMatchObject({ name: 'TimeoutError' });
  expect(WritingWorker.stops).toBe(1);
});

test('ai: the transport of useChat streams a message', async () => {
  const model = createOpenAICompatible({ name: 'outrider', baseURL, fetch: outrider.fetch })('any');
  const transport = new DirectChatTransport({ agent: new ToolLoopAgent({ model, seed: 4 }) });
  const stream = await transport.sendMessages({
    ...{ trigger: 'submit-message', chatId: 'a', messageId: undefined, abortSignal: undefined },
    messages: [{ id: 'b', role: 'user', parts: [{ type: 'text', text: 'Hello' }] }],
  });
  const texts: string[] = [];
  for await (const part of stream as unknown as AsyncIterable<UIMessageChunk>) {
    if (part.type === 'text-delta') texts.push(part.delta);
  }
  expect(texts.join('')).toBe('Good day 4');
});

test('langchain: texts, streams, tools, usage, errors and aborts', async () => {
  const options = { apiKey: 'unused', model: 'any', maxRetries: 0, configuration: { baseURL, fetch: outrider.fetch } };
  const model = new ChatOpenAI({ ...options, temperature: 0, maxTokens: 9, modelKwargs: { seed: 4 } });
  const answer = await model.invoke([new HumanMessage('Hello')]);
  expect(answer.content).toBe('Good day 4');
  expect(answer.usage_metadata).toMatchObject({ input_tokens: 5, output_tokens: 3, total_tokens: 8 });
  const chunks: AIMessageChunk[] = [];
  for await (const chunk of await model.stream('Hello')) chunks.push(chunk);
  const { content, usage_metadata: usage } = chunks.reduce((whole, chunk) => whole.concat(chunk));
  expect([content, usage]).toMatchObject(['Good day 4', { total_tokens: 8 }]);
  expect((await model.batch(['a', 'b', 'c'])).map(({ content }) => content)).toEqual(Array(3).fill('Good day 4'));
  const texts = new LangchainTexts({ ...options, modelKwargs: { seed: 6 } });
  expect(await texts.invoke('Once')).toBe('Good day 6');

  WritingWorker.pieces = [call];
  const schema = z.object({ city: z.string() });
  const weather = langchainTool(() => 'sun', { name: 'weather', description: 'the weather', schema });
  const withTools = model.bindTools([weather]);
  expect((await withTools.invoke('Hello')).tool_calls).toMatchObject([{ name: 'weather', args: { city: 'Bonn' } }]);

  WritingWorker.pieces = null;
  const penalized = new ChatOpenAI({ ...options, presencePenalty: 3 });
  await expect(penalized.invoke('Hello')).rejects.toMatchObject({ status: 400 });
  await expect(model.invoke(HANGS, { signal: AbortSignal.timeout(50) })).rejects.toThrow();
  await vi.waitFor(() => expect(WritingWorker.stops).toBe(1));
});
