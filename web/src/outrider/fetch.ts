// OpenAI's HTTP API as a `fetch` function whose answers this page drafts. A request that a session cannot answer goes
// to the server's own API; of all others nothing reaches the network but the session.

import { abortion } from './aborting.js';
import { ApiError } from './api-error.js';
import { chatNames, completionNames } from './completions.js';
import type { ChatCompletions, Completions } from './completions.js';
import type { ChatCompletionChunk, CompletionUsage } from './completions-types.js';
import { OutriderError } from './errors.js';
import { asChat, responseEvents, responseOf } from './responses.js';
import type { ResponseEvent } from './responses.js';
import { apiNames } from './shaping.js';

/** The instance that answers. */
interface Api {
  readonly chat: { readonly completions: ChatCompletions };
  readonly completions: Completions;
}

/** The fields of answers and of their chunks that change where a request has several choices. */
interface Answer {
  id: string;
  choices: readonly { index: number; delta?: { role?: string } }[];
  usage?: CompletionUsage | null;
}

type Params = Record<string, unknown>;

/** A kind of completion. */
interface Endpoint {
  create(params: Params, signal: AbortSignal): Promise<Answer | AsyncIterable<Answer>>;
  /** The parameters that change the answer. */
  known: readonly string[];
  /** The parameter that has the prompt. */
  prompt: string;
}

/** Creates one choice of a request. */
type Create = (params: Params) => Promise<Answer | AsyncIterable<Answer>>;

const model = { id: 'outrider', object: 'model', created: 0, owned_by: 'outrider' };
/** Most choices of a request, as by the server. */
const MOST_CHOICES = 16;
/** Seconds after which a refused request may be tried again, as by the server. */
const RETRY_AFTER = '5';
/** The same where the connection failed: a session has tried several times, and another attempt costs nothing. */
const RETRY_CONNECTION_AFTER = '1';
const ofConnection: readonly unknown[] = ['connection-failed', 'connection-lost'];
/** HTTP statuses of the errors that are not 500. */
const statuses: Readonly<Record<string, number>> = {
  // Clients try again after 500, which is of no use once the instance is closed.
  ...{ 'invalid-option': 400, 'invalid-parameters': 400, 'prompt-too-long': 400, 'no-draft': 400, closed: 400 },
  // A proxy whose server is away lets no page read its answer, either.
  'origin-refused': 503,
  ...{ unauthorized: 401, 'server-full': 503, 'shutting-down': 503, 'connection-failed': 503, 'connection-lost': 503 },
};
/** The server's codes of errors where this package has others. */
const codes: Readonly<Record<string, string | null>> = {
  ...{ 'invalid-option': null, 'invalid-parameters': null },
  ...{ 'prompt-too-long': 'context_length_exceeded', 'server-full': 'server_full', 'shutting-down': 'shutting_down' },
};

/** Sends a request to an endpoint of the server's own API. */
export type AskServer = (path: string, params: Params, signal: AbortSignal) => Promise<Response>;

