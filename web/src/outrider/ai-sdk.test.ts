// The provider of the AI SDK, with instances whose API answers by hand. What a real one answers is in fetch.test.ts.

import { createProviderRegistry, DirectChatTransport, generateText, Output, streamText, ToolLoopAgent } from 'ai';
import type { UIMessage, UIMessageChunk } from 'ai';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { createOutrider } from './ai-sdk.js';
import type { OutriderMetadata } from './ai-sdk.js';
import { OutriderError } from './errors.js';
import { Outrider } from './index.js';

const costs = {
  ...{ server_passes: 2, saved_passes: 1, drafted: 4, accepted: 1 },
  ...{ uplink_bytes: 10, downlink_bytes: 20, elapsed_ms: 30 },
};
const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8, outrider: costs };
const metadata: OutriderMetadata = {
  ...{ serverPasses: 2, savedPasses: 1, drafted: 4, accepted: 1, uplinkBytes: 10, downlinkBytes: 20, elapsedMs: 30 },
};

/** An instance whose answers are its name. */
class Instance {
  readonly name: string;
  asked: Record<string, unknown>[] = [];
  closed = 0;

  constructor(name: string) {
    this.name = name;
  }

  fetch = async (_: unknown, init?: RequestInit): Promise<Response> => {
    const params = JSON.parse(String(init?.body)) as Record<string, unknown>;
    this.asked.push(params);
    const head = { id: 'a', model: 'outrider', created: 0 };
    if (params['stream'] !== true) {
      const message = { role: 'assistant', content: this.name };
      return Response.json({ ...head, choices: [{ index: 0, message, finish_reason: 'stop' }], usage });
    }
    const delta = (delta: object, finish_reason: string | null = null) => ({
      ...head,
      choices: [{ index: 0, delta, finish_reason }],
    });
    const chunks = [delta({ role: 'assistant', content: '' }), delta({ content: this.name }), delta({}, 'stop')];
    const lines = [...chunks, { ...head, choices: [], usage }].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);
    return new Response(`${lines.join('')}data: [DONE]\n\n`, { headers: { 'Content-Type': 'text/event-stream' } });
  };

  close = async () => void (this.closed += 1);
}

let loads: { resolve: (instance: Instance) => void; reject: (error: Error) => void }[];

beforeEach(() => {
  loads = [];
  vi.spyOn(Outrider, 'load').mockImplementation(
    () => new Promise((resolve, reject) => loads.push({ resolve: resolve as never, reject })),
  );
});
afterEach(() => vi.restoreAllMocks());

test('nothing is loaded before a request, and all requests share an instance', async () => {
  const options = { server: 'https://models.example.com' };
  const outrider = createOutrider(options);
  const model = outrider();
  expect([model.provider, model.modelId, loads.length]).toEqual(['outrider.chat', 'outrider', 0]);
  const answers = [
    outrider.load(),
    generateText({ model, prompt: 'a' }),
    generateText({ model, prompt: 'b' }),
  ] as const;
  await vi.waitFor(() => expect(loads).toHaveLength(1));
  const instance = new Instance('one');
  loads[0]?.resolve(instance);
  const [loaded, first, second] = await Promise.all(answers);
  expect([loaded, first.text, second.text]).toEqual([instance, 'one', 'one']);
  expect(Outrider.load).toHaveBeenCalledExactlyOnceWith(options);
  expect(instance.asked.map(({ messages }) => messages)).toMatchObject([[{ content: 'a' }], [{ content: 'b' }]]);
});

test('after a failure the next request loads again', async () => {
  const model = createOutrider().languageModel('outrider');
  const failed = generateText({ model, prompt: 'a', maxRetries: 0 });
  failed.catch(() => {});
  await vi.waitFor(() => expect(loads).toHaveLength(1));
  loads[0]?.reject(new OutriderError('connection-failed', 'no server'));
  await expect(failed).rejects.toMatchObject({ code: 'connection-failed' });
  const answer = generateText({ model, prompt: 'a' });
  await vi.waitFor(() => expect(loads).toHaveLength(2));
  loads[1]?.resolve(new Instance('two'));
  expect((await answer).text).toBe('two');
});

