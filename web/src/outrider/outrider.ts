import { builds } from './builds.js';
import type { Build, EngineInfo, EngineRequest } from './builds.js';
import type { Claim, GenerateRequest, LineEvent, Link, ModelInfo, Prompt, SessionInfo } from './edge.js';
import { OutriderError } from './errors.js';
import type { PlainError } from './errors.js';
import { engineAddresses, startWorker } from './files.js';
import { emptySummary, Generation } from './generation.js';
import type { SuspendedGeneration } from './generation.js';
import type { FromWorker, LoadProgress, Sources, ToWorker } from './messages.js';
import { checkLink, openLink, rangesFor, resolveRequest } from './options.js';
import type { GenerateOptions } from './options.js';
import { forgetFiles } from './store.js';
import { policies } from './tables.js';
import type { NumberOption, Policies, Range } from './tables.js';

/** Where to load from and connect to, and how to follow it. */
export interface LoadOptions {
  /** Base address of the server; the page's own origin if not given. */
  server?: string | URL;
  /**
   * The draft model, a GGUF file or safetensors that have their `config.json` within: its address, or a file that the
   * user has picked; `pair/draft` below `server` if not given.
   */
  draft?: string | URL | Blob;
  /** Its `tokenizer.json`, likewise; `pair/tokenizer.json` below `server` if not given. */
  tokenizer?: string | URL | Blob;
  /**
   * Address of the heads that were trained for the draft model; if not given, `pair/heads.safetensors` below `server` for
   * the server's own draft, and none for another. Where the server answers 404 there are none.
   */
  heads?: string | URL;
  /**
   * Address of what makes prompts of conversations, `{ template, tool_use, bos_token, eos_token }` as JSON with Jinja templates;
   * `chat.json` beside the tokenizer if not given. Where the server answers 404 a plain form is taken.
   */
  chat?: string | URL;
  /** A bearer token, if the server wants one for its sessions. Whoever sees the page can see it. */
  token?: string;
  /**
   * The build of the engine: `auto` (default) takes the fastest that starts here. Naming one runs that or fails with
   * `wasm-failed`. Those with threads need a page that is served with `Cross-Origin-Opener-Policy: same-origin` and
   * `Cross-Origin-Embedder-Policy: require-corp`; elsewhere `auto` takes one without.
   */
  build?: Build | 'auto';
  /**
   * How many threads draft, at most one per processor; if not given as many as there are processors, at most four.
   * With 1, `auto` takes a build without threads.
   */
  threads?: number;
  /**
   * Address of a folder with the package's .wasm files, if they are not where its bundler has put them. Another origin
   * has to allow the page's (CORS).
   */
  wasmUrl?: string | URL;
  /**
   * Address of the package's `worker.js`, on the page's own origin. If not given the worker starts from a `blob:`
   * address, which a Content-Security-Policy may forbid (`worker-src`).
   */
  workerUrl?: string | URL;
  /** The link to begin with; see {@link Outrider.setLink}. */
  link?: Partial<Link>;
  /** Called while the draft is fetched and prepared. */
  onProgress?: (progress: LoadProgress) => void;
  /** Gives loading up; `load()` then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** How long to wait for the server's handshake, in milliseconds; 20 000 if not given. */
  connectTimeoutMs?: number;
  /** A generation of a page before this one, to {@link Outrider.resume}: its session is gone on with. */
  resume?: SuspendedGeneration;
  /**
   * How often to try to connect again, without success, when a generation has lost its connection; 8 if not given, which
   * takes about ten seconds. 0 gives up at once.
   */
  reconnectAttempts?: number;
  /** Called when a generation has lost its connection, and when it goes on. */
  onConnection?: (event: ConnectionEvent) => void;
}

/** What happens to the connection of a generation. */
export type ConnectionEvent = Exclude<LineEvent, { state: 'begun' }>;

/** How long a stopped generation may take to end before its worker is given up. */
const STOP_GRACE_MS = 10_000;
/** How long a closed worker may take to say goodbye. */
const CLOSE_GRACE_MS = 1_000;