/** Makes the `fetch` function of an instance. */
export function fetchFrom(api: Api, ask: AskServer): typeof fetch {
  const chat: Endpoint = {
    create: (params, signal) => api.chat.completions.create(params as never, { signal }),
    ...{ known: chatNames, prompt: 'messages' },
  };
  const endpoints: Readonly<Record<string, Endpoint>> = {
    ...{ '/chat/completions': chat, '/responses': chat },
    '/completions': {
      create: (params, signal) => api.completions.create(params as never, { signal }),
      ...{ known: completionNames, prompt: 'prompt' },
    },
  };
  const answer = async (request: Request, stop: AbortController): Promise<Response> => {
    const { pathname } = new URL(request.url);
    const path = /\/v1(\/.*)$/.exec(pathname)?.[1] ?? '';
    const endpoint = endpoints[path];
    if (!endpoint && !/^\/models(\/[^/]+)?$/.test(path)) {
      throw new ApiError(404, `There is no ${request.method} ${pathname} here.`, 'unknown_url');
    }
    if (request.method !== (endpoint ? 'POST' : 'GET')) {
      throw new ApiError(405, `${pathname} does not take ${request.method}.`, 'method_not_allowed');
    }
    if (!endpoint) return json(modelsAt(path));
    const { controller: writing } = abortion(stop);
    const create: Create = (params) => endpoint.create(params, writing.signal);
    const errorOf = (error: unknown): ApiError => apiErrorOf(error, endpoint);
    let params: Params = {};
    try {
      params = await paramsOf(request);
      if (isServers(path, params)) return await ask(`v1${path}`, params, stop.signal);
      if (path === '/responses') {
        const chunks = (await begun(chunksOf(asChat(params), create))) as AsyncIterable<ChatCompletionChunk>;
        if (params['stream'] !== true) return json((await responseOf(params, chunks)) as object);
        return streamOf(named(responseEvents(params, chunks, errorOf)), stop);
      }
      if (params['stream'] !== true) return json(await wholeOf(params, create));
      const events = eventsOf(await begun(chunksOf(params, create)), errorOf);
      return streamOf(events, stop);
    } catch (error) {
      // The other choices of the request.
      writing.abort();
      if (!isOfSession(error)) throw errorOf(error);
      return await ask(`v1${path}`, params, stop.signal).catch(() => Promise.reject(errorOf(error)));
    }
  };
  return async (input, init) => {
    const signal = init?.signal ?? (input instanceof Request ? input.signal : null);
    signal?.throwIfAborted();
    const stop = new AbortController();
    const answered = answer(new Request(input, init), stop).catch(refusal);
    if (!signal) return answered;
    let abort = (): void => {};
    const aborted = new Promise<never>((_, reject) => {
      abort = (): void => {
        stop.abort(signal.reason);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', abort, { once: true });
    });
    const forget = (): void => signal.removeEventListener('abort', abort);
    // A stream is aborted as long as it runs.
    const isStream = ({ headers }: Response): boolean => headers.get('Content-Type')?.includes('event-stream') ?? false;
    void answered.then((response) => {
      if (!isStream(response)) forget();
    });
    return Promise.race([answered, aborted]);
  };
}

/** Parameters that the server has and a session has not. */
const serverNames = ['stop_token_ids', 'return_token_ids', 'outrider'];

/** True for a request that needs the server's API: scores of tokens, prompts of ids, parameters of the server. */
function isServers(path: string, params: Params): boolean {
  if (serverNames.some((name) => (params[name] ?? null) !== null)) return true;
  const { echo, logprobs, prompt } = params;
  const hasIds = Array.isArray(prompt) && prompt.some((one) => typeof one !== 'string');
  return path === '/completions' && (echo === true || (logprobs ?? false) !== false || hasIds);
}

/** True for a refusal by the session, or for want of a draft model. The server may answer, or says what is wrong. */
function isOfSession(error: unknown): boolean {
  const isRefusal = error instanceof OutriderError && ['invalid-parameters', 'no-draft'].includes(error.code);
  return isRefusal && !(error.cause instanceof ApiError);
}

function modelsAt(path: string): object {
  const name = path.slice('/models/'.length);
  if (name === '') return { object: 'list', data: [model] };
  if (name === model.id) return model;
  throw new ApiError(404, `There is no model '${name}' here; there is '${model.id}'.`, 'model_not_found', 'model');
}

async function paramsOf(request: Request): Promise<Params> {
  const body = await request.text();
  let params: unknown;
  try {
    params = JSON.parse(body);
  } catch (error) {
    throw new ApiError(400, `The body is not valid JSON: ${(error as Error).message}.`, null);
  }
  if (typeof params === 'object' && params !== null && !Array.isArray(params)) return params as Params;
  throw new ApiError(400, 'The body must be a JSON object.', null);
}

/** Most prompts of a request, as by the server. */
const MOST_PROMPTS = 128;

/** The parameters of each choice of a request, by prompt. */
function choicesOf({ prompt, ...params }: Params): Params[] {
  if (!Array.isArray(prompt) || prompt.length < 2) return choicesOfPrompt({ prompt, ...params });
  if (prompt.length > MOST_PROMPTS || !prompt.every((one) => typeof one === 'string')) {
    const reason = `must be a text, or a list of up to ${MOST_PROMPTS}`;
    throw new ApiError(400, `prompt ${reason}.`, null, 'prompt');
  }
  return prompt.flatMap((one) => choicesOfPrompt({ prompt: one as string, ...params }));
}

function choicesOfPrompt({ n, ...params }: Params): Params[] {
  const count = (n ?? 1) as number;
  if (!(Number.isInteger(count) && count >= 1 && count <= MOST_CHOICES)) {
    throw new ApiError(400, `n must be a whole number from 1 to ${MOST_CHOICES}.`, null, 'n');
  }
  const { seed } = params;
  return Array.from({ length: count }, (_, index) => {
    return index > 0 && typeof seed === 'number' ? { ...params, seed: seed + index } : params;
  });
}

/** The complete answer, with all choices, which are written side by side. */
async function wholeOf(params: Params, create: Create): Promise<Answer> {
  const started = performance.now();
  const asked = choicesOf(params);
  const all = (await Promise.all(asked.map(create))) as Answer[];
  const choices = all.flatMap(({ choices }) => choices).map((choice, index) => ({ ...choice, index }));
  return { ...all[0]!, choices, usage: usageOf(params, all, started) };
}

/** The chunks of all choices as they come, and a last one with the usage of all of them if it is wanted. */
async function* chunksOf(params: Params, create: Create): AsyncGenerator<Answer> {
  const started = performance.now();
  let id: string | undefined;
  const asked = choicesOf(params);
  const last = new Map<number, Answer>();
  const streams = (await Promise.all(asked.map(create))) as AsyncIterable<Answer>[];
  for await (const [index, chunk] of merged(streams)) {
    id ??= chunk.id;
    if (chunk.usage) last.set(index, { ...chunk, id });
    else yield { ...chunk, id, choices: chunk.choices.map((choice) => ({ ...choice, index })) };
  }
  const [any] = last.values();
  const answers = asked.map((_, index) => last.get(index));
  if (any) yield { ...any, usage: usageOf(params, answers, started) };
}

/** The items of all streams as they come, with the index of their stream. The end of the loop ends all of them. */
async function* merged<T>(streams: readonly AsyncIterable<T>[]): AsyncGenerator<readonly [number, T]> {
  const sources = streams.map((stream) => stream[Symbol.asyncIterator]());
  const next = (source: AsyncIterator<T>, index: number) => {
    const pending = source.next().then((item) => ({ source, index, item }));
    // It fails for the reader, who may come for it later, or never.
    pending.catch(() => {});
    return pending;
  };
  const awaited = new Map(sources.map((source, index) => [index, next(source, index)]));
  try {
    while (awaited.size > 0) {
      const { source, index, item } = await Promise.race(awaited.values());
      if (item.done) awaited.delete(index);
      else {
        awaited.set(index, next(source, index));
        yield [index, item.value];
      }
    }
  } finally {
    for (const source of sources) void source.return?.().catch(() => {});
  }
}

/** The tokens of all choices, and the time since `started` if there are several. A prompt's choices count it once. */
function usageOf(params: Params, answers: readonly (Answer | undefined)[], started: number): CompletionUsage | null {
  const usages = answers.map((answer) => answer?.usage ?? null);
  const given = usages.filter((usage) => usage !== null);
  const [first] = given;
  if (!first || usages.length === 1) return first ?? null;
  const total = (of: readonly (CompletionUsage | null)[], count: (usage: CompletionUsage) => number): number =>
    of.reduce((sum, usage) => sum + (usage ? count(usage) : 0), 0);
  const perPrompt = (params['n'] ?? 1) as number;
  const prompt_tokens = total(
    usages.filter((_, index) => index % perPrompt === 0),
    (usage) => usage.prompt_tokens,
  );
  const completion_tokens = total(given, (usage) => usage.completion_tokens);
  const names = Object.keys(first.outrider) as (keyof CompletionUsage['outrider'])[];
  const counts = names.map((name) => [name, total(given, ({ outrider }) => outrider[name])]);
  const outrider = Object.fromEntries(counts) as CompletionUsage['outrider'];
  outrider.elapsed_ms = performance.now() - started;
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens, outrider };
}

