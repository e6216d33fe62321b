// Generations of the server alone, over its OpenAI API: until the draft model has been loaded, and where none runs.

import { createParser } from 'eventsource-parser';
import * as v from 'valibot';
import { abortion, unlessAborted } from './aborting.js';
import { ApiError as ServersError } from './api-error.js';
import { answersOthers, chunksOf, originRefused } from './download.js';
import type { Wait } from './download.js';
import type { GenerateRequest, LineEvent, ModelInfo, Round, SessionInfo, Summary } from './edge.js';
import { OutriderError } from './errors.js';
import type { OutriderErrorCode } from './errors.js';
import type { Limits } from './limits.js';
import { AWAY_MS } from './kept-answers.js';
import { CONNECT_TIMEOUT_MS, headersOf, ofModel, serverOf, termsOf } from './load-options.js';
import type { LoadOptions } from './load-options.js';
import { NetworkWaits, pauseAfter } from './network.js';
import { SamplingDefaults } from './sampling.js';
import type { Sampling } from './sampling.js';
import type { AskServer } from './fetch.js';
import { fetchWith } from './requests.js';
import { AnotherText, ServerText } from './server-text.js';
import type { ApiError, Chunk } from './server-text.js';
import { tokenOf } from './token.js';
import { within } from './within.js';

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
const SHORTEST_STALL_MS = 5_000;

/** The same where the network has just changed. */
const SOON_MS = 2_500;

/** Rate of a slow uplink, in bytes per millisecond: a long prompt takes its time before the server can answer. */
const SLOW_UPLINK = 8;

/**
 * Texts that are written at a time; others wait. A browser opens six connections to a server, and the draft model comes
 * over them, too: a further text would be silent for as long as the others take.
 */
const TEXTS_AT_A_TIME = 4;

/** Makes a `fetch` with the token and the headers that the server asks for. From the token on, it waits with `wait`. */
function serverFetch(options: LoadOptions, wait: Wait = (response) => response): typeof fetch {
  const { token } = options;
  const headers = headersOf(options);
  return async (input, init) => {
    const bearer = token === undefined ? null : await unlessAborted(tokenOf(token), init?.signal);
    const authorization = bearer === null ? {} : { Authorization: `Bearer ${bearer}` };
    return wait(fetchWith({ ...authorization, ...headers })(input, init));
  };
}

