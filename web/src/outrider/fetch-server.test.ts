// `outrider.fetch` where the server has a say: its sampling, its errors, and requests that it answers itself.

import { generateText } from 'ai';
import OpenAI from 'openai';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createOutrider } from './ai-sdk.js';
import { baseURL, WritingWorker } from './fetch-fixtures.js';
import { Outrider } from './index.js';

const limits = { contextLength: 512, maxDraftTokens: 8, maxInFlight: 4, maxGuesses: 16 };
const recommended = { temperature: 0.6, topK: 20, topP: 0.9 };
const chat = { model: 'any', messages: [{ role: 'user' as const, content: 'Hello' }], seed: 4 };
const text = { model: 'any', prompt: 'Once', seed: 4 };

/** Answers of the server by path, and what it was asked. */
let answers: Record<string, () => Response>;
let asked: { path: string; body: Record<string, unknown> }[];
let outrider: Outrider;
let openai: OpenAI;

beforeEach(async () => {
  WritingWorker.reset();
  [answers, asked] = [{ '/v1/info': () => Response.json({ vocabSize: 4096, limits, sampling: recommended }) }, []];
  vi.stubGlobal('Worker', WritingWorker);
  vi.stubGlobal('location', new URL('https://example.org/page/'));
  vi.stubGlobal('fetch', async (url: URL, { body }: RequestInit = {}) => {
    asked.push({ path: url.pathname, body: JSON.parse(String(body ?? '{}')) as Record<string, unknown> });
    const answer = answers[url.pathname];
    if (!answer) throw new TypeError('Failed to fetch');
    return answer();
  });
  outrider = await Outrider.load({ wait: 'draft' });
  openai = new OpenAI({ apiKey: 'unused', dangerouslyAllowBrowser: true, baseURL, fetch: outrider.fetch });
});
afterEach(() => vi.unstubAllGlobals());

const refusal = (message: string, param: string) => () =>
  Response.json({ error: { message, type: 'invalid_request_error', param, code: null } }, { status: 400 });
const sampled = () => {
  const { temperature, topK, topP } = WritingWorker.requests.at(-1)!;
  return { temperature, topK, topP };
};

test('a request without sampling parameters has those that the server recommends', async () => {
  await openai.chat.completions.create(chat);
  expect(sampled()).toEqual(recommended);
  await openai.completions.create({ ...text, temperature: 1, top_p: null });
  expect(sampled()).toEqual({ ...recommended, temperature: 1 });
  await openai.completions.create({ ...text, temperature: 0, top_p: 1, ...{ top_k: -1 } });
  expect(sampled()).toEqual({ temperature: 0, topK: 0, topP: 1 });
  await openai.responses.create({ model: 'any', input: 'Hello' });
  await generateText({ model: createOutrider(outrider)(), prompt: 'Hello', temperature: 0.1 });
  expect(sampled()).toEqual({ ...recommended, temperature: 0.1 });
  // One request for all of them.
  expect(asked.map(({ path }) => path)).toEqual(['/v1/info']);
});

test('OpenAI’s sampling defaults hold where the server recommends none, or cannot be asked', async () => {
  const none = { temperature: 1, topK: 0, topP: 1 };
  delete answers['/v1/info'];
  await openai.chat.completions.create(chat);
  expect(sampled()).toEqual(none);
  // What may have been recommended is asked for again.
  answers['/v1/info'] = () => Response.json({ vocabSize: 9, limits });
  await openai.chat.completions.create(chat);
  expect(sampled()).toEqual(none);
  await openai.chat.completions.create(chat);
  expect(asked).toHaveLength(2);
  // A server that refuses to say is asked once.
  answers['/v1/info'] = () => Response.json({}, { status: 403 });
  const other = await Outrider.load({ wait: 'draft' });
  for (const prompt of ['a', 'b']) await other.completions.create({ prompt });
  expect([sampled(), asked.length]).toEqual([none, 3]);
});

test('what only the server does it is asked for', async () => {
  const written = { choices: [{ index: 0, text: 'The end', finish_reason: 'stop' }] };
  answers['/v1/completions'] = answers['/v1/chat/completions'] = () => Response.json(written);
  for (const more of [
    ...[{ prompt: [1, 2, 3] }, { prompt: [[1, 2], [3]] }, { logprobs: 2 }, { logprobs: 0 }, { echo: true }],
    ...[{ stop_token_ids: [5] }, { return_token_ids: true }, { outrider: false }],
  ]) {
    asked = [];
    const { choices } = await openai.completions.create({ ...text, ...more });
    expect(choices).toEqual(written.choices);
    const { model: _, ...body } = { ...text, ...more };
    expect(asked).toEqual([{ path: '/v1/completions', body }]);
  }
  asked = [];
  await openai.chat.completions.create({ ...chat, ...{ stop_token_ids: [5] } });
  expect(asked.map(({ path }) => path)).toEqual(['/v1/chat/completions']);
  expect(WritingWorker.requests).toEqual([]);
});

