import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Round } from './edge.js';
import { Outrider } from './index.js';
import type { FromWorker } from './messages.js';

const info = { vocabSize: 9, limits: { contextLength: 64, maxDraftTokens: 8, maxInFlight: 2, maxGuesses: 8 } };
const chunk = (text: string, finish_reason: string | null = null) => ({ choices: [{ text, finish_reason }] });
const usage = { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } };

/** Answers of the server by path; `bodies` are what it was asked. */
let answers: Record<string, () => Response | Promise<Response>>;
let bodies: Record<string, unknown>[];
let signals: (AbortSignal | null | undefined)[];

function events(...data: unknown[]): Response {
  const text = data.map((value) => `data: ${JSON.stringify(value)}\n\n`).join('') + 'data: [DONE]\n\n';
  const bytes = new TextEncoder().encode(text);
  // In pieces that end anywhere.
  const pieces = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) => bytes.subarray(7 * i, 7 * i + 7));
  return new Response(new ReadableStream({ start: (to) => (pieces.forEach((p) => to.enqueue(p)), to.close()) }));
}

/** A worker that the page's policy does not let start. */
class BlockedWorker extends EventTarget {
  constructor() {
    super();
    queueMicrotask(() => this.begin());
  }
  begin(): void {
    this.dispatchEvent(new Event('error'));
  }
  postMessage(): void {}
  terminate(): void {}
}

beforeEach(() => {
  answers = { '/v1/info': () => Response.json(info) };
  [bodies, signals] = [[], []];
  vi.stubGlobal('Worker', BlockedWorker);
  vi.stubGlobal('location', new URL('https://example.org/page/'));
  vi.stubGlobal('fetch', async (url: URL, init: RequestInit = {}) => {
    if (init.body) bodies.push(JSON.parse(String(init.body)) as Record<string, unknown>);
    signals.push(init.signal);
    const answer = answers[url.pathname];
    if (!answer) throw new TypeError('failed to fetch');
    expect(new Headers(init.headers).get('authorization')).toBe('Bearer abc');
    return answer();
  });
});
afterEach(() => vi.unstubAllGlobals());

const load = (options = {}) => Outrider.load({ token: 'abc', wait: 'draft', ...options });

test('a server that does not let the page in is told from one that is away', async () => {
  vi.stubGlobal('origin', 'https://example.org');
  const loading = () => Outrider.load({ token: 'abc', server: 'https://verify.example' });
  delete answers['/v1/info'];
  await expect(loading()).rejects.toMatchObject({ code: 'connection-failed' });
  answers['/healthz'] = () => Response.error();
  await expect(loading()).rejects.toMatchObject({
    code: 'origin-refused',
    message: 'https://verify.example does not let pages of https://example.org in (--allow-origin)',
  });
});

test('a server that is away is named, also where a download of its draft model has failed', async () => {
  class FailingWorker extends BlockedWorker {
    override begin(): void {
      const error = { code: 'download-failed', message: 'no draft' };
      const data = { type: 'load-failed', error } satisfies FromWorker;
      this.dispatchEvent(new MessageEvent('message', { data }));
    }
  }
  vi.stubGlobal('Worker', FailingWorker);
  // The server is there, and the draft model is elsewhere.
  await expect(load()).rejects.toMatchObject({ code: 'download-failed' });
  delete answers['/v1/info'];
  const away = { code: 'connection-failed', message: 'the server at https://example.org cannot be reached' };
  for (const options of [{ wait: 'server' }, { wait: 'draft' }, { fallback: 'none', wait: undefined }]) {
    await expect(load(options)).rejects.toMatchObject(away);
  }
});

test('a model is named in what the server alone is asked', async () => {
  const fetched = vi.spyOn(globalThis, 'fetch');
  const outrider = await load({ model: 'small', onFallback: () => {} });
  answers['/v1/completions'] = () => events(chunk('One', 'stop'), usage);
  await outrider.generate('p').summary;
  expect(fetched.mock.calls.map(([url]) => String(url))).toEqual([
    'https://example.org/v1/info?model=small',
    'https://example.org/v1/completions',
  ]);
  expect(bodies).toMatchObject([{ model: 'small' }]);
});