/** Makes the function that sends a request to the server's API; a page that names a model asks that one. */
export function askerOf(options: LoadOptions): AskServer {
  const request = serverFetch(options);
  return (path, { model: _, ...params }, signal) => {
    // The engine, too, reads half a surrogate pair as U+FFFD; the server's JSON has none.
    const halves = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;
    const wellFormed = (_: string, value: unknown) =>
      typeof value === 'string' ? value.replace(halves, '\uFFFD') : value;
    const body = JSON.stringify(options.model === undefined ? params : { ...params, model: options.model }, wellFormed);
    const url = new URL(path, serverOf(options));
    return reached(url, request, post(request, url, body, signal));
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
  readonly #options: LoadOptions;
  readonly #network = new NetworkWaits();
  readonly session: SessionInfo;
  /** Sampling that the server recommends. */
  readonly sampling: Sampling;
  /** Resolve when the texts that are being written have ended. */
  readonly #ends = new Set<Promise<void>>();

  private constructor(options: LoadOptions, session: SessionInfo, sampling: Sampling) {
    this.#options = options;
    this.session = session;
    this.sampling = sampling;
  }

  /**
   * Connects to the server alone if an error of loading calls for it.
   * @throws `error` otherwise; `connection-failed` or `origin-refused` if that is why
   */
  static async insteadOf(error: unknown, options: LoadOptions): Promise<ServerAlone> {
    const { fallback = 'server', signal } = options;
    const code = error instanceof OutriderError ? error.code : null;
    if (code === 'download-failed' || code === 'connection-failed') {
      // A browser reports a refused WebSocket as it reports a server that is away.
      await within(AWAY_MS, ServerAlone.connect(options), error as Error).catch((why: OutriderError) => {
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
    const asking = answered(url, request, request(url, signal ? { signal } : {}));
    const read = asking.then((response): Promise<unknown> => response.json().catch(() => null));
    const received = await within(connectTimeoutMs, read, late).catch((error: unknown) => {
      signal?.throwIfAborted();
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

  /** Lets texts reconnect at once: a connection may have died unseen. */
  networkChanged(): void {
    this.#network.changed();
  }

  /**
   * Generates to the end; `signal` ends it sooner, with `finish: 'cancelled'`. A lost connection is reported to
   * `onLine`, and the text asked for again. Once `reconnectAttempts` in succession give no token, the text ends in the
   * same way and `onLost` gets the error, which may also be the reason of `signal`. @throws {@link OutriderError}
   */
  async generate(
    request: GenerateRequest,
    onRound: (round: Round) => void,
    signal: AbortSignal,
    onLost: (error: OutriderError) => void,
    onLine: (event: LineEvent) => void,
  ): Promise<Summary> {
    const text = new ServerText(request);
    let leave = (): void => {};
    const end = new Promise<void>((resolve) => (leave = resolve));
    try {
      while (this.#ends.size >= TEXTS_AT_A_TIME) await unlessAborted(Promise.race(this.#ends), signal);
      this.#ends.add(end);
      await this.#write(text, request, onRound, signal, onLine);
    } catch (error) {
      const given: unknown = signal.aborted ? signal.reason : error;
      const lost = signal.aborted && !(given instanceof OutriderError) ? null : lossOf(given);
      if (!lost && !signal.aborted) throw error;
      if (lost && text.finish === null) {
        const hasBegun = text.statistics.downlinkBits > 0;
        const why = hasBegun ? 'the server went away in the middle of a text' : 'the server does not answer';
        const isOwn = lost instanceof AnotherText || (!hasBegun && lost.code === 'connection-failed');
        onLost(isOwn ? lost : new OutriderError('connection-lost', why, { cause: given }));
      }
      // A text that has ended is whole, whatever comes after.
      text.finish ??= 'cancelled';
    } finally {
      this.#ends.delete(end);
      leave();
    }
    return text.summary();
  }

  /** Asks for a text, and again after each lost connection, as sessions do. @throws what the last attempt threw */
  async #write(
    text: ServerText,
    request: GenerateRequest,
    onRound: (round: Round) => void,
    signal: AbortSignal,
    onLine: (event: LineEvent) => void,
  ): Promise<void> {
    const { attempts, stallMs } = termsOf(this.#options);
    const { connectTimeoutMs = CONNECT_TIMEOUT_MS } = this.#options;
    const silent = new OutriderError('connection-lost', 'the server was silent for longer than stallTimeoutMs');
    const shortest = Math.max(stallMs, SHORTEST_STALL_MS);
    // Both count since the last token.
    let [losses, stalls] = [0, 0];
    const onAnswer = (): void => {
      if (losses > 0) onLine({ state: 'resumed', anew: false, claim: null });
    };
    const onChunk = (chunk: Chunk): void => {
      if (chunk.error) throw failure(200, chunk.error);
      const round = text.take(chunk);
      if (!round) return;
      [losses, stalls] = [0, 0];
      onRound(round);
    };
    for (;;) {
      const longest = Math.max(shortest, connectTimeoutMs);
      // A server may be busy before it answers: it gets more time with each attempt, and all with the last.
      const limit = Math.min(shortest * 2 ** stalls, longest);
      const limits = { answerMs: losses < attempts ? limit : longest, silenceMs: limit, late: silent };
      text.beginAnswer();
      try {
        return await this.#ask(text, request, signal, limits, onAnswer, onChunk);
      } catch (error) {
        const hasBegun = losses > 0 || text.statistics.tokens > 0;
        const mayPass = lossOf(error) !== null || (hasBegun && isPassing(error));
        const isFinal = error instanceof AnotherText || text.finish !== null || signal.aborted;
        if (isFinal || !mayPass || losses >= attempts) throw error;
        if (error === silent) stalls += 1;
      }
      const delayMs = pauseAfter(losses);
      losses += 1;
      onLine({ state: 'reconnecting', attempt: losses, delayMs });
      await unlessAborted(this.#network.pause(delayMs), signal);
    }
  }

  /** Asks for a text once, and reads the answer up to its end. @throws {@link OutriderError} */
  async #ask(
    { statistics }: ServerText,
    request: GenerateRequest,
    signal: AbortSignal,
    { answerMs, silenceMs, late }: { answerMs: number; silenceMs: number; late: OutriderError },
    onAnswer: () => void,
    onChunk: (chunk: Chunk) => void,
  ): Promise<void> {
    const { path, body } = asked(request, this.#options.model);
    const url = new URL(path, serverOf(this.#options));
    const uploadMs = body.length / SLOW_UPLINK;
    const waiting =
      (ms: number, soonMs = SOON_MS): Wait =>
      (arriving) =>
        this.#network.within(ms, soonMs, arriving, late);
    const { controller, signal: own, forget } = abortion({ signal });
    statistics.uplinkBits += body.length * 8;
    try {
      const send = serverFetch(this.#options, waiting(answerMs + uploadMs, SOON_MS + uploadMs));
      const response = await answered(url, send, post(send, url, body, own));
      onAnswer();
      const onBytes = (bytes: number): number => (statistics.downlinkBits += bytes * 8);
      for await (const data of events(response, waiting(silenceMs), onBytes)) onChunk(JSON.parse(data) as Chunk);
    } catch (error) {
      // The server would write on, or the request wait.
      controller.abort();
      throw error;
    } finally {
      forget();
    }
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

/** Yields the data of a response's server-sent events, up to `[DONE]`. Each of its chunks is awaited with `wait`. */
async function* events(response: Response, wait: Wait, onBytes: (bytes: number) => void): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const arrived: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => arrived.push(data) });
  const chunks = chunksOf(response, wait);
  for (;;) {
    // A loop over the chunks would close the connection after the last event, which the next text can use.
    const { value: chunk, done } = await chunks.next();
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

/** The error as that of a lost connection; null if it is another. */
function lossOf(error: unknown): OutriderError | null {
  if (!(error instanceof OutriderError)) {
    return new OutriderError('connection-lost', 'the connection was lost', { cause: error });
  }
  return error.code === 'connection-lost' || error.code === 'connection-failed' ? error : null;
}

/**
 * True for an answer in the middle of a text that may be another in a moment: the server has yet to notice that a
 * connection is gone, or a proxy answers for it, which lets no page read that.
 */
function isPassing(error: unknown): boolean {
  const { code, cause } = error as OutriderError;
  return (
    code === 'server-full' ||
    code === 'origin-refused' ||
    (cause instanceof ServersError && awayStatuses.includes(cause.status))
  );
}

/**
 * Waits for a response of any kind to what was sent with `request`.
 * @throws {@link OutriderError} `connection-failed` or `origin-refused`
 */
async function reached({ href, origin }: URL, request: typeof fetch, response: Promise<Response>): Promise<Response> {
  return response.catch(async (cause: unknown) => {
    if (cause instanceof OutriderError || (cause instanceof Error && cause.name === 'AbortError')) throw cause;
    if (await answersOthers(href, request)) throw originRefused(href, cause);
    throw new OutriderError('connection-failed', `the server at ${origin} cannot be reached`, { cause });
  });
}

/** Waits for a successful response. @throws {@link OutriderError} otherwise */
async function answered(url: URL, request: typeof fetch, response: Promise<Response>): Promise<Response> {
  const received = await reached(url, request, response);
  if (received.ok) return received;
  const { error } = ((await received.json().catch(() => ({}))) ?? {}) as { error?: ApiError };
  throw failure(received.status, error ?? { message: `${url.href} answered ${received.status}` });
}

function failure(status: number, { message, code = null, param = null }: ApiError): OutriderError {
  const codes: Record<number, OutriderErrorCode> = {
    400: 'invalid-parameters',
    401: 'unauthorized',
    429: 'server-full',
    503: 'server-full',
  };
  const named: Record<string, OutriderErrorCode> = {
    context_length_exceeded: 'prompt-too-long',
    origin_not_allowed: 'origin-refused',
  };
  const known = named[code ?? ''] ?? codes[status];
  return new OutriderError(known ?? 'server-error', message, { cause: new ServersError(status, message, code, param) });
}
