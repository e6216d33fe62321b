/// <reference lib="esnext.disposable" preserve="true" />
import type { EngineInfo, EngineRequest } from './builds.js';
import type {
  Claim,
  GenerateRequest,
  LineEvent,
  Link,
  ModelInfo,
  Prompt,
  SessionInfo,
  Tool,
} from './edge.js';
import { OutriderError, revive } from './errors.js';
import { startWorker } from './files.js';
import { emptySummary, Generation } from './generation.js';
import type { SuspendedGeneration } from './generation.js';
import { checkLoadOptions, engineRequestOf, sourcesOf } from './load-options.js';
import type { ConnectionEvent, LoadOptions } from './load-options.js';
import type { Answer, FromWorker, LoadProgress, Question, Sources, ToWorker } from './messages.js';
import { ChatCompletions, Completions } from './completions.js';
import { checkLink, openLink, rangesFor, resolveRequest } from './options.js';
import type { GenerateOptions } from './options.js';
import { Questions } from './questions.js';
import { ServerAlone } from './server-alone.js';
import { deleteFile, forgetFiles, listFiles } from './store.js';
import type { KeptModel } from './store.js';
import { policies } from './tables.js';
import type { NumberOption, Policies, Range } from './tables.js';
import { checkedIds, checkedPrompt, checkedState, checkedTools } from './validation.js';

// Browsers that have no `await using` may lack the symbol; then nobody asks for it.
const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

/** How long a stopped generation may take to end before its worker is given up. */
const STOP_GRACE_MS = 10_000;
/** How long a closed worker may take to say goodbye. */
const CLOSE_GRACE_MS = 1_000;

/** A generation that has not ended. */
interface Running {
  id: number;
  generation: Generation;
  /** Whether whoever writes it knows of it. */
  sent: boolean;
  stopped: boolean;
  /** Ends it where the server is alone. */
  abort: AbortController;
  /** Gives the worker up that does not end it. */
  graceTimer?: ReturnType<typeof setTimeout>;
}