/**
 * A draft model in a worker and a session with a server that verifies what it drafts.
 *
 * ```ts
 * const outrider = await Outrider.load({ onProgress: console.log });
 * const generation = outrider.generate('Once upon a time', { temperature: 0.7 });
 * for await (const token of generation) page.append(token.text);
 * const { tokensPerSecond, serverPassesPerToken } = await generation.summary;
 * ```
 *
 * Errors are {@link OutriderError}s. After a lost connection the next `generate()` connects anew; after a
 * crashed worker it also loads the draft anew (from the browser's HTTP cache, if the server allows).
 */
export class Outrider {
  readonly #sources: Sources;
  readonly #request: EngineRequest;
  readonly #workerUrl: string | URL | undefined;
  readonly #connectTimeoutMs: number;
  readonly #reconnectAttempts: number;
  readonly #onConnection: (event: ConnectionEvent) => void;
  /** For the first worker. */
  #claim: Claim | null;
  #link: Link;
  #worker: Worker | null = null;
  /** Resolves once `#worker` has loaded; null exactly when there is no worker. */
  #ready: Promise<void> | null = null;
  #loading: { resolve: () => void; reject: (reason: unknown) => void } | null = null;
  #onProgress: (progress: LoadProgress) => void = () => {};
  #engine!: EngineInfo;
  #model!: ModelInfo;
  #session!: SessionInfo;
  #running: { id: number; generation: Generation; sent: boolean; stopped: boolean } | null = null;
  #graceTimer: ReturnType<typeof setTimeout> | undefined;
  #lastId = 0;
  #closed = false;

