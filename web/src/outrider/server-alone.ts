// Generations of the server alone, over its OpenAI API: until the draft model has been loaded, and where none runs.

import { createParser } from 'eventsource-parser';
import * as v from 'valibot';
import { unlessAborted } from './aborting.js';
import { ApiError as ServersError } from './api-error.js';
import { answersOthers, chunksOf, originRefused } from './download.js';
import type { GenerateRequest, ModelInfo, Piece, Round, SessionInfo, Statistics, Summary, Token } from './edge.js';
import { OutriderError } from './errors.js';
import type { OutriderErrorCode } from './errors.js';
import { emptySummary } from './generation.js';
import type { Limits } from './limits.js';
import { AWAY_MS } from './kept-answers.js';
import { CONNECT_TIMEOUT_MS, headersOf, ofModel, serverOf } from './load-options.js';
import type { LoadOptions } from './load-options.js';
import { ReasoningTags } from './reasoning.js';
import { SamplingDefaults } from './sampling.js';
import type { Sampling } from './sampling.js';
import type { AskServer } from './fetch.js';
import { fetchWith } from './requests.js';
import { tokenOf } from './token.js';
import { within } from './within.js';

/** The fields that are read of a chunk of either kind of completion. */
interface Chunk {
  choices?: {
    text?: string;
    delta?: {
      content?: string | null;
      reasoning_content?: string | null;
      tool_calls?: { function: { name: string; arguments: string } }[];
    };
    finish_reason: 'stop' | 'length' | 'tool_calls' | null;
    /** The ids of the tokens since the last chunk. */
    token_ids?: number[];
  }[];
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
  error?: ApiError;
}

interface ApiError {
  message: string;
  param?: string | null;
  code?: string | null;
}

/** The fields of `/v1/info` that this package cannot do without. */
const count0 = v.pipe(v.number(), v.integer(), v.minValue(0));
const number = v.exactOptional(v.number());
const info = v.looseObject({
  vocabSize: count0,
  limits: v.looseObject({ contextLength: count0, maxDraftTokens: count0, maxInFlight: count0, maxGuesses: count0 }),
  sampling: v.fallback(v.object({ temperature: number, topK: v.exactOptional(count0), topP: number }), {}),
});

/** Errors of a page on which no draft model can run. */
const cannotDraft = ['wasm-failed', 'out-of-memory', 'worker-crashed'];

/** Errors of a server that this page cannot reach. */
const unreachable = ['connection-failed', 'origin-refused'];

/** Statuses of a proxy whose server is away. */
const awayStatuses: readonly number[] = [502, 503, 504];

/** Shortest silence, in milliseconds, that is taken for a lost connection: the server sends a comment every 2 s. */
const SHORTEST_STALL_MS = 6_000;

/**
 * Texts that are written at a time; others wait. A browser opens six connections to a server, and the draft model comes
 * over them, too: a further text would be silent for as long as the others take.
 */
const TEXTS_AT_A_TIME = 4;

/**
 * Makes a `fetch` with the token and the headers that the server asks for. From the token on, silence of `stallMs` is a
 * lost connection.
 */
function serverFetch(options: LoadOptions, stallMs = Infinity): typeof fetch {
  const { token } = options;
  const headers = headersOf(options);
  return async (input, init) => {
    const bearer = token === undefined ? null : await unlessAborted(tokenOf(token), init?.signal);
    const authorization = bearer === null ? {} : { Authorization: `Bearer ${bearer}` };
    return within(stallMs, fetchWith({ ...authorization, ...headers })(input, init), stalled(stallMs));
  };
}

function stalled(stallMs: number): OutriderError {
  return new OutriderError('connection-lost', `nothing came from the server for ${stallMs / 1000} s`);
}

/** Makes the function that sends a request to the server's API; a page that names a model asks that one. */
export function askerOf(options: LoadOptions): AskServer {
  const request = serverFetch(options);
  return (path, { model: _, ...params }, signal) => {
    const body = JSON.stringify(options.model === undefined ? params : { ...params, model: options.model });
    const url = new URL(path, serverOf(options));
    return reached(url, post(request, url, body, signal));
  };
}

/** Makes the sampling defaults of an instance, for which its server is asked. */
export function samplingOf(options: LoadOptions): SamplingDefaults {
  return new SamplingDefaults(async () => {
    const alone = await ServerAlone.connectIfThere({ ...options, signal: undefined }).catch((error: OutriderError) => {
      if (unreachable.includes(error.code)) throw error;
      // A token may be for sessions alone.
      return { sampling: {} };
    });
    return alone?.sampling ?? Promise.reject(new Error('the server is away'));
  });
}

