import type OpenAI from 'openai';
import { expect, expectTypeOf, test, vi } from 'vitest';
import { ChatCompletions, Completions } from './completions.js';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionParams,
  Completion,
  CompletionParams,
} from './completions-types.js';
import type { Prompt, Round, Summary, Token } from './edge.js';
import { OutriderError } from './errors.js';
import { sampling } from './fixtures.js';
import { emptySummary, Generation } from './generation.js';
import { resolveRequest } from './options.js';
import type { GenerateOptions } from './options.js';
import { generationRanges } from './tables.js';

const messages = [{ role: 'user', content: 'Hello' }] as const;
const token = (text: string, evidence?: Token['evidence']): Token => ({
  ...{ id: 1, text, origin: 'accepted' },
  ...(evidence && { evidence }),
});
const roundOf = (tokens: Token[], pieces?: Round['pieces']): Round => ({
  ...{ tokens, statistics: emptySummary, round: null },
  ...(pieces && { pieces }),
});
const summary: Summary = {
  ...emptySummary,
  ...{ text: 'Good day', tokens: 10, serverPasses: 4, promptTokens: 3, drafted: 9, accepted: 6 },
  ...{ uplinkBits: 17, downlinkBits: 80, finish: 'eos' },
};

/** A writer of these rounds with this summary; a signal ends it sooner. */
function writer(rounds: Round[], end: Summary = summary) {
  const asked: { prompt: unknown; options: GenerateOptions }[] = [];
  const stop = vi.fn();
  const generate = (prompt: unknown, options: GenerateOptions = {}): Generation => {
    resolveRequest(prompt as Prompt, options, generationRanges, { gate: false, stop: false });
    asked.push({ prompt, options });
    const generation = new Generation({} as never, stop);
    for (const round of rounds) generation.add(round);
    generation.finish(end);
    return generation;
  };
  const ready: Promise<'draft' | 'server'> = Promise.resolve('draft');
  return { asked, stop, generate, ranges: generationRanges, ready, sampling };
}

test('the shapes are those of the package openai', () => {
  expectTypeOf<ChatCompletion>().toExtend<OpenAI.ChatCompletion>();
  expectTypeOf<ChatCompletionChunk>().toExtend<OpenAI.ChatCompletionChunk>();
  expectTypeOf<Completion>().toExtend<OpenAI.Completion>();
  // What is written for its client is taken here, and the other way round.
  const request = {
    ...{ model: 'm', temperature: 0.5, top_p: 1, seed: 1, stop: ['a'], max_tokens: 5, n: 1 },
    ...{ logprobs: true, top_logprobs: 2, tool_choice: 'auto' },
    messages: [{ role: 'user', content: 'Hello' }],
    tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
  } satisfies OpenAI.ChatCompletionCreateParamsNonStreaming;
  expectTypeOf(request as typeof request & { n: 1; tool_choice: 'auto' }).toExtend<ChatCompletionParams>();
  const text = { model: 'm', prompt: 'Once', max_tokens: 5 } satisfies OpenAI.CompletionCreateParamsNonStreaming;
  expectTypeOf(text).toExtend<CompletionParams>();
  type Call = NonNullable<ChatCompletion['choices'][number]['message']['tool_calls']>[number];
  expectTypeOf<Call>().toExtend<OpenAI.ChatCompletionMessageToolCall>();
});

test('an answer comes in one piece, with what was saved', async () => {
  const writes = writer([roundOf([token('Good day')])]);
  const answer = await new ChatCompletions(writes).create({ messages, max_tokens: 9, stop: 'x', seed: 4 });
  expect(writes.asked[0]).toMatchObject({
    prompt: messages,
    options: { temperature: 1, topP: 1, seed: 4, maxNewTokens: 9, stop: 'x', evidence: false },
  });
  expect(answer).toMatchObject({
    object: 'chat.completion',
    choices: [{ message: { role: 'assistant', content: 'Good day' }, logprobs: null, finish_reason: 'stop' }],
    usage: {
      ...{ prompt_tokens: 3, completion_tokens: 10, total_tokens: 13 },
      outrider: { server_passes: 4, saved_passes: 6, drafted: 9, accepted: 6, uplink_bytes: 3 },
    },
  });
});

test('a stream has the role, the text as it comes, an end, and usage if it is wanted', async () => {
  const writes = writer([roundOf([token('Good'), token(' ')]), roundOf([]), roundOf([token('day')])]);
  const completions = new ChatCompletions(writes);
  const stream = await completions.create({ ...{ messages, stream: true, stream_options: { include_usage: true } } });
  const chunks: ChatCompletionChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  expect(chunks.map(({ choices }) => choices[0]?.delta)).toEqual([
    ...[{ role: 'assistant', content: '' }, { content: 'Good ' }, { content: 'day' }, {}, undefined],
  ]);
  expect(chunks.map(({ choices }) => choices[0]?.finish_reason)).toEqual([null, null, null, 'stop', undefined]);
  expect(chunks.map(({ usage }) => usage?.total_tokens ?? usage)).toEqual([null, null, null, null, 13]);
  expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
});