  private constructor(options: LoadOptions) {
    this.#sources = sourcesOf(options);
    this.#request = engineRequestOf(options);
    this.#workerUrl = options.workerUrl;
    this.#connectTimeoutMs = options.connectTimeoutMs ?? 20_000;
    this.#reconnectAttempts = options.reconnectAttempts ?? 8;
    this.#onConnection = options.onConnection ?? (() => {});
    this.#claim = options.resume?.claim ?? null;
    this.#link = { ...openLink, ...options.link };
    checkLink(this.#link);
  }

  /** Starts a worker, fetches the draft model and its tokenizer, and opens a session with the server. */
  static async load(options: LoadOptions = {}): Promise<Outrider> {
    options.signal?.throwIfAborted();
    const outrider = new Outrider(options);
    outrider.#onProgress = options.onProgress ?? outrider.#onProgress;
    const abort = (): void => outrider.#discardWorker(options.signal?.reason);
    options.signal?.addEventListener('abort', abort, { once: true });
    try {
      await outrider.#startWorker();
      return outrider;
    } finally {
      options.signal?.removeEventListener('abort', abort);
      outrider.#onProgress = () => {};
    }
  }

  /** Forgets the draft models that earlier visits have kept in the origin's private file system. */
  static async forgetModels(): Promise<void> {
    await forgetFiles();
  }

  /** The build of the engine that runs, and its threads. */
  get engine(): EngineInfo {
    return this.#engine;
  }

  /** The draft model. */
  get model(): ModelInfo {
    return this.#model;
  }

  /** What the server granted in its last handshake. */
  get session(): SessionInfo {
    return this.#session;
  }

  /** The acceptance rules, gates and stop rules that `generate()` can be asked for, in words and with their ranges. */
  get policies(): Policies {
    return policies;
  }

  /** What the options of `generate()` may be with this draft and this server. */
  get ranges(): Readonly<Record<NumberOption, Range>> {
    return rangesFor(this.#model, this.#session);
  }

  /**
   * Starts to generate: the continuation of a text, or the assistant's next message in a conversation, of which the
   * server's model has its own form. One generation at a time; what an earlier one has read is not read again.
   * @throws {@link OutriderError} at once: `invalid-option`, `busy`, `closed`. Anything later reaches whoever
   * iterates the generation or awaits its summary.
   */
  generate(prompt: Prompt, options: GenerateOptions = {}): Generation {
    if (this.#closed) throw new OutriderError('closed', 'this instance was closed');
    if (this.#running) throw new OutriderError('busy', 'a generation is already running');
    const request = resolveRequest(prompt, options, this.ranges, this.#model.heads);
    return this.#begin(request, [], options.signal);
  }

  /**
   * Goes on with a generation that a page before this one has left. Its first round is what there was, without statistics:
   * those count from here on. The text is distributed the same, and at temperature 0 the same, as if nothing had happened.
   * @throws as {@link Outrider.generate}
   */
  resume(state: SuspendedGeneration, signal?: AbortSignal): Generation {
    if (this.#closed) throw new OutriderError('closed', 'this instance was closed');
    if (this.#running) throw new OutriderError('busy', 'a generation is already running');
    const committed = state.tokens.map(({ id }) => id);
    const generation = this.#begin(state.request, committed, signal);
    generation.add({ tokens: state.tokens, statistics: emptySummary, round: null });
    return generation;
  }

  #begin(request: GenerateRequest, committed: number[], signal: AbortSignal | undefined): Generation {
    const id = ++this.#lastId;
    const generation = new Generation(request, () => this.#stop(id));
    this.#running = { id, generation, sent: false, stopped: false };
    if (signal) {
      const stop = (): void => generation.stop();
      signal.addEventListener('abort', stop, { once: true });
      const forget = (): void => signal.removeEventListener('abort', stop);
      generation.summary.then(forget, forget);
      if (signal.aborted) generation.stop();
    }
    void this.#run(id, request, committed);
    return generation;
  }

  /**
   * Makes the link slower than it is, for both directions and from now on, also while a generation runs. What
   * is left out keeps its value; {@link openLink} takes every limit away.
   */
  setLink(link: Partial<Link>): void {
    const changed = { ...this.#link, ...link };
    checkLink(changed);
    this.#link = changed;
    this.#post({ type: 'link', link: changed });
  }

  /** Ends the session and frees the model. A running generation rejects with `closed`. */
  close(): void {
    this.#closed = true;
    this.#post({ type: 'close' });
    // The worker ends itself once it has said goodbye to the server; should it be busy, it is not waited for.
    const worker = this.#worker;
    this.#worker = null;
    setTimeout(() => worker?.terminate(), CLOSE_GRACE_MS);
    this.#discardWorker(new OutriderError('closed', 'this instance was closed'));
  }

  async #run(id: number, request: GenerateRequest, committed: number[]): Promise<void> {
    try {
      await (this.#ready ?? this.#startWorker());
    } catch (error) {
      this.#end(id, (generation) => generation.fail(error as Error));
      return;
    }
    // It may have been stopped meanwhile.
    if (this.#running?.id !== id) return;
    this.#running.sent = true;
    const continuation = { attempts: this.#reconnectAttempts, committed };
    this.#post({ type: 'generate', id, request, continuation });
  }

  #stop(id: number): void {
    const running = this.#running;
    if (running?.id !== id || running.stopped) return;
    running.stopped = true;
    if (!running.sent) {
      // The worker does not know of it. If it is still loading it goes on, for the next generation.
      this.#end(id, (generation) => generation.finish(emptySummary));
      return;
    }
    this.#post({ type: 'stop', id });
    this.#graceTimer = setTimeout(() => {
      this.#discardWorker(new OutriderError('worker-unresponsive', 'the worker did not stop when told to'));
    }, STOP_GRACE_MS);
  }

  #startWorker(): Promise<void> {
    const worker = startWorker(this.#workerUrl);
    worker.addEventListener('message', (event: MessageEvent<FromWorker>) => {
      // A message may still be under way when its worker has been replaced.
      if (worker === this.#worker) this.#receive(event.data);
    });
    worker.addEventListener('error', (event) => {
      if (worker !== this.#worker) return;
      const message =
        event.message ||
        'the worker could not be started (a Content-Security-Policy needs worker-src blob:, or else workerUrl)';
      this.#discardWorker(new OutriderError('worker-crashed', message));
    });
    this.#worker = worker;
    this.#ready = new Promise((resolve, reject) => (this.#loading = { resolve, reject }));
    this.#post({
      type: 'load',
      engine: this.#request,
      sources: this.#sources,
      link: this.#link,
      connectTimeoutMs: this.#connectTimeoutMs,
      claim: this.#claim,
    });
    this.#claim = null;
    return this.#ready;
  }

  #receive(message: FromWorker): void {
    switch (message.type) {
      case 'progress':
        this.#onProgress(message.progress);
        return;
      case 'loaded':
        this.#engine = message.engine;
        this.#model = message.model;
        this.#session = message.session;
        this.#loading?.resolve();
        this.#loading = null;
        return;
      case 'reconnected':
        this.#session = message.session;
        return;
      case 'round':
        if (this.#running?.id === message.id) this.#running.generation.add(message.round);
        return;
      case 'line':
        this.#follow(message.id, message.event);
        return;
      case 'done':
        this.#end(message.id, (generation) => generation.finish(message.summary));
        return;
      case 'failed':
        this.#end(message.id, (generation) => generation.fail(revive(message.error)));
        return;
      case 'load-failed':
      case 'crashed':
        this.#discardWorker(revive(message.error));
    }
  }

  #follow(id: number, event: LineEvent): void {
    if (event.state !== 'reconnecting' && this.#running?.id === id) {
      this.#running.generation.hold(event.claim);
    }
    if (event.state !== 'begun') this.#onConnection(event);
  }

  #end(id: number, settle: (generation: Generation) => void): void {
    if (this.#running?.id !== id) return;
    clearTimeout(this.#graceTimer);
    const { generation } = this.#running;
    // First, so that whoever is woken by the settling can generate again.
    this.#running = null;
    settle(generation);
  }

  /** Gives the worker up; whatever waits for it fails with `reason`. */
  #discardWorker(reason: unknown): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#ready = null;
    this.#loading?.reject(reason);
    this.#loading = null;
    if (this.#running) this.#end(this.#running.id, (generation) => generation.fail(reason as Error));
  }

  #post(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }
}

function revive(error: PlainError): OutriderError {
  return new OutriderError(error.code, error.message);
}

function engineRequestOf(options: LoadOptions): EngineRequest {
  const { build = 'auto' } = options;
  const threads = options.threads ?? null;
  if (build !== 'auto' && !builds.includes(build)) {
    throw new OutriderError(
      'invalid-option',
      `build is auto or one of ${builds.join(', ')}, not ${String(build)}`,
    );
  }
  if (threads !== null && !(Number.isInteger(threads) && threads >= 1)) {
    throw new OutriderError('invalid-option', `threads is a whole number from 1 on, not ${threads}`);
  }
  return { build, threads, addresses: engineAddresses(options.wasmUrl) };
}

function sourcesOf(options: LoadOptions): Sources {
  const server = new URL(options.server ?? location.origin, location.href);
  if (!server.pathname.endsWith('/')) server.pathname += '/';
  const session = new URL('session', server);
  session.protocol = session.protocol.replace('http', 'ws');
  const { token } = options;
  if (token !== undefined && !/^[\w-]+$/.test(token)) {
    throw new OutriderError('invalid-option', 'token has letters, digits, - and _ only');
  }
  // A relative address is below the server, or beside the page if the page gave it.
  const source = (given: string | URL | Blob | undefined, otherwise: string): string | Blob =>
    given instanceof Blob ? given : new URL(given ?? otherwise, given ? location.href : server).href;
  const draft = source(options.draft, 'pair/draft');
  const tokenizer = source(options.tokenizer, 'pair/tokenizer.json');
  const heads = options.heads
    ? new URL(options.heads, location.href)
    : options.draft === undefined && new URL('pair/heads.safetensors', server);
  const chat = options.chat
    ? new URL(options.chat, location.href)
    : typeof tokenizer === 'string'
      ? new URL('chat.json', tokenizer)
      : new URL('pair/chat.json', server);
  return {
    draft,
    tokenizer,
    heads: heads ? heads.href : null,
    chat: chat.href,
    session: session.href,
    ...(token !== undefined && { token }),
  };
}