/** Who writes texts: a draft model and the server, or the server alone. */
export type WritingMode = 'draft' | 'server';

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
 * Where the draft model cannot run, the server writes alone: {@link Outrider.mode}, `fallback` of {@link LoadOptions}.
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
  /** In place of a worker. */
  #alone: ServerAlone | null = null;
  /** The oldest first: those behind it wait for it. Invariant: all but the last have been stopped. */
  #running: Running[] = [];
  readonly #questions = new Questions();
  #lastId = 0;
  #onCacheFull: (reason: OutriderError) => void;
  #onEngine: (engine: EngineInfo) => void;
  #closed: Promise<void> | null = null;

  /** Conversations, in the shape of OpenAI's client: `outrider.chat.completions.create({ messages })`. */
  readonly chat: { readonly completions: ChatCompletions } = { completions: new ChatCompletions(this) };
  /** Texts to go on with, likewise: `outrider.completions.create({ prompt })`. */
  readonly completions: Completions = new Completions(this);

  private constructor(options: LoadOptions) {
    this.#sources = sourcesOf(options);
    this.#request = engineRequestOf(options);
    this.#workerUrl = options.workerUrl;
    this.#connectTimeoutMs = options.connectTimeoutMs ?? 20_000;
    this.#reconnectAttempts = options.reconnectAttempts ?? 8;
    this.#onConnection = options.onConnection ?? (() => {});
    this.#onCacheFull = options.onCacheFull ?? (() => {});
    this.#onEngine = options.onEngine ?? (() => {});
    this.#claim = options.resume ? checkedState(options.resume).claim : null;
    this.#link = { ...openLink, ...options.link };
    checkLink(this.#link);
  }

  /**
   * Starts a worker, fetches the draft model and its tokenizer, and opens a session with the server.
   * @throws {@link OutriderError}, or the reason of `signal`
   */
  static async load(options: LoadOptions = {}): Promise<Outrider> {
    checkLoadOptions(options);
    options.signal?.throwIfAborted();
    const outrider = new Outrider(options);
    outrider.#onProgress = options.onProgress ?? outrider.#onProgress;
    const abort = (): void => outrider.#discardWorker(options.signal?.reason);
    options.signal?.addEventListener('abort', abort, { once: true });
    try {
      // Nobody waits for what the user may be asked.
      if (options.persist) void navigator.storage?.persist?.().catch(() => {});
      await outrider.#startWorker();
      return outrider;
    } catch (error) {
      await outrider.#fallBack(error, options);
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

  /** The draft models that this origin keeps, those of earlier visits too. */
  static listModels(): Promise<KeptModel[]> {
    return listFiles();
  }

  /** Forgets what is kept of the draft model at an address. Resolves to whether there was any. */
  static deleteModel(url: string | URL): Promise<boolean> {
    return deleteFile(new URL(url, location.href).href);
  }

  /** Who writes: a draft model in this browser and the server, or the server alone where no draft model can run. */
  get mode(): WritingMode {
    return this.#alone ? 'server' : 'draft';
  }

  /** The build of the engine that runs, and its threads; `none` where the server is alone. */
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
   * server's model has its own form. One generation at a time, where one that has been stopped counts no more; what an
   * earlier one has read is not read again.
   * @throws {@link OutriderError} at once: `invalid-option`, `busy`, `closed`. Anything later reaches whoever
   * iterates the generation or awaits its summary.
   */
  generate(prompt: Prompt, options: GenerateOptions = {}): Generation {
    this.#admit();
    const request = resolveRequest(prompt, options, this.ranges, this.#model.heads);
    return this.#begin(request, [], options.signal);
  }

  /**
   * Goes on with a generation that a page before this one has left. Its first round is what there was, without statistics:
   * those count from here on. The text is distributed the same, and at temperature 0 the same, as if nothing had happened.
   * @throws as {@link Outrider.generate}
   */
  resume(state: SuspendedGeneration, signal?: AbortSignal): Generation {
    this.#admit();
    const { request, tokens } = checkedState(state);
    if (this.#alone) throw new OutriderError('no-draft', 'without a draft model no generation is resumed');
    const generation = this.#begin(
      request,
      tokens.map(({ id }) => id),
      signal,
    );
    generation.add({ tokens, statistics: emptySummary, round: null });
    return generation;
  }

  /**
   * The ids of a prompt, as {@link Outrider.generate} reads it: what begins a text, and the form of a conversation, are
   * among them. `summary.promptTokenIds` will be these.
   */
  async tokenize(prompt: Prompt, { tools = [] }: { tools?: readonly Tool[] } = {}): Promise<number[]> {
    const checked = checkedPrompt(prompt);
    const answer = await this.#ask({ about: 'ids', prompt: checked, tools: checkedTools(tools, checked) });
    return answer as number[];
  }

  /** The text of ids. Special tokens give none; bytes that are no text become U+FFFD. */
  async detokenize(ids: readonly number[]): Promise<string> {
    return (await this.#ask({ about: 'text', ids: checkedIds(ids) })) as string;
  }

  /** How many tokens a prompt has: {@link Outrider.tokenize}. */
  async countTokens(prompt: Prompt, options: { tools?: readonly Tool[] } = {}): Promise<number> {
    return (await this.tokenize(prompt, options)).length;
  }

  /** Refuses another generation where there cannot be one. */
  #admit(): void {
    if (this.#closed) throw new OutriderError('closed', 'this instance was closed');
    if (this.#running.some(({ stopped }) => !stopped)) {
      throw new OutriderError('busy', 'a generation is already running: stop() it, or await its summary');
    }
  }

  #begin(request: GenerateRequest, committed: number[], signal: AbortSignal | undefined): Generation {
    const id = ++this.#lastId;
    const generation = new Generation(request, () => this.#stop(id));
    const earlier = this.#running.map((running) => running.generation.summary);
    const abort = new AbortController();
    const running: Running = { id, generation, sent: false, stopped: false, abort };
    this.#running.push(running);
    if (signal) {
      const stop = (): void => generation.stop();
      signal.addEventListener('abort', stop, { once: true });
      const forget = (): void => signal.removeEventListener('abort', stop);
      generation.summary.then(forget, forget);
      if (signal.aborted) generation.stop();
    }
    void this.#run(running, earlier, request, committed);
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

  /**
   * Ends the session and frees the model. A running generation rejects with `closed`. Resolves once the server has been
   * told, or the worker has been given up because it was busy; nobody has to wait.
   */
  close(): Promise<void> {
    this.#closed ??= this.#sayGoodbye();
    return this.#closed;
  }

  /** {@link Outrider.close}, for `await using`. */
  [asyncDispose](): Promise<void> {
    return this.close();
  }

  #sayGoodbye(): Promise<void> {
    const worker = this.#worker;
    const gone = new Promise<void>((resolve) => {
      if (!worker) return resolve();
      const end = (): void => {
        clearTimeout(timer);
        worker.terminate();
        resolve();
      };
      const timer = setTimeout(end, CLOSE_GRACE_MS);
      worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
        if (data.type === 'closed') end();
      });
      worker.addEventListener('error', end);
    });
    this.#post({ type: 'close' });
    // The worker ends itself once it has said goodbye to the server; should it be busy, it is not waited for.
    this.#worker = null;
    this.#discardWorker(new OutriderError('closed', 'this instance was closed'), true);
    return gone;
  }

  async #run(
    running: Running,
    earlier: readonly Promise<unknown>[],
    request: GenerateRequest,
    committed: number[],
  ): Promise<void> {
    const { id, generation, abort } = running;
    try {
      if (earlier.length > 0) await Promise.allSettled(earlier);
      // It may have been stopped, or all may have been closed meanwhile.
      if (generation.ended) return;
      if (this.#alone) {
        running.sent = true;
        const summary = await this.#alone.generate(request, (round) => generation.add(round), abort.signal);
        return this.#end(id, () => generation.finish(summary));
      }
      await (this.#ready ?? this.#startWorker());
    } catch (error) {
      this.#end(id, () => generation.fail(error as Error));
      return;
    }
    if (generation.ended) return;
    running.sent = true;
    const continuation = { attempts: this.#reconnectAttempts, committed };
    this.#post({ type: 'generate', id, request, continuation });
  }

  #stop(id: number): void {
    const running = this.#find(id);
    if (!running || running.stopped) return;
    running.stopped = true;
    if (!running.sent) {
      // The worker does not know of it. If it is still loading it goes on, for the next generation.
      this.#end(id, (generation) => generation.finish(emptySummary));
      return;
    }
    running.abort.abort();
    if (this.#alone) return;
    this.#post({ type: 'stop', id });
    running.graceTimer = setTimeout(() => {
      this.#discardWorker(new OutriderError('worker-unresponsive', 'the worker did not stop when told to'));
    }, STOP_GRACE_MS);
  }

  #ask(question: Question): Promise<Answer> {
    if (this.#closed) throw new OutriderError('closed', 'this instance was closed');
    if (this.#alone) {
      throw new OutriderError('no-draft', 'the tokenizer is beside the draft model, which does not run here');
    }
    return (this.#ready ?? this.#startWorker()).then(() =>
      this.#questions.ask(question, (message) => this.#post(message)),
    );
  }

  /** Lets the server write alone, if that is what `error` calls for. @throws `error` otherwise */
  async #fallBack(error: unknown, options: LoadOptions): Promise<void> {
    this.#alone = await ServerAlone.insteadOf(error, options);
    this.#engine = { engine: 'none', declined: null, build: 'none', threads: 0, failed: [] };
    this.#model = this.#alone.model;
    this.#session = this.#alone.session;
    const tell =
      options.onFallback ?? ((reason) => console.warn(`The server writes alone: ${reason.message}`));
    tell(error as OutriderError);
  }

  #startWorker(): Promise<void> {
    let worker: Worker;
    try {
      worker = startWorker(this.#workerUrl);
    } catch (cause) {
      // Of another origin, or not allowed by the page.
      const error = new OutriderError('worker-crashed', 'the worker could not be started', { cause });
      return Promise.reject(error);
    }
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
      case 'engine':
        this.#engine = message.engine;
        this.#onEngine(message.engine);
        return;
      case 'reconnected':
        this.#session = message.session;
        return;
      case 'cache-full':
        this.#onCacheFull(revive(message.error));
        return;
      case 'round':
        this.#find(message.id)?.generation.add(message.round);
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
      case 'answer':
        this.#questions.settle(message.id, message.answer);
        return;
      case 'no-answer':
        this.#questions.settle(message.id, revive(message.error));
        return;
      case 'closed':
        return;
      case 'load-failed':
      case 'crashed':
        this.#discardWorker(revive(message.error));
    }
  }

  #follow(id: number, event: LineEvent): void {
    if (event.state !== 'reconnecting') this.#find(id)?.generation.hold(event.claim);
    if (event.state !== 'begun') this.#onConnection(event);
  }

  #find(id: number): Running | undefined {
    return this.#running.find((running) => running.id === id);
  }

  #end(id: number, settle: (generation: Generation) => void): void {
    const running = this.#find(id);
    if (!running) return;
    clearTimeout(running.graceTimer);
    // First, so that whoever is woken by the settling can generate again.
    this.#running = this.#running.filter((other) => other !== running);
    settle(running.generation);
  }

  /** Gives the worker up; whatever waits for it fails with `reason`. What is queued starts another, unless it is the end. */
  #discardWorker(reason: unknown, isEnd = false): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#ready = null;
    this.#loading?.reject(reason);
    this.#loading = null;
    this.#questions.fail(reason);
    for (const { id, abort } of isEnd ? this.#running : this.#running.slice(0, 1)) {
      this.#end(id, (generation) => generation.fail(reason as Error));
      abort.abort();
    }
  }

  #post(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }
}