test('calls come as calls, complete, in one piece and in chunks', async () => {
  const call = { type: 'call', name: 'f', arguments: '{"a":1}' } as const;
  const pieces = [{ type: 'text', text: 'I ask.' } as const, call];
  const rounds = [roundOf([token('I ask.')], pieces.slice(0, 1)), roundOf([token('<tool_call>')]), roundOf([], [call])];
  const tools = [{ type: 'function', function: { name: 'f' } }] as const;
  const completions = new ChatCompletions(writer(rounds, { ...summary, pieces, text: 'I ask.<tool_call>' }));
  const { choices } = await completions.create({ messages, tools });
  expect(choices[0]).toMatchObject({
    finish_reason: 'tool_calls',
    message: { content: 'I ask.', tool_calls: [{ type: 'function', function: { name: 'f', arguments: '{"a":1}' } }] },
  });
  const deltas: unknown[] = [];
  for await (const chunk of await completions.create({ messages, tools, stream: true })) {
    deltas.push(chunk.choices[0]?.delta);
  }
  expect(deltas).toMatchObject([
    { role: 'assistant' },
    { content: 'I ask.' },
    { tool_calls: [{ index: 0, function: { name: 'f' } }] },
    {},
  ]);
});

test('log-probabilities are those of the evidence, the likeliest as many as were asked for', async () => {
  const candidates = [
    { id: 1, text: 'a', q: 0.1, p: 0.5 },
    { id: 2, text: 'b', q: 0.2, p: 0.25 },
    { id: 3, text: 'c', q: 0.7, p: 0 },
  ];
  const known = token('a', { logprob: Math.log(0.5), bits: 3, candidates });
  const bonus = token('\u{fffd}', { logprob: null, bits: null, candidates: [] });
  const writes = writer([roundOf([known, bonus])]);
  const completions = new ChatCompletions(writes);
  const { choices } = await completions.create({ messages, logprobs: true, top_logprobs: 5 });
  expect(writes.asked[0]?.options.evidence).toBe(true);
  expect(choices[0]?.logprobs?.content).toEqual([
    {
      ...{ token: 'a', bytes: [97], logprob: Math.log(0.5) },
      top_logprobs: [
        { token: 'a', bytes: [97], logprob: Math.log(0.5) },
        { token: 'b', bytes: [98], logprob: Math.log(0.25) },
      ],
    },
    { token: '\u{fffd}', bytes: null, logprob: -9999, top_logprobs: [] },
  ]);
  await expect(completions.create({ messages, logprobs: true, top_logprobs: 21 })).rejects.toThrow('from 0 to 20');
  await expect(completions.create({ messages, top_logprobs: 1 })).rejects.toThrow('needs logprobs');
  writes.ready = Promise.resolve('server');
  await expect(completions.create({ messages, logprobs: true })).rejects.toMatchObject({ code: 'no-draft' });
});

test('a server that refuses evidence to this page refuses log-probabilities, with the remedy', async () => {
  const refusal = new OutriderError('invalid-parameters', 'no evidence here: generate without evidence');
  const other = new OutriderError('invalid-parameters', 'no tools');
  const said = {
    code: 'invalid-parameters',
    option: 'logprobs',
    message: expect.stringContaining('--evidence always'),
  };
  for (const [error, logprobs, expected] of [
    [refusal, true, { ...said, cause: refusal } as object],
    [refusal, false, refusal],
    [other, true, other],
  ] as const) {
    const generate = (): Generation => {
      const generation = new Generation({} as never, () => {});
      generation.fail(error);
      return generation;
    };
    const completions = new ChatCompletions({ ...writer([]), generate });
    await expect(completions.create({ messages, logprobs })).rejects.toMatchObject(expected);
    const read = async () => {
      for await (const _ of await completions.create({ messages, logprobs, stream: true })) continue;
    };
    await expect(read()).rejects.toMatchObject(expected);
  }
});

test('what would change the text and is not known is refused by name', async () => {
  const completions = new Completions(writer([]));
  const create = (more: object) => completions.create({ prompt: 'a', ...more });
  await expect(create({ max_token: 1 })).rejects.toThrow('no option max_token; did you mean max_tokens?');
  await expect(create({ presence_penalty: 3 })).rejects.toMatchObject({ code: 'invalid-option' });
  await expect(create({ n: 2 })).rejects.toThrow('n must be 1');
  await expect(create({ prompt: ['a', 'b'] })).rejects.toThrow('prompt must be a text');
  const { choices, usage } = await completions.create({ prompt: 'a' });
  expect(choices).toEqual([{ index: 0, logprobs: null, text: 'Good day', finish_reason: 'stop' }]);
  expect(usage?.outrider.saved_passes).toBe(6);
});