/** Waits for the first chunk that has more than a role: until then an error has a status of its own. */
async function begun(chunks: AsyncGenerator<Answer>): Promise<AsyncIterable<Answer>> {
  const first: Answer[] = [];
  for (let opens = true; opens;) {
    const { done, value } = await chunks.next();
    if (!done) first.push(value);
    opens = !done && value.choices[0]?.delta?.role !== undefined;
  }
  return (async function* () {
    yield* first;
    yield* chunks;
  })();
}

/** The server-sent events of chunks. An error ends them, as one of them. */
async function* eventsOf(chunks: AsyncIterable<Answer>, errorOf: (error: unknown) => ApiError): AsyncGenerator<string> {
  try {
    for await (const chunk of chunks) yield `data: ${JSON.stringify(chunk)}\n\n`;
  } catch (error) {
    yield `data: ${JSON.stringify(errorOf(error).body)}\n\n`;
  }
  yield 'data: [DONE]\n\n';
}

/** The server-sent events of a response, each with its name. */
async function* named(events: AsyncIterable<ResponseEvent>): AsyncGenerator<string> {
  for await (const event of events) yield `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

function streamOf(events: AsyncGenerator<string>, stop: AbortController): Response {
  return new Response(bodyOf(events, stop), { headers: { 'Content-Type': 'text/event-stream' } });
}

/** The body of a response of server-sent events. Cancelling it aborts `stop`, which ends it with an error. */
function bodyOf(events: AsyncGenerator<string>, stop: AbortController): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const { signal } = stop;
  return new ReadableStream({
    start(to) {
      signal.addEventListener('abort', () => to.error(signal.reason), { once: true });
    },
    async pull(to) {
      const { done, value } = await events.next();
      if (signal.aborted) return;
      if (done) to.close();
      else to.enqueue(encoder.encode(value));
    },
    cancel() {
      stop.abort();
    },
  });
}

/** The error of the API for one of this package. */
function apiErrorOf(error: unknown, { known, prompt }: Endpoint): ApiError {
  if (error instanceof ApiError) return error;
  if (!(error instanceof OutriderError)) return new ApiError(500, String(error), null);
  // What the server itself has said.
  if (error.cause instanceof ApiError) return error.cause;
  const { code, message } = error;
  const option = code === 'prompt-too-long' ? 'prompt' : error.option;
  const shaping = Object.entries(apiNames).map(([name, option]) => [option, name] as const);
  const names: Readonly<Record<string, string>> = {
    ...{ prompt, chatTemplateKwargs: 'chat_template_kwargs', continueFinalMessage: 'messages' },
    ...Object.fromEntries(shaping),
  };
  const param = option === undefined ? null : (names[option] ?? option);
  const status = statuses[code] ?? 500;
  const isUnknown = code === 'invalid-option' && param !== null && !known.includes(param);
  const { [code]: ofServer = code } = codes;
  return new ApiError(status, message, isUnknown ? 'unsupported_parameter' : ofServer, param);
}

function refusal(error: unknown): Response {
  const { status, body } = error instanceof ApiError ? error : new ApiError(500, String(error), null);
  const wait = ofConnection.includes(body.error.code) ? RETRY_CONNECTION_AFTER : RETRY_AFTER;
  return json(body, status, status === 503 ? { 'Retry-After': wait } : {});
}

// Browsers that run the package may lack `Response.json()`.
function json(body: object, status = 200, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json', ...headers } });
}