test('what the session refuses the server answers, with its own parameter and code', async () => {
  WritingWorker.error = { code: 'invalid-parameters', message: 'The answer cannot have this form: no such type.' };
  answers['/v1/chat/completions'] = refusal('The answer cannot have this form.', 'response_format');
  const schema = { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'nope' } } } as const;
  for (const stream of [false, true]) {
    const refused = openai.chat.completions.create({ ...chat, stream, response_format: schema });
    await expect(refused).rejects.toMatchObject({ status: 400, code: null, param: 'response_format' });
  }
  expect(asked.at(-1)).toMatchObject({ path: '/v1/chat/completions', body: { response_format: schema, stream: true } });
  delete answers['/v1/chat/completions'];
  const refused = openai.chat.completions.create({ ...chat });
  await expect(refused).rejects.toMatchObject({
    status: 400,
    code: null,
    message: expect.stringMatching(/^400 The answer cannot/),
  });
});

test('a parameter that the server has named is in errors of texts that it writes alone', async () => {
  answers['/v1/chat/completions'] = refusal('logit_bias names a token outside the vocabulary.', 'logit_bias');
  vi.stubGlobal(
    'Worker',
    class extends EventTarget {
      constructor() {
        super();
        queueMicrotask(() => this.dispatchEvent(new Event('error')));
      }
      terminate(): void {}
      postMessage(): void {}
    },
  );
  const alone = await Outrider.load({ onFallback: () => {} });
  openai = new OpenAI({ apiKey: 'unused', dangerouslyAllowBrowser: true, baseURL, fetch: alone.fetch });
  const refused = openai.chat.completions.create({ ...chat, logit_bias: { 999999: 1 } });
  await expect(refused).rejects.toMatchObject({ status: 400, code: null, param: 'logit_bias' });
  // Its sampling came with its first answer.
  expect(asked.map(({ path }) => path)).toEqual(['/v1/info', '/v1/chat/completions']);
  expect(asked[1]?.body).toMatchObject({ temperature: 0.6, top_k: 20, top_p: 0.9 });
});

test('seeds and top_p have the server’s ranges', async () => {
  const seeds = async (more: object) => {
    WritingWorker.requests = [];
    await openai.chat.completions.create({ ...chat, ...more });
    return WritingWorker.requests.map(({ seed }) => seed);
  };
  expect(await seeds({ seed: -1 })).toEqual([-1]);
  expect(await seeds({ seed: 2 ** 40 })).toEqual([2 ** 40]);
  expect(await seeds({ seed: 2 ** 32 - 1, n: 2 })).toEqual([2 ** 32 - 1, 2 ** 32]);
  expect(await seeds({ seed: -1, n: 2 })).toEqual([-1, 0]);
  await expect(seeds({ seed: 2 ** 53 })).rejects.toMatchObject({ status: 400, param: 'seed' });
  await openai.chat.completions.create({ ...chat, top_p: 0 });
  // The smallest share that the engine knows keeps one token.
  expect(sampled().topP).toBe(2 ** -126);
  await openai.chat.completions.create({ ...chat, ...{ top_k: 1e6 } });
  expect(sampled().topK).toBe(4096);
});

test('an empty answer length of a response is refused by its own name', async () => {
  const refused = openai.responses.create({ model: 'any', input: 'Hello', max_output_tokens: 0 });
  await expect(refused).rejects.toMatchObject({ status: 400, code: null, param: 'max_output_tokens' });
});

test('usage has the time of all choices together, and counts equal prompts each', async () => {
  const started = performance.now();
  const { usage } = await openai.chat.completions.create({ ...chat, n: 3 });
  const { elapsed_ms } = (usage as unknown as { outrider: { elapsed_ms: number } }).outrider;
  expect(elapsed_ms).toBeGreaterThan(0);
  expect(elapsed_ms).toBeLessThanOrEqual(performance.now() - started);
  const twice = await openai.completions.create({ ...text, prompt: ['Once', 'Once'], n: 2 });
  expect(twice.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 12 });
});

test('clients do not try again what stays refused, and a dead server soon', async () => {
  const answer = async () => {
    const { status, headers } = await outrider.fetch(`${baseURL}/chat/completions`, {
      ...{ method: 'POST', body: JSON.stringify(chat) },
    });
    return [status, headers.get('Retry-After')];
  };
  WritingWorker.error = { code: 'server-full', message: 'full' };
  expect(await answer()).toEqual([503, '5']);
  for (const code of ['connection-failed', 'connection-lost']) {
    WritingWorker.error = { code, message: 'away' };
    expect(await answer()).toEqual([503, '1']);
  }
  await outrider.close();
  const started = performance.now();
  await expect(openai.chat.completions.create(chat)).rejects.toMatchObject({ status: 400, code: 'closed' });
  expect(performance.now() - started).toBeLessThan(400);
});

test('parts of a message other than text are refused, and named', async () => {
  const content = [
    { type: 'text', text: 'What is it?' } as const,
    { type: 'image_url', image_url: { url: 'a' } } as const,
  ];
  const refused = openai.chat.completions.create({ ...chat, messages: [{ role: 'user', content }] });
  await expect(refused).rejects.toMatchObject({
    status: 400,
    param: 'messages',
    message: expect.stringMatching(/text parts only, not image_url/),
  });
  const image = { type: 'input_image', image_url: 'a', detail: 'auto' } as const;
  const input = [{ role: 'user' as const, content: [image] }];
  const response = openai.responses.create({ model: 'any', input });
  await expect(response).rejects.toMatchObject({
    status: 400,
    param: 'input',
    message: expect.stringMatching(/text parts only, not input_image/),
  });
});