test('where no worker starts the server writes alone, with the seed and all else that was asked for', async () => {
  const reasons: string[] = [];
  const outrider = await load({ onFallback: ({ code }: { code: string }) => reasons.push(code) });
  expect([outrider.mode, outrider.engine.build, ...reasons]).toEqual(['server', 'none', 'worker-crashed']);
  expect(outrider.session).toMatchObject({ contextLength: 64, vocabSize: 9 });
  answers['/v1/completions'] = () => events(chunk('One'), chunk('é'), chunk('', 'stop'), usage);
  const generation = outrider.generate('p', { seed: 7, temperature: 0.5, topP: 0.9, topK: 3, maxNewTokens: 5 });
  const rounds: Round[] = [];
  for await (const round of generation.rounds()) rounds.push(round);
  expect(bodies).toEqual([
    {
      ...{ prompt: 'p', seed: 7, temperature: 0.5, top_p: 0.9, top_k: 3, max_tokens: 5 },
      ...{ stream: true, stream_options: { include_usage: true }, return_token_ids: true },
    },
  ]);
  expect(rounds.flatMap(({ tokens }) => tokens)).toEqual([
    { id: -1, text: 'One', origin: 'cloud' },
    { id: -1, text: 'é', origin: 'cloud' },
  ]);
  expect(await generation.summary).toMatchObject({
    ...{ text: 'Oneé', finish: 'eos', tokens: 2, promptTokens: 3, serverPasses: 2, serverPassesPerToken: 1 },
  });
});

test('a conversation with tools is asked of the other address, and its calls are pieces', async () => {
  const outrider = await load();
  const call = { function: { name: 'f', arguments: '{}' } };
  answers['/v1/chat/completions'] = () =>
    events(
      { choices: [{ delta: { content: 'So' }, finish_reason: null }] },
      { choices: [{ delta: { tool_calls: [call] }, finish_reason: null }] },
      { choices: [{ delta: {}, finish_reason: 'tool_calls' }] },
    );
  const tools = [{ type: 'function', function: { name: 'f' } }] as const;
  const { pieces } = await outrider.generate([{ role: 'user', content: 'a' }], {
    tools,
    stop: 'z',
    chatTemplateKwargs: { a: 1 },
  }).summary;
  expect(pieces).toEqual([
    { type: 'text', text: 'So' },
    { type: 'call', name: 'f', arguments: '{}' },
  ]);
  expect(bodies[0]).toMatchObject({ stop: ['z'], tools, chat_template_kwargs: { a: 1 } });
});

test('reasoning of a chat is what the server has separated', async () => {
  const outrider = await load();
  const delta = (delta: object, ...token_ids: number[]) => ({ choices: [{ delta, finish_reason: null, token_ids }] });
  answers['/v1/chat/completions'] = () =>
    events(
      ...[delta({ reasoning_content: 'so' }, 1, 2), delta({ reasoning_content: ' so' }, 3)],
      ...[delta({ content: 'Good' }, 4, 5), { choices: [{ delta: {}, finish_reason: 'stop' }] }, usage],
    );
  const messages = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'The' },
  ] as const;
  const { choices, usage: cost } = await outrider.chat.completions.create({ messages, continue_final_message: true });
  expect(choices[0]?.message).toMatchObject({ content: 'Good', reasoning_content: 'so so' });
  expect(cost.outrider.reasoning_tokens).toBe(3);
  answers['/v1/chat/completions'] = () => events(delta({ content: '<think>so' }, 1), usage);
  const plain = await outrider.chat.completions.create({ messages, reasoning_format: 'none' });
  expect(plain.choices[0]?.message).toMatchObject({ content: '<think>so' });
  expect(bodies).toMatchObject([
    { reasoning_format: 'auto', continue_final_message: true },
    { reasoning_format: 'none', messages },
  ]);
  expect(bodies[1]).not.toHaveProperty('continue_final_message');
});