function post(request: typeof fetch, url: URL, body: string, signal: AbortSignal): Promise<Response> {
  return request(url, { method: 'POST', body, signal, headers: { 'Content-Type': 'application/json' } });
}

/** A server without a draft model beside it. The text of a seed is the one that `mode: 'cloud-only'` has. */
export class ServerAlone {
  readonly #server: URL;
  readonly #fetch: typeof fetch;
  readonly #model: string | undefined;
  readonly #stallMs: number;
  readonly session: SessionInfo;
  /** Sampling that the server recommends. */
  readonly sampling: Sampling;
  /** Resolve when the texts that are being written have ended. */
  readonly #ends = new Set<Promise<void>>();

  private constructor(options: LoadOptions, session: SessionInfo, sampling: Sampling) {
    this.#server = serverOf(options);
    this.#model = options.model;
    this.#stallMs = Math.max(options.stallTimeoutMs ?? 0, SHORTEST_STALL_MS);
    // Before it answers the server reads the prompt, over a slow uplink perhaps.
    this.#fetch = serverFetch(options, Math.max(this.#stallMs, options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS));
    this.session = session;
    this.sampling = sampling;
  }

  /**
   * Connects to the server alone if an error of loading calls for it.
   * @throws `error` otherwise; `connection-failed` or `origin-refused` if that is why a download has failed
   */
  static async insteadOf(error: unknown, options: LoadOptions): Promise<ServerAlone> {
    const { fallback = 'server', signal } = options;
    const code = error instanceof OutriderError ? error.code : null;
    if (code === 'download-failed') {
      await ServerAlone.connect(options).catch((why: OutriderError) => {
        if (unreachable.includes(why.code)) throw why;
      });
    }
    const calls = code !== null && cannotDraft.includes(code);
    if (!calls || fallback === 'none' || signal?.aborted) throw error;
    return ServerAlone.connect(options).catch(() => {
      signal?.throwIfAborted();
      // What is wrong with the draft says more than that the server is not there either.
      throw error;
    });
  }

  /** Connects to the server; null where it is away and need not be there. @throws {@link OutriderError} */
  static async connectIfThere(options: LoadOptions): Promise<ServerAlone | null> {
    if (!options.offline) return ServerAlone.connect(options);
    try {
      const late = new OutriderError('connection-failed', `the server at ${serverOf(options).origin} does not answer`);
      return await within(AWAY_MS, ServerAlone.connect(options), late);
    } catch (error) {
      options.signal?.throwIfAborted();
      const { code, cause } = error as OutriderError;
      const isOfProxy = cause instanceof ServersError && !cause.body.error.code && awayStatuses.includes(cause.status);
      if (code === 'connection-failed' || isOfProxy) return null;
      throw error;
    }
  }