test('a request is aborted while the instance loads, which goes on', async () => {
  const outrider = createOutrider();
  const abort = new AbortController();
  const answer = generateText({ model: outrider(), prompt: 'a', abortSignal: abort.signal });
  answer.catch(() => {});
  await vi.waitFor(() => expect(loads).toHaveLength(1));
  abort.abort();
  await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
  const instance = new Instance('late');
  loads[0]?.resolve(instance);
  expect((await generateText({ model: outrider(), prompt: 'a' })).text).toBe('late');
  expect([loads.length, instance.asked.length]).toEqual([1, 1]);
});

test('the costs of an answer are in its metadata, also of a stream', async () => {
  const outrider = createOutrider(given(new Instance('word')));
  const whole = await generateText({ model: outrider(), prompt: 'a' });
  expect(whole.providerMetadata?.['outrider']).toEqual(metadata);
  expect(whole.usage).toMatchObject({ inputTokens: 5, outputTokens: 3, totalTokens: 8 });
  const streamed = streamText({ model: outrider(), prompt: 'a' });
  expect(await streamed.text).toBe('word');
  expect((await streamed.providerMetadata)?.['outrider']).toEqual(metadata);
  expect(await streamed.usage).toMatchObject({ totalTokens: 8 });
});

test('options of the provider are parameters of the API', async () => {
  const instance = new Instance('word');
  const model = createOutrider(given(instance))();
  await generateText({ model, prompt: 'a', seed: 4, providerOptions: { outrider: { top_k: 5 } } });
  expect(instance.asked[0]).toMatchObject({ top_k: 5, seed: 4 });
});

test('an answer with a schema is asked for by its schema', async () => {
  const instance = new Instance('{"city":"Bonn"}');
  const output = Output.object({ schema: z.object({ city: z.string() }) });
  const answer = await generateText({ model: createOutrider(given(instance))(), prompt: 'a', output });
  expect(answer.output).toEqual({ city: 'Bonn' });
  expect(answer.warnings).toEqual([]);
  expect(instance.asked[0]?.['response_format']).toMatchObject({
    type: 'json_schema',
    json_schema: { schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
  });
});

test('an instance that was given is used, and stays open; one that was loaded is closed and replaced', async () => {
  const own = new Instance('own');
  const ofInstance = createOutrider(given(own));
  expect((await generateText({ model: ofInstance(), prompt: 'a' })).text).toBe('own');
  await ofInstance.close();
  expect([own.closed, loads.length]).toEqual([0, 0]);

  const outrider = createOutrider();
  const [first, second] = [new Instance('first'), new Instance('second')];
  // Closed before it is there, as in React's strict mode.
  void outrider.load();
  const closed = outrider.close();
  const answer = generateText({ model: outrider(), prompt: 'a' });
  await vi.waitFor(() => expect(loads).toHaveLength(2));
  loads[0]?.resolve(first);
  loads[1]?.resolve(second);
  await closed;
  expect([(await answer).text, first.closed, second.closed]).toEqual(['second', 1, 0]);
  await outrider.close();
  expect(second.closed).toBe(1);
});

test('it has its place in a registry, and useChat’s transport streams with costs', async () => {
  const outrider = createOutrider(given(new Instance('word')));
  const registry = createProviderRegistry({ outrider });
  expect((await generateText({ model: registry.languageModel('outrider:any'), prompt: 'a' })).text).toBe('word');

  const transport = new DirectChatTransport<never, {}, never, UIMessage<unknown, never, {}>>({
    agent: new ToolLoopAgent({ model: outrider() }),
    messageMetadata: ({ part }) => (part.type === 'finish-step' ? part.providerMetadata?.['outrider'] : undefined),
  });
  const stream = await transport.sendMessages({
    ...{ trigger: 'submit-message', chatId: 'a', messageId: undefined, abortSignal: undefined },
    messages: [{ id: 'b', role: 'user', parts: [{ type: 'text', text: 'Hello' }] }],
  });
  const parts: UIMessageChunk[] = [];
  for await (const part of stream as unknown as AsyncIterable<UIMessageChunk>) parts.push(part);
  expect(parts).toContainEqual(expect.objectContaining({ type: 'text-delta', delta: 'word' }));
  expect(parts).toContainEqual({ type: 'message-metadata', messageMetadata: metadata });
});

function given(instance: Instance): Outrider {
  return Object.assign(Object.create(Outrider.prototype) as Outrider, instance);
}