test('errors of the server have their codes', async () => {
  const outrider = await load({ reconnectAttempts: 0 });
  const refused = async (answer: () => Response) => {
    answers['/v1/completions'] = answer;
    return outrider.generate('p').summary.then(
      () => 'none',
      (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
    );
  };
  const error = (status: number, code: string | null) => () =>
    Response.json({ error: { message: 'no', code } }, { status });
  expect(await refused(error(400, 'context_length_exceeded'))).toBe('prompt-too-long: no');
  expect(await refused(error(401, 'x'))).toBe('unauthorized: no');
  expect(await refused(error(503, null))).toBe('server-full: no');
  expect(await refused(error(418, null))).toBe('server-error: no');
  expect(await refused(() => events(chunk('a'), { error: { message: 'no' } }))).toBe('server-error: no');
  expect(await refused(() => new Response('data: {"choices":[]}\n'))).toMatch(/^connection-lost: /);
  delete answers['/v1/completions'];
  await expect(outrider.generate('p').summary).rejects.toMatchObject({ code: 'connection-failed' });
});

test('a stop ends it, and another can begin', async () => {
  const outrider = await load();
  answers['/v1/completions'] = () =>
    new Response(
      new ReadableStream({
        start(to) {
          to.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(chunk('a'))}\n\n`));
          signals.at(-1)?.addEventListener('abort', () => to.error(new DOMException('', 'AbortError')));
        },
      }),
    );
  const generation = outrider.generate('p');
  for await (const { text } of generation) {
    expect(text).toBe('a');
    break;
  }
  const next = outrider.generate('q');
  expect(await generation.summary).toMatchObject({ finish: 'cancelled', text: 'a', tokens: 1 });
  await outrider.close();
  await expect(next.summary).rejects.toMatchObject({ code: 'closed' });
});

test('what needs the draft model says so, and a fallback can be declined', async () => {
  const outrider = await load();
  await expect(outrider.tokenize('a')).rejects.toMatchObject({ code: 'no-draft' });
  await expect(load({ fallback: 'none' })).rejects.toMatchObject({ code: 'worker-crashed' });
  await expect(load({ fallback: 'cloud' })).rejects.toMatchObject({ code: 'invalid-option' });
  // The server is not there either: what is wrong with the draft says more.
  answers = {};
  await expect(load()).rejects.toMatchObject({ code: 'worker-crashed' });
});

test('a token that never comes ends with the text or loading that waits for it, and holds up no other', async () => {
  const never = (): Promise<string> => new Promise(() => {});
  let token: () => string | Promise<string> = () => 'abc';
  const outrider = await load({ token: () => token(), onFallback: () => {} });
  answers['/v1/completions'] = () => events(chunk('a', 'stop'), usage);
  token = never;
  const hung = outrider.generate('p');
  await new Promise((resolve) => setTimeout(resolve));
  token = () => 'abc';
  hung.stop();
  const next = outrider.generate('q');
  expect(await hung.summary).toMatchObject({ finish: 'cancelled', text: '' });
  expect((await next.summary).text).toBe('a');
  for (const wait of ['server', 'draft'] as const) {
    const abort = new AbortController();
    const loading = Outrider.load({ token: never, wait, signal: abort.signal });
    const reason = new Error('enough');
    abort.abort(reason);
    await expect(loading).rejects.toBe(reason);
  }
});

test('what only a draft model can do is refused by its option', async () => {
  const outrider = await load({ onFallback: () => {} });
  for (const [options, option, message] of [
    [{ temperature: 3 }, 'temperature', 'without a draft model temperature must be at most 2, not 3'],
    [{ stop: ['1', '2', '3', '4', '5'] }, 'stop', 'without a draft model stop must have at most 4 strings, not 5'],
    [{ stop: 'é'.repeat(200) }, 'stop', 'without a draft model strings of stop must have at most 256 bytes, not 400'],
  ] as const) {
    const refused = outrider.generate('p', options).summary;
    await expect(refused).rejects.toMatchObject({ code: 'no-draft', option, message });
  }
  expect(bodies).toEqual([]);
});
