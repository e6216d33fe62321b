import type { EngineKind, EngineRequest } from './builds.js';
import { readInto } from './download.js';
import type { Sink } from './download.js';
import type {
  Claim,
  Continuation,
  Edge,
  EdgeLoader,
  Engine,
  GenerateRequest,
  GpuHandle,
  Link,
  SessionInfo,
  Summary,
} from './edge.js';
import type { RunningEngine } from './engine.js';
import { describe, OutriderError, revive } from './errors.js';
import type { OutriderErrorCode } from './errors.js';
import { emptySummary } from './generation.js';
import { GuessThrottle } from './guess-throttle.js';
import { AWAY_MS } from './kept-answers.js';
import type { Answer, FromWorker, Question, Sources, ToWorker } from './messages.js';
import { willBeAhead } from './policies.js';
import { within } from './within.js';

/** The services of the surrounding worker; tests bring their own. */
export interface Surroundings {
  post(message: FromWorker): void;
  exit(): void;
  /** True if the browser has WebGPU, with or without a GPU. */
  hasWebGpu: boolean;
  loadEngine(request: EngineRequest): Promise<Omit<RunningEngine, 'end'>>;
  download(url: string, headers: RequestHeaders): Promise<Uint8Array>;
  /** Fetches a file into `sink`, chunk by chunk. */
  downloadInto(
    url: string,
    sink: Sink,
    onProgress: (loaded: number, total: number | null) => void,
    headers: RequestHeaders,
  ): Promise<void>;
  /** Fetches a file; null if it does not exist. */
  downloadOptional(url: string, headers: RequestHeaders): Promise<Uint8Array | null>;
  /** Keeps the Welcome of the session at an address for a start without its server. */
  keepWelcome(url: string, welcome: Uint8Array): void;
  keptWelcome(url: string): Promise<Uint8Array | null>;
  /** Lets downloads give what an earlier visit has kept where the server cannot be reached. */
  allowOffline(): void;
}

/** Headers that downloads send. */
export type RequestHeaders = Readonly<Record<string, string>>;

/**
 * The worker's side: owns the engine and with it the model, the cache and the socket.
 *
 * `receive` never throws and never waits; answers go out through `post`. Order: one `load`, then any number of
 * `generate`, one at a time; `stop`, `link` and `close` at any time.
 */
export class EdgeHost {
  readonly #around: Surroundings;
  #edge: Edge | null = null;
  #sessionUrl = '';
  #wantsToken = false;
  /** Connections that wait for a token. */
  readonly #tokens = new Map<number, { resolve: (token: string) => void; reject: (reason: unknown) => void }>();
  #lastToken = 0;
  #connectTimeoutMs = 0;
  /** True if a session may begin without its server. */
  #mayBeOffline = false;
  /** True while the server has not answered since a start without it. */
  #isOffline = false;
  /** The session that the first connection resumes. */
  #claim: Claim | null = null;
  /** True while the connection is not known to be lost. */
  #connected = false;
  /** The time of its last use, in milliseconds since 1970: other clocks may rest while the machine sleeps. */
  #usedAt = 0;
  /** The time from the last request to its first tokens, in milliseconds, if its connection held. */
  #answeredAfterMs = 0;
  /** The attempt in progress, which the next generation takes over from a stopped one. */
  #connecting: Promise<SessionInfo> | null = null;
  /** The running generation, and a way to cancel it before it has entered the engine. */
  #running: { id: number; inEngine: boolean; cancel: () => void } | null = null;
  #link: Link | null = null;
  #started: RunningEngine['info'] | null = null;
  /** The engine that was last reported to the page. */
  #kind: EngineKind = 'wasm';
  /** Texts that came before the engine was there. */
  #early: ContextMessage[] = [];

  constructor(around: Surroundings) {
    this.#around = around;
  }

