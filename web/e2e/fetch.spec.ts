// `outrider.fetch` beside the server's API. What clients do with it is in recipes.spec.ts and in fetch.test.ts.

import { expect, test } from './fixtures.js';
import { bare, buildRecipes } from './recipes.js';
import { Server } from './server.js';

test('it refuses what the API refuses, with the same status, parameter and code', async ({ page }, info) => {
  await using server = await Server.start([], await buildRecipes([bare], info.outputPath('pages')));
  await page.goto(`${server.url}/bare.html`);
  await expect(page.locator('#ready')).toHaveText('ready');
  const user = (content: unknown) => ({ messages: [{ role: 'user', content }] });
  const function_ = { type: 'function', function: { name: 'f' } };
  const badSchema = { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'nope' } } };
  for (const [path, body] of [
    ...['/v1/nothing', '/v1/embeddings', '/v1/completions/'].map((path) => [path, {}] as const),
    ...['', '[]', '{"prompt":'].map((body) => ['/v1/completions', body] as const),
    ...[{}, { prompt: ['a', 5] }, { prompt: [] }, { prompt: 5 }].map((body) => ['/v1/completions', body] as const),
    ...[
      ...[{ temperature: 2.5 }, { top_p: 1.5 }, { top_k: -2 }, { seed: 1.5 }, { max_tokens: 0 }, { max_tokens: 2.5 }],
      ...[{ n: 0 }, { n: 17 }, { n: 'two' }, { stop: '' }, { stop: [1] }, { stream: 'yes' }, { model: 5 }],
      ...[{ best_of: 3 }, { suffix: 'end' }, { unknown: 1 }, { stream_options: { unknown: 1 } }],
      ...[
        { prompt: '' },
        { prompt: [-1] },
        { prompt: [[]] },
        { prompt: [99_999] },
        { logprobs: 6 },
        { logprobs: true },
      ],
      ...[{ logit_bias: { 99_999: 1 } }, { response_format: badSchema }, { stop_token_ids: [-1] }],
    ].map((more) => ['/v1/completions', { prompt: 'a', ...more }] as const),
    ...[
      {},
      { messages: [] },
      { messages: 'a' },
      user(5),
      user([{ type: 'image_url' }]),
      { messages: [{ role: 'robot', content: 'a' }] },
    ].map((body) => ['/v1/chat/completions', body] as const),
    ...[
      ...[
        { tools: 5 },
        { tools: [{}] },
        { tools: [function_], parallel_tool_calls: false },
        { tool_choice: 'required' },
      ],
      ...[{ logprobs: 1 }, { top_logprobs: 1 }, { logprobs: true, top_logprobs: 21 }, { reasoning_effort: 'low' }],
      ...[{ response_format: { type: 'xml' } }, { chat_template_kwargs: { messages: [] } }],
      ...[{ enable_thinking: 1 }, { chat_template_kwargs: 5 }, { max_completion_tokens: 0 }, { functions: [{}] }],
      ...[{ continue_final_message: true }, { add_generation_prompt: false }],
      ...[{ tools: [function_] }, { tools: [function_], stream: true }],
      ...[{ response_format: badSchema }, { response_format: badSchema, stream: true }, { logit_bias: { 99_999: 1 } }],
    ].map((more) => ['/v1/chat/completions', { ...user('Hello'), ...more }] as const),
    ...[
      ...[{}, { input: 5 }, { input: [] }, { input: 'a', previous_response_id: 'resp_1' }],
      ...[
        { input: 'a', background: true },
        { input: 'a', messages: [] },
        { input: 'a', temperature: 3 },
        { input: 'a', max_output_tokens: 0 },
        { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'a' }] }] },
      ],
    ].map((body) => ['/v1/responses', body] as const),
    ['/v1/chat/completions', user('long '.repeat(2000))],
    ['/v1/completions', { prompt: 'long '.repeat(2000), stream: true }],
  ] as const) {
    const asked = { path, body: typeof body === 'string' ? body : JSON.stringify(body) };
    const [here, there] = await page.evaluate(async ({ path, body }) => {
      const of = async (answer: Promise<Response>) => {
        const response = await answer;
        const { error } = (await response.json()) as { error?: Record<'type' | 'param' | 'code', unknown> };
        return { status: response.status, type: error?.type, param: error?.param, code: error?.code };
      };
      const init = { method: 'POST', body };
      return [
        await of(window.outrider.fetch(`https://outrider.invalid${path}`, init)),
        await of(fetch(path, init)),
      ] as const;
    }, asked);
    expect.soft(here, `${path} ${asked.body.slice(0, 200)}`).toEqual(there);
  }
});

test('it writes what the API writes: a message that goes on, a response, the scores of a prompt', async ({
  page,
}, info) => {
  await using server = await Server.start([], await buildRecipes([bare], info.outputPath('pages')));
  await page.goto(`${server.url}/bare.html`);
  await expect(page.locator('#ready')).toHaveText('ready');
  const user = { role: 'user', content: 'Hi' };
  const last = { role: 'assistant', content: 'Once upon a' };
  for (const [path, body] of [
    ['/v1/chat/completions', { messages: [user, last], max_tokens: 12, continue_final_message: true }],
    ['/v1/responses', { input: [user], max_output_tokens: 12 }],
    ...[
      ...[
        { top_p: 0, temperature: 2 },
        { seed: -1, temperature: 1 },
        { seed: 2 ** 40, temperature: 1, n: 2 },
      ],
      ...[
        { prompt: [5, 6, 7] },
        { logprobs: 0 },
        { return_token_ids: true },
        { top_k: 100_000, seed: 1, temperature: 1 },
      ],
    ].map((more) => ['/v1/completions', { prompt: 'Once', max_tokens: 12, ...more }] as const),
  ] as const) {
    const written = await page.evaluate(
      async ([path, body]) => {
        const init = { method: 'POST', body: JSON.stringify({ temperature: 0, ...body }) };
        const answers = [window.outrider.fetch(`https://outrider.invalid${path}`, init), fetch(path, init)];
        const read = async (answer: Promise<Response>) => {
          type Content = { content: readonly { text: string }[] | string };
          type Choice = { message?: Content; text?: string };
          type Answer = { choices?: readonly Choice[]; output?: readonly Content[] };
          const { choices, output } = (await (await answer).json()) as Answer;
          return choices?.map(({ message, text }) => message?.content ?? text).join(' | ') ?? output?.[0]?.content;
        };
        return Promise.all(answers.map(read));
      },
      [path, body] as const,
    );
    expect.soft(written[0], path).toBeTruthy();
    expect.soft(written[0], `${path} ${JSON.stringify(body)}`).toEqual(written[1]);
  }
  const scores = await page.evaluate(async () => {
    const body = JSON.stringify({ prompt: 'Once upon a time', echo: true, logprobs: 2, max_tokens: 0 });
    const init = { method: 'POST', body };
    const asked = [
      window.outrider.fetch('https://outrider.invalid/v1/completions', init),
      fetch('/v1/completions', init),
    ];
    const read = async (answer: Promise<Response>) => {
      const { choices } = (await (await answer).json()) as { choices: { text: string; logprobs: unknown }[] };
      return choices;
    };
    return Promise.all(asked.map(read));
  });
  expect(scores[0]).toMatchObject([{ text: 'Once upon a time', logprobs: { token_logprobs: { 0: null } } }]);
  expect(scores[0]).toEqual(scores[1]);
});