test('parameters whose value changes nothing are taken, as by the server', async () => {
  const chats = new ChatCompletions(writer([]));
  const tools = [{ type: 'function', function: { name: 'f' } }] as const;
  const taken = [
    ...[{}, { frequency_penalty: 0 }, { presence_penalty: null }, { logit_bias: undefined }, { logit_bias: {} }],
    ...[{ user: 'u' }, { metadata: { a: 'b' } }, { service_tier: 'auto' }, { min_p: 0 }, { repetition_penalty: 1 }],
    ...[{ top_k: 0 }, { top_k: -1 }, { ignore_eos: false }, { skip_special_tokens: true }, { unknown: null }],
    ...[
      { stop: null },
      { seed: null },
      { temperature: null },
      { top_logprobs: 20, logprobs: true },
      { top_logprobs: 0 },
    ],
    { tools: [{ type: 'function', function: { name: 'f', strict: false } }] },
    { stream_options: { include_obfuscation: true }, stream: true },
    ...[{ response_format: { type: 'text' } }, { parallel_tool_calls: true }, { store: false }],
    ...[{ parallel_tool_calls: false }, { tools: null, tool_choice: null }, { unknown: undefined }],
    { stream_options: { include_usage: null, include_obfuscation: false }, stream: true },
  ];
  for (const more of taken) await chats.create({ messages, ...more } as ChatCompletionParams);
  for (const more of [
    ...[{ frequency_penalty: 3 }, { logit_bias: { a: 1 } }, { response_format: { type: 'xml' } }],
    ...[{ tools, parallel_tool_calls: false }, { unknown: 1 }, { best_of: 1 }, { store: 1, min_p: 1.5 }],
    ...[{ tool_choice: 'required' }, { tools, tool_choice: 'sometimes' }],
    ...[{ temperature: 2.5 }, { temperature: 'hot' }, { top_p: 1.5 }, { top_k: -2 }, { seed: 1.5 }, { max_tokens: 0 }],
    ...[{ stop: ['a', 'b', 'c', 'd', 'e'] }, { stop: '' }, { stream: 'yes' }, { logprobs: 1 }, { n: 0 }, { model: 5 }],
    { tools: [{ type: 'function', function: { name: 'f', strict: true } }] },
    { stream_options: { unknown: 1 }, stream: true },
  ]) {
    const refused = chats.create({ messages, ...more } as never);
    await expect(refused, JSON.stringify(more)).rejects.toMatchObject({ code: 'invalid-option' });
  }
  const texts = new Completions(writer([]));
  await texts.create({ prompt: 'a', best_of: 1, echo: false, logprobs: null } as CompletionParams);
  await expect(texts.create({ prompt: 'a', echo: true } as CompletionParams)).rejects.toThrow(
    'echo is not supported other than as false',
  );
});

test('variables of the chat template are handed on, with enable_thinking among them', async () => {
  const said = writer([]);
  const chats = new ChatCompletions(said);
  for (const more of [
    ...[{}, { chat_template_kwargs: { a: 1 } }, { enable_thinking: false }],
    { chat_template_kwargs: { a: 1, enable_thinking: false }, enable_thinking: false },
  ]) {
    await chats.create({ messages, ...more });
  }
  const seen = said.asked.map(({ options }) => options.chatTemplateKwargs);
  expect(seen).toEqual([{}, { a: 1 }, { enable_thinking: false }, { a: 1, enable_thinking: false }]);
  const other = { chat_template_kwargs: { enable_thinking: true }, enable_thinking: false };
  await expect(chats.create({ messages, ...other })).rejects.toThrow('the same as in chat_template_kwargs');
});

test('an answer goes on from the last message where that is asked for', async () => {
  const said = writer([]);
  const chats = new ChatCompletions(said);
  for (const more of [
    {},
    { continue_final_message: true, add_generation_prompt: false },
    { add_generation_prompt: true },
  ]) {
    await chats.create({ messages: [...messages, { role: 'assistant', content: 'The' }], ...more });
  }
  expect(said.asked.map(({ options }) => options.continueFinalMessage)).toEqual([false, true, false]);
  const both = { continue_final_message: true, add_generation_prompt: true };
  await expect(chats.create({ messages, ...both })).rejects.toThrow('add_generation_prompt');
});

const thinking = ['<think>', '\n', 'so', '\n', '</think>', '\n\nGood', ' day'];
const thoughtOf = (tokens: string[]) =>
  writer(
    tokens.map((text) => roundOf([token(text)])),
    { ...summary, ...{ text: tokens.join(''), tokens: tokens.length } },
  );