  /** Reads the server's limits. @throws {@link OutriderError} */
  static async connect(options: LoadOptions): Promise<ServerAlone> {
    const { signal, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options;
    const request = serverFetch(options);
    const url = ofModel(options, 'v1/info');
    const why = `the server at ${url.origin} does not answer within`;
    const late = new OutriderError('connection-failed', `${why} ${connectTimeoutMs} ms`);
    const asking = answered(url, request(url, signal ? { signal } : {}));
    const read = asking.then((response): Promise<unknown> => response.json().catch(() => null));
    const received = await within(connectTimeoutMs, read, late).catch(async (error: unknown) => {
      signal?.throwIfAborted();
      const isAway = error !== late && (error as OutriderError).code === 'connection-failed';
      if (isAway && (await answersOthers(url.href, request))) throw originRefused(url.href, error);
      throw error;
    });
    const { success, output } = v.safeParse(info, received);
    if (!success) {
      const remedy = 'name it with `server`';
      throw new OutriderError('connection-failed', `there is no Outrider server at ${url.href}: ${remedy}`);
    }
    const { limits, vocabSize, sampling } = output;
    return new ServerAlone(options, { ...(limits as unknown as Limits), vocabSize }, sampling);
  }

  /** A description that takes the place of a draft model's. */
  get model(): ModelInfo {
    const { vocabSize, contextLength } = this.session;
    const heads = { gate: false, stop: false };
    return { vocabSize, contextLength, weightBytes: 0, memoryBytes: 0, heads };
  }

  /**
   * Generates to the end; `signal` ends it sooner, with `finish: 'cancelled'`. So does a lost connection, which `onLost`
   * gets; it may be the reason of `signal`. The tokens of rounds have ids: those
   * without a text of their own have the empty one. @throws {@link OutriderError}
   */
  async generate(
    request: GenerateRequest,
    onRound: (round: Round) => void,
    signal: AbortSignal,
    onLost: (error: OutriderError) => void,
  ): Promise<Summary> {
    const started = performance.now();
    const { path, body } = asked(request, this.#model);
    const statistics: Statistics = { ...emptySummary, uplinkBits: body.length * 8 };
    const tokenIds: number[] = [];
    const summary = { seed: request.seed, text: '', promptTokens: 0, promptTokenIds: [], tokenIds };
    const pieces: Piece[] = [];
    const tags = new ReasoningTags();
    let finish: Summary['finish'] | null = null;
    // The server ends a text in the same way at a string of `stop` and at the end of text.
    const ends = { stop: request.stop.length > 0 ? 'stop' : 'eos', length: 'length', tool_calls: 'eos' } as const;
    let leave = (): void => {};
    const end = new Promise<void>((resolve) => (leave = resolve));
    try {
      while (this.#ends.size >= TEXTS_AT_A_TIME) await unlessAborted(Promise.race(this.#ends), signal);
      this.#ends.add(end);
      const url = new URL(path, this.#server);
      const response = await answered(url, post(this.#fetch, url, body, signal));
      const onBytes = (bytes: number): number => (statistics.downlinkBits += bytes * 8);
      for await (const data of events(response, this.#stallMs, onBytes)) {
        const chunk = JSON.parse(data) as Chunk;
        if (chunk.error) throw failure(200, chunk.error);
        if (chunk.usage) {
          summary.promptTokens = chunk.usage.prompt_tokens;
          count(statistics, chunk.usage.completion_tokens, started);
        }
        const [choice] = chunk.choices ?? [];
        if (!choice) continue;
        const { content, reasoning_content: reasoning, tool_calls: calls = [] } = choice.delta ?? {};
        const answer = choice.text ?? content ?? '';
        const isEmpty = answer === '' && calls.length === 0 && !reasoning;
        if (choice.finish_reason) finish = ends[choice.finish_reason];
        const ids = choice.token_ids ?? [];
        tokenIds.push(...ids);
        if (isEmpty) continue;
        const text = tags.around(reasoning ?? '', answer);
        summary.text += text;
        count(statistics, statistics.tokens + Math.max(ids.length, 1), started);
        const added: Piece[] = [
          ...(text === '' ? [] : [{ type: 'text', text } as const]),
          ...calls.map((call): Piece => ({ type: 'call', ...call.function })),
        ];
        pieces.push(...added);
        const evidence = { logprob: null, bits: null, candidates: [] };
        const last = Math.max(ids.length - 1, 0);
        const tokens = Array.from({ length: last + 1 }, (_, index): Token => ({
          ...{ id: ids[index] ?? -1, text: index === last ? text : '', origin: 'cloud' },
          ...(request.evidence && { evidence }),
        }));
        onRound({
          tokens,
          ...(request.tools.length > 0 && { pieces: added }),
          ...(request.tagsReasoning && { isTagged: true }),
          statistics: { ...statistics },
          round: null,
        });
      }
    } catch (error) {
      const given: unknown = signal.aborted ? signal.reason : error;
      const isLost = given instanceof OutriderError ? given.code === 'connection-lost' : !signal.aborted;
      if (!isLost && !signal.aborted) throw error;
      if (isLost && finish === null) {
        const hasBegun = statistics.downlinkBits > 0;
        const why = hasBegun ? 'the server went away in the middle of a text' : 'the server does not answer';
        onLost(new OutriderError('connection-lost', why, { cause: given }));
      }
      // A text that has ended is whole, whatever comes after.
      finish ??= 'cancelled';
    } finally {
      this.#ends.delete(end);
      leave();
    }
    const called = request.tools.length > 0 && pieces.length > 0;
    const tagged = request.tagsReasoning && { isTagged: true as const };
    return { ...statistics, ...summary, ...tagged, ...(called && { pieces }), finish: finish ?? 'length' };
  }
}

/** Converts a request for the API. */
function asked(request: GenerateRequest, model: string | undefined): { path: string; body: string } {
  const { prompt, tools, chatTemplateKwargs: variables, stop, temperature, topP, topK, seed, maxNewTokens } = request;
  const common = {
    ...{ model, temperature, top_p: topP, top_k: topK, seed, max_tokens: maxNewTokens },
    ...(stop.length > 0 && { stop }),
    ...(request.shaping !== null && (JSON.parse(request.shaping) as object)),
    ...{ stream: true, stream_options: { include_usage: true }, return_token_ids: true },
  };
  if (typeof prompt === 'string') return { path: 'v1/completions', body: JSON.stringify({ prompt, ...common }) };
  const body = {
    ...{ messages: prompt, ...(tools.length > 0 && { tools }) },
    ...(Object.keys(variables).length > 0 && { chat_template_kwargs: variables }),
    ...(request.continueFinalMessage && { continue_final_message: true }),
    // Otherwise the text is as it is with a draft model.
    reasoning_format: request.tagsReasoning ? 'auto' : 'none',
    ...common,
  };
  return { path: 'v1/chat/completions', body: JSON.stringify(body) };
}

/**
 * Returns the totals of a text that the server began alone, `started` milliseconds after the page's time origin, and
 * that a draft model has joined since: `later` counts from there on.
 */
export function joined<S extends Statistics>(alone: Statistics, started: number, later: S): S {
  const tokens = alone.tokens + later.tokens;
  const elapsedMs = performance.now() - started;
  const serverPasses = alone.serverPasses + later.serverPasses;
  const [uplinkBits, downlinkBits] = [alone.uplinkBits + later.uplinkBits, alone.downlinkBits + later.downlinkBits];
  return {
    ...later,
    ...{ tokens, elapsedMs, serverPasses, uplinkBits, downlinkBits },
    firstTokenMs: alone.tokens > 0 ? alone.firstTokenMs : elapsedMs - later.elapsedMs + later.firstTokenMs,
    tokensPerSecond: (tokens / elapsedMs) * 1000,
    serverPassesPerToken: tokens > 0 ? serverPasses / tokens : 0,
    uplinkBitsPerToken: tokens > 0 ? uplinkBits / tokens : 0,
    downlinkBitsPerToken: tokens > 0 ? downlinkBits / tokens : 0,
  };
}

/** Counts tokens, each a forward pass of the server. */
function count(statistics: Statistics, tokens: number, started: number): void {
  const elapsedMs = performance.now() - started;
  if (statistics.tokens === 0) statistics.firstTokenMs = elapsedMs;
  Object.assign(statistics, {
    ...{ tokens, elapsedMs, tokensPerSecond: (tokens / elapsedMs) * 1000 },
    ...{ serverPasses: tokens, serverPassesPerToken: tokens > 0 ? 1 : 0 },
  });
}

/** Yields the data of a response's server-sent events, up to `[DONE]`. Silence of `stallMs` is a lost connection. */
async function* events(response: Response, stallMs: number, onBytes: (bytes: number) => void): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const arrived: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => arrived.push(data) });
  const chunks = chunksOf(response)[Symbol.asyncIterator]();
  for (;;) {
    const { value: chunk, done } = await within(stallMs, chunks.next(), stalled(stallMs));
    if (done) break;
    onBytes(chunk.length);
    parser.feed(decoder.decode(chunk, { stream: true }));
    for (const data of arrived.splice(0)) {
      if (data === '[DONE]') return;
      yield data;
    }
  }
  throw new OutriderError('connection-lost', 'the server stopped in the middle of a text');
}

/** Waits for a response of any kind. @throws {@link OutriderError} `connection-failed` */
async function reached({ origin }: URL, response: Promise<Response>): Promise<Response> {
  return response.catch((cause: unknown) => {
    if (cause instanceof OutriderError || (cause instanceof Error && cause.name === 'AbortError')) throw cause;
    throw new OutriderError('connection-failed', `the server at ${origin} cannot be reached`, { cause });
  });
}

/** Waits for a successful response. @throws {@link OutriderError} otherwise */
async function answered(url: URL, response: Promise<Response>): Promise<Response> {
  const received = await reached(url, response);
  if (received.ok) return received;
  const { error } = ((await received.json().catch(() => ({}))) ?? {}) as { error?: ApiError };
  throw failure(received.status, error ?? { message: `the server answered ${received.status}` });
}

function failure(status: number, { message, code = null, param = null }: ApiError): OutriderError {
  const codes: Record<number, OutriderErrorCode> = {
    400: 'invalid-parameters',
    401: 'unauthorized',
    429: 'server-full',
    503: 'server-full',
  };
  const known = code === 'context_length_exceeded' ? 'prompt-too-long' : codes[status];
  return new OutriderError(known ?? 'server-error', message, { cause: new ServersError(status, message, code, param) });
}