  receive(message: ToWorker): void {
    switch (message.type) {
      case 'load':
        this.#link = message.link;
        this.#connectTimeoutMs = message.connectTimeoutMs;
        this.#claim = message.claim;
        this.#mayBeOffline = message.offline;
        if (message.offline) this.#around.allowOffline();
        void this.#load(message.engine, message.sources);
        return;
      case 'generate':
        void this.#generate(message.id, message.request, message.continuation);
        return;
      case 'stop':
        if (this.#running?.id !== message.id) return;
        if (this.#running.inEngine) this.#edge?.stop();
        else this.#running.cancel();
        return;
      case 'ask':
        this.#answer(message.id, message.question);
        return;
      case 'link':
        this.#link = message.link;
        this.#edge?.set_link(message.link);
        return;
      case 'context':
        if (this.#edge) this.#applyContext(this.#edge, message);
        else this.#early.push(message);
        return;
      case 'token':
        this.#tokens.get(message.id)?.resolve(message.token);
        return;
      case 'no-token':
        this.#tokens.get(message.id)?.reject(revive(message.error));
        return;
      case 'network':
        this.#edge?.network_changed();
        return;
      case 'close':
        this.#edge?.close();
        this.#around.post({ type: 'closed' });
        this.#around.exit();
    }
  }

  async #load(request: EngineRequest, sources: Sources): Promise<void> {
    const { post } = this.#around;
    const { headers = {} } = sources;
    try {
      const loading = this.#around.loadEngine(request);
      const draft = new DraftSink(loading, request.engine, this.#around.hasWebGpu, sources.ignoreSettings ?? []);
      const [engine, tokenizer, heads, chat] = await Promise.all([
        loading,
        bytesOf(sources.tokenizer, this.#around, headers),
        sources.heads === null ? null : this.#around.downloadOptional(sources.heads, headers),
        this.#around.downloadOptional(sources.chat, headers),
        into(sources.draft, draft, this.#around, headers, (loadedBytes, totalBytes) => {
          post({ type: 'progress', progress: { stage: 'download', loadedBytes, totalBytes } });
        }),
      ]);
      post({ type: 'progress', progress: { stage: 'prepare' } });
      const edge = await draft.finish(tokenizer, heads, chat);
      if (this.#link) edge.set_link(this.#link);
      for (const message of this.#early.splice(0)) this.#applyContext(edge, message);
      this.#edge = edge;
      this.#sessionUrl = sources.session;
      this.#wantsToken = sources.wantsToken;
      post({ type: 'progress', progress: { stage: 'connect' } });
      const session = await this.#connect(edge, this.#mayBeOffline);
      this.#started = engine.info;
      const { engine: kind, declined, ...model } = edge.info();
      this.#kind = kind;
      const info = { ...engine.info, engine: kind, declined: declined ?? draft.declined };
      post({ type: 'loaded', engine: info, model, session, offline: this.#isOffline });
    } catch (error) {
      post({ type: 'load-failed', error: describe(error) });
    }
  }

  #applyContext(edge: Edge, { id, text }: ContextMessage): void {
    try {
      if (text === null) edge.remove_context(id);
      else edge.add_context(id, text);
    } catch (thrown) {
      const error = describe(thrown);
      // A text that the vocabulary cannot express gives no guesses.
      if (error.code === 'worker-crashed') this.#around.post({ type: 'crashed', error });
    }
  }

  #answer(id: number, question: Question): void {
    const { post } = this.#around;
    try {
      if (!this.#edge) throw new OutriderError('internal', 'asked before load');
      const answer: Answer =
        question.about === 'text'
          ? this.#edge.detokenize(Uint32Array.from(question.ids))
          : Array.from(this.#edge.tokenize(question.prompt, question.tools, question.chatTemplateKwargs));
      post({ type: 'answer', id, answer });
    } catch (thrown) {
      const error = describe(thrown);
      if (error.code === 'worker-crashed') post({ type: 'crashed', error });
      else post({ type: 'no-answer', id, error });
    }
  }

  async #generate(id: number, request: GenerateRequest, continuation: Continuation): Promise<void> {
    const { post } = this.#around;
    const edge = this.#edge;
    if (!edge) {
      post({ type: 'failed', id, error: { code: 'internal', message: 'generate before load' } });
      return;
    }
    let cancel = (): void => {};
    const cancelled = new Promise<'cancelled'>((resolve) => (cancel = () => resolve('cancelled')));
    const running = { id, inEngine: false, cancel };
    this.#running = running;

    let rounds = 0;
    const guesses = new GuessThrottle((guess) => post({ type: 'guess', id, guess }));
    const attempt = async (): Promise<Summary> => {
      running.inEngine = false;
      if (!this.#connected) {
        const session = await Promise.race([this.#connect(edge, this.#guessesOffline(request)), cancelled]);
        if (session === 'cancelled') return emptySummary;
        post({ type: 'reconnected', session, offline: this.#isOffline });
      }
      running.inEngine = true;
      let began: number | null = performance.now();
      return edge.generate(
        request,
        // Guesses wait for the server until the text is stopped.
        this.#guessesOffline(request) ? { ...continuation, attempts: MOST_ATTEMPTS } : continuation,
        (round) => {
          rounds += 1;
          if (began !== null) this.#answeredAfterMs = performance.now() - began;
          began = null;
          post({ type: 'round', id, round: guesses.round(round) });
        },
        (event) => {
          if (event.state === 'reconnecting') began = null;
          if (event.state === 'resumed') this.#isOffline = false;
          post({ type: 'line', id, event });
        },
        (guess) => guesses.guess(guess),
      );
    };

    try {
      // A network may have dropped it unseen, and the server has ended the session or soon will.
      if (this.#connected && Date.now() - this.#usedAt >= LONGEST_IDLE_MS) {
        edge.close();
        this.#connected = false;
      }
      const idleMs = Date.now() - this.#usedAt;
      // A slow server would be taken for a dead connection.
      if (this.#connected && idleMs >= IDLE_MS && this.#answeredAfterMs <= QUICK_MS) edge.network_changed();
      const wasConnected = this.#connected;
      const summary = await attempt().catch((error: unknown) => {
        // A connection that died while idle is noticed only now. Nothing was generated, so nothing can repeat.
        const died = wasConnected && !this.#isOffline && rounds === 0 && endings.includes(describe(error).code);
        if (!died) throw error;
        this.#connected = false;
        return attempt();
      });
      guesses.clear();
      this.#running = null;
      this.#usedAt = Date.now();
      this.#tellEngine(edge);
      post({ type: 'done', id, summary });
    } catch (thrown) {
      guesses.clear();
      this.#running = null;
      this.#usedAt = Date.now();
      const error = describe(thrown);
      if (error.code !== 'worker-crashed') this.#tellEngine(edge);
      if (!refusals.includes(error.code)) this.#connected = false;
      if (error.code === 'worker-crashed') post({ type: 'crashed', error });
      else post({ type: 'failed', id, error });
    }
  }

  /** Reports another engine to the page: a GPU may be lost while it drafts. */
  #tellEngine(edge: Edge): void {
    const { engine, declined } = edge.info();
    if (engine === this.#kind || !this.#started) return;
    this.#kind = engine;
    this.#around.post({ type: 'engine', engine: { ...this.#started, engine, declined } });
  }

  /** True if guesses at a text go on without a connection. */
  #guessesOffline(request: GenerateRequest): boolean {
    return this.#mayBeOffline && willBeAhead(request, { maxGuesses: 1 });
  }

  #connect(edge: Edge, mayBeOffline: boolean): Promise<SessionInfo> {
    this.#connecting ??= this.#connectOnce(edge, mayBeOffline).finally(() => (this.#connecting = null));
    return this.#connecting;
  }

  #askForToken(): Promise<string> {
    const id = ++this.#lastToken;
    const token = new Promise<string>((resolve, reject) => this.#tokens.set(id, { resolve, reject }));
    this.#around.post({ type: 'token-wanted', id });
    return token.finally(() => this.#tokens.delete(id));
  }

  async #connectOnce(edge: Edge, mayBeOffline: boolean): Promise<SessionInfo> {
    const token = this.#wantsToken ? () => this.#askForToken() : undefined;
    const [url, claim] = [this.#sessionUrl, this.#claim];
    const kept = mayBeOffline ? await this.#around.keptWelcome(url) : null;
    const longest = kept ? Math.min(this.#connectTimeoutMs, AWAY_MS) : this.#connectTimeoutMs;
    const late = new OutriderError('connection-failed', `the server did not answer within ${longest / 1000} s`);
    let session: SessionInfo;
    try {
      session = await within(longest, edge.connect(url, token, claim), late);
      this.#isOffline = false;
      const welcome = edge.welcome();
      if (this.#mayBeOffline && welcome) this.#around.keepWelcome(url, welcome);
    } catch (error) {
      if (!kept || describe(error).code !== 'connection-failed') throw error;
      session = edge.connect_later(url, token, claim, kept);
      this.#isOffline = true;
    }
    this.#connected = true;
    this.#usedAt = Date.now();
    this.#claim = null;
    return session;
  }
}

type ContextMessage = Extract<ToWorker, { type: 'context' }>;

async function bytesOf(source: string | Blob, around: Surroundings, headers: RequestHeaders): Promise<Uint8Array> {
  return typeof source === 'string' ? around.download(source, headers) : new Uint8Array(await source.arrayBuffer());
}

function into(
  source: string | Blob,
  sink: Sink,
  around: Surroundings,
  headers: RequestHeaders,
  onProgress: (loaded: number, total: number | null) => void,
): Promise<void> {
  return typeof source === 'string'
    ? around.downloadInto(source, sink, onProgress, headers)
    : readInto(source, sink, onProgress);
}

/** Smallest draft model, in bytes, for which `auto` tries a GPU. */
const SMALLEST_FOR_GPU = 32 << 20;

/** Pushes a draft model into the engine while it is being downloaded. */
class DraftSink implements Sink {
  readonly #engine: Promise<Engine>;
  readonly #wanted: EngineRequest['engine'];
  readonly #hasWebGpu: boolean;
  readonly #ignoreSettings: readonly string[];
  #loader: EdgeLoader | null = null;
  /** The reason why no GPU drafts, where one was asked for. */
  declined: string | null = null;

  constructor(
    engine: Promise<Engine>,
    wanted: EngineRequest['engine'],
    hasWebGpu: boolean,
    ignoreSettings: readonly string[],
  ) {
    this.#engine = engine;
    this.#wanted = wanted;
    this.#hasWebGpu = hasWebGpu;
    this.#ignoreSettings = ignoreSettings;
  }

  /** Begins a model, once the engine is there. */
  async begin(totalBytes: number | null): Promise<void> {
    const engine = await this.#engine;
    this.#loader?.free();
    const total = totalBytes ?? undefined;
    const gpu = this.#wantsGpu(totalBytes) ? await this.#open(engine) : null;
    this.#loader = gpu ? engine.EdgeLoader.on_gpu(total, gpu, this.#wanted === 'webgpu') : new engine.EdgeLoader(total);
    this.#loader.ignore_settings([...this.#ignoreSettings]);
  }

  /** Decides on a GPU: a small draft is loaded before a GPU has answered. */
  #wantsGpu(totalBytes: number | null): boolean {
    return this.#wanted === 'auto' ? (totalBytes ?? 0) >= SMALLEST_FOR_GPU : this.#wanted === 'webgpu';
  }

  async #open({ GpuHandle }: Engine): Promise<GpuHandle | null> {
    try {
      if (!this.#hasWebGpu) throw new OutriderError('gpu-failed', 'this browser has no WebGPU here');
      return await GpuHandle.open();
    } catch (error) {
      if (this.#wanted === 'webgpu') throw error;
      this.declined = describe(error).message;
      return null;
    }
  }

  push(chunk: Uint8Array): void {
    this.#loader?.push(chunk);
  }

  async finish(tokenizer: Uint8Array, heads: Uint8Array | null, chat: Uint8Array | null): Promise<Edge> {
    if (!this.#loader) throw new OutriderError('internal', 'the draft model has not been downloaded');
    return this.#loader.finish(tokenizer, heads ?? undefined, chat ?? undefined);
  }
}

/** Longest idle time of a connection, below the five minutes that `outrider serve` allows by default. */
const LONGEST_IDLE_MS = 240_000;

/**
 * Idle time of a connection, in milliseconds, after which its next answer is awaited for a second only: a browser cannot
 * ping a server.
 */
const IDLE_MS = 15_000;

/** Longest time of the last answer, in milliseconds, for which a second is enough for the next. */
const QUICK_MS = 500;

/** Attempts to reconnect, the most that the engine counts, for a text that waits for its server. */
const MOST_ATTEMPTS = 2 ** 32 - 1;

/** Errors after which the session continues; after any other the next generation opens a new one. */
const refusals: readonly OutriderErrorCode[] = ['prompt-too-long', 'invalid-parameters'];

/** Errors of a session that has ended: the link broke, or the server closed it. */
const endings: readonly OutriderErrorCode[] = ['connection-lost', 'not-connected', 'idle', 'shutting-down'];