test('reasoning is apart from the answer where the chat template has it', async () => {
  const asked: unknown[] = [];
  const of = (tokens: string[], tail: string | null) =>
    new ChatCompletions(thoughtOf(tokens), async (...prompt) => (asked.push(prompt), tail));
  for (const chats of [of(thinking, 'user'), of(thinking.slice(1), '<think>\n')]) {
    const { choices, usage } = await chats.create({ messages });
    expect(choices[0]?.message).toEqual({
      ...{ role: 'assistant', content: 'Good day', refusal: null, reasoning_content: 'so' },
    });
    const stream = await chats.create({ messages, stream: true, stream_options: { include_usage: true } });
    const chunks: ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta))).toEqual([
      { role: 'assistant', content: '' },
      ...[{ reasoning_content: 'so' }, { content: 'Good' }, { content: ' day' }, {}],
    ]);
    expect(chunks.at(-1)?.usage?.outrider.reasoning_tokens).toBe(usage.outrider.reasoning_tokens);
  }
  expect(asked[0]).toEqual([messages, { tools: [], chatTemplateKwargs: {} }, null]);
  const cut = await of(['<think>', 'so', '\n'], '').create({ messages });
  expect(cut.choices[0]?.message).toMatchObject({ content: '', reasoning_content: 'so\n' });
  expect(cut.usage.outrider.reasoning_tokens).toBe(3);
});

test('reasoning stays in the text where that is wanted, or the template has none', async () => {
  const failing = () => Promise.reject(new Error('no tokenizer'));
  for (const [chats, format] of [
    [new ChatCompletions(thoughtOf(thinking), async () => ''), 'none'],
    [new ChatCompletions(thoughtOf(thinking)), 'deepseek'],
    [new ChatCompletions(thoughtOf(thinking), failing), 'auto'],
  ] as const) {
    const { choices } = await chats.create({ messages, reasoning_format: format });
    expect(choices[0]?.message).toEqual({ role: 'assistant', content: thinking.join(''), refusal: null });
  }
  const chats = new ChatCompletions(writer([]));
  await expect(chats.create({ messages, reasoning_format: 'raw' as never })).rejects.toThrow(
    'reasoning_format must be',
  );
});

test('a message that goes on may have opened the reasoning', async () => {
  const chats = new ChatCompletions(thoughtOf(['so', '</think>', 'Yes']), async (_prompt, _options, end) => end);
  const opened = { role: 'assistant', content: '<think>' } as const;
  const { choices } = await chats.create({ messages: [...messages, opened], continue_final_message: true });
  expect(choices[0]?.message).toMatchObject({ content: 'Yes', reasoning_content: 'so' });
});

test('tools are shown without strict, as by the server', async () => {
  const writes = writer([]);
  const tools = [{ type: 'function', function: { name: 'f', strict: false } } as const];
  await new ChatCompletions(writes).create({ messages, tools });
  expect(writes.asked[0]?.options.tools).toEqual([{ type: 'function', function: { name: 'f' } }]);
});

test('a system message may be a developer’s, as the newer name is', async () => {
  const writes = writer([]);
  const developer = { role: 'developer', content: 'Be brief.' } as const;
  await new ChatCompletions(writes).create({ messages: [developer, ...messages] });
  expect(writes.asked[0]?.prompt).toEqual([{ role: 'system', content: 'Be brief.' }, ...messages]);
});

test('an abort ends a stream at once, whatever has been written already', async () => {
  const completions = new ChatCompletions(writer(Array.from({ length: 40 }, (_, at) => roundOf([token(`${at} `)]))));
  const stream = await completions.create({ messages, stream: true, stream_options: { include_usage: true } });
  let chunks = 0;
  for await (const _ of stream) if (++chunks === 3) stream.controller.abort();
  expect(chunks).toBe(3);
});

test('leaving a stream early, or its controller, stops the generation', async () => {
  const stop = vi.fn();
  const running = new Generation({} as never, stop);
  running.add(roundOf([token('a'), token('b')]));
  const signals: (AbortSignal | undefined)[] = [];
  const completions = new ChatCompletions({
    generate: (_, options) => {
      signals.push(options?.signal);
      return running;
    },
    ranges: generationRanges,
    ready: Promise.resolve('draft'),
    sampling,
  });
  const stream = await completions.create({ messages, stream: true });
  for await (const { choices } of stream) if (choices[0]?.delta.content === 'ab') break;
  expect(stop).toHaveBeenCalled();
  stream.controller.abort();
  expect(signals[0]?.aborted).toBe(true);
  stop.mockClear();
  // The role comes before there is a round.
  for await (const _ of await completions.create({ messages, stream: true })) break;
  expect(stop).toHaveBeenCalled();
});
