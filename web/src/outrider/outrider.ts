/// <reference lib="esnext.disposable" preserve="true" />
import type { EngineInfo } from './builds.js';
import type { Claim, GenerateRequest, LineEvent, Link, ModelInfo, Prompt, SessionInfo } from './edge.js';
import { OutriderError, revive } from './errors.js';
import { fetchFrom } from './fetch.js';
import { emptySummary } from './generation.js';
import type { Generation, SuspendedGeneration } from './generation.js';
import { addressOf, callbacksOf, checkLoadOptions, loadMessageOf, termsOf } from './load-options.js';
import type { Callbacks, LoadOptions, Terms } from './load-options.js';
import type { Answer, FromWorker, Question, ToWorker } from './messages.js';
import { ChatCompletions, Completions } from './completions.js';
import { LocalContext } from './context.js';
import { ended, openWorker } from './line.js';
import { watchNetwork } from './network.js';
import { changedLink, openLink, rangesFor, resolveRequest } from './options.js';
import type { ConversationOptions, GenerateOptions } from './options.js';
import { idsQuestion, Questions } from './questions.js';
import { callSafely, cutError, goesOn, isOpen, isServersText, join, RunningGenerations } from './running.js';
import { stopWith, writeAlone } from './running.js';
import { Joining, tellFallback } from './joining.js';
import type { Running } from './running.js';
import type { SamplingDefaults } from './sampling.js';
import { askerOf, samplingOf, ServerAlone } from './server-alone.js';
import { deleteFile, forgetFiles, listFiles } from './store.js';
import type { KeptModel } from './store.js';
import { policies } from './tables.js';
import type { NumberOption, Policies, Range } from './tables.js';
import { tokenMessage } from './token.js';
import type { TokenSource } from './token.js';
import { checkedIds, checkedState } from './validation.js';

const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

/** Most time that a stopped generation may take to end before its worker is terminated. */
const STOP_GRACE_MS = 10_000;

/** The writers of a text: a draft model and the server, or the server alone. */
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
 * Errors are {@link OutriderError}s. After a lost connection the next `generate()` reconnects; after a
 * crash of the worker it also loads the draft again, from the browser's cache if the server allows.
 */
export class Outrider {
  readonly #start: ReturnType<typeof loadMessageOf>;
  readonly #workerUrl: string | URL | undefined;
  readonly #terms: Terms;
  readonly #token: TokenSource | undefined;
  /** @internal Sampling parameters of requests that give none. */
  readonly sampling: SamplingDefaults;
  readonly #on: Callbacks;
  /** The session that the first worker resumes. */
  #claim: Claim | null;
  #link: Link;
  #worker: Worker | null = null;
  /** Resolves once `#worker` has loaded; null if and only if there is no worker. */
  #ready: Promise<void> | null = null;
  #loading: { resolve: () => void; reject: (reason: unknown) => void } | null = null;
  #engine!: EngineInfo;
  #model!: ModelInfo;
  #session!: SessionInfo;
  #offline = false;
  /** True if the chat template has reasoning. */
  #reasons = false;
  /** The server alone, instead of a worker or until one has loaded. */
  #alone: ServerAlone | null = null;
  /** The draft model on its way; null where nothing waited for it. */
  #joining: Joining | null = null;
  /** Why the draft model cannot join, where the server is not to write alone. */
  #refusal: unknown = null;
  readonly #running = new RunningGenerations();
  readonly #questions = new Questions();
  #unwatch: () => void = () => {};
  #closed: Promise<void> | null = null;

  /** Conversations in the shape of OpenAI's client: `outrider.chat.completions.create({ messages })`. */
  readonly chat: { readonly completions: ChatCompletions } = {
    completions: new ChatCompletions(this, (...prompt) => this.#tail(...prompt)),
  };
  /** Texts to continue, likewise: `outrider.completions.create({ prompt })`. */
  readonly completions: Completions = new Completions(this);
  /** Texts of the page that guesses are taken from: `outrider.context.add('file.ts', text)`. */
  readonly context: LocalContext = new LocalContext((message) => this.#post(message));
  /**
   * OpenAI's HTTP API as a `fetch` function for clients that take one. This page drafts the answers of
   * `/v1/chat/completions`, `/v1/responses`, `/v1/completions` and `/v1/models`; the server does what a session cannot.
   *
   * ```ts
   * const baseURL = 'https://outrider.invalid/v1';
   * new OpenAI({ apiKey: 'unused', dangerouslyAllowBrowser: true, baseURL, fetch: outrider.fetch });
   * ```
   */
  readonly fetch: typeof globalThis.fetch;

  private constructor(options: LoadOptions) {
    this.#start = loadMessageOf(options);
    this.#workerUrl = options.workerUrl;
    this.#terms = termsOf(options);
    this.#token = options.token;
    this.fetch = fetchFrom(this, askerOf(options));
    this.#on = callbacksOf(options);
    this.sampling = samplingOf(options);
    this.#claim = options.resume ? checkedState(options.resume).claim : null;
    this.#link = changedLink(openLink, options.link ?? {});
  }

  /**
   * Connects to the server, which can write from then on, and starts a worker that fetches the draft model and its
   * tokenizer and opens a session: {@link LoadOptions.wait}.
   * @throws {@link OutriderError}, or the reason of `signal`
   */
  static async load(options: LoadOptions = {}): Promise<Outrider> {
    checkLoadOptions(options);
    options.signal?.throwIfAborted();
    const outrider = new Outrider(options);
    const abort = (): void => outrider.#discardWorker(options.signal?.reason);
    options.signal?.addEventListener('abort', abort, { once: true });
    const { wait = options.fallback === 'none' ? 'draft' : 'server' } = options;
    const waits = wait === 'draft' || Boolean(options.resume ?? options.chat);
    try {
      // Loading does not wait for a question to the user.
      if (options.persist) void navigator.storage?.persist?.().catch(() => {});
      if (!waits && (await outrider.#writeAtOnce(options))) return outrider;
      await outrider.#startWorker();
      outrider.#watch();
      callSafely(() => outrider.#on.engine(outrider.#engine));
      return outrider;
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!waits) throw error;
      await outrider.#fallBack(error, options);
      return outrider;
    } finally {
      options.signal?.removeEventListener('abort', abort);
      if (waits) outrider.#on.progress = () => {};
    }
  }

  /** Deletes all draft models that are kept in the origin's private file system. */
  static readonly forgetModels = (): Promise<void> => forgetFiles();

  /** Lists the draft models that this origin keeps, those of earlier visits included. */
  static readonly listModels = (): Promise<KeptModel[]> => listFiles();

  /** Deletes the kept copy of the draft model at an address. Resolves to true if there was one. */
  static readonly deleteModel = async (url: string | URL): Promise<boolean> =>
    deleteFile(addressOf(url, location.href, 'the model').href);

  /** Resolves to {@link Outrider.mode} once the draft model has joined, or cannot. */
  get ready(): Promise<WritingMode> {
    return (this.#joining?.settled ?? Promise.resolve()).then(() => this.mode);
  }

  /** The writers of texts: a draft model and the server, or the server alone until one has joined or where none can. */
  get mode(): WritingMode {
    return this.#alone ? 'server' : 'draft';
  }

  /** The running engine with its build and threads; `none` without a draft model. */
  get engine(): EngineInfo {
    return this.#engine;
  }

  /** Properties of the draft model. */
  get model(): ModelInfo {
    return this.#model;
  }

  /** True from a start without the server until it answers a text: `offline` of `load()`. */
  get offline(): boolean {
    return this.#offline;
  }

  /** Limits that the server granted in its last handshake. */
  get session(): SessionInfo {
    return this.#session;
  }

  /** The acceptance rules, gates and stop rules of `generate()`, with explanations and ranges. */
  get policies(): Policies {
    return policies;
  }

  /** The ranges of the options of `generate()` with this draft and this server. */
  get ranges(): Readonly<Record<NumberOption, Range>> {
    return rangesFor(this.#model, this.#session);
  }

  /**
   * Starts to generate: the continuation of a text, or the assistant's next message in a conversation, of which the
   * server's model has its own form. Four texts are written at a time, in turns with one copy of the model and each with a
   * session of the server's; more wait. Tokens that an earlier generation has read are not read again.
   * @throws {@link OutriderError} at once: `invalid-option`, `prompt-too-long`, `closed`. Later errors reject the
   * generation's iteration and its summary.
   */
  generate(prompt: Prompt, options: GenerateOptions = {}): Generation {
    this.#admit();
    const request = resolveRequest(prompt, options, this.ranges, this.#joining?.heads ?? this.#model.heads);
    return this.#begin(request, [], options.signal);
  }

  /**
   * Resumes a generation of an earlier page. Its first round has the tokens so far, without statistics, which count from
   * here on. The text is distributed the same, and at temperature 0 the same, as if nothing had happened.
   * @throws as {@link Outrider.generate}, and `no-draft` where the server writes alone
   */
  resume(state: SuspendedGeneration, signal?: AbortSignal): Generation {
    this.#admit();
    const { request, tokens } = checkedState(state);
    if (this.#alone) throw new OutriderError('no-draft', 'without a draft model no generation is resumed');
    const ids = tokens.map(({ id }) => id);
    const generation = this.#begin(request, ids, signal);
    generation.add({ tokens, statistics: emptySummary, round: null });
    return generation;
  }

  /**
   * Returns the ids of a prompt as {@link Outrider.generate} reads it, with the tokens that begin a text and those of the
   * conversation's form. `summary.promptTokenIds` are the same; they are empty where the server alone wrote the text.
   */
  async tokenize(prompt: Prompt, options: ConversationOptions = {}): Promise<number[]> {
    const answer = await this.#ask(idsQuestion(prompt, options));
    return answer as number[];
  }

  /** Returns the text of ids. Special tokens have none; bytes that are not UTF-8 become U+FFFD. */
  async detokenize(ids: readonly number[]): Promise<string> {
    return (await this.#ask({ about: 'text', ids: checkedIds(ids) })) as string;
  }

  async #tail(prompt: Prompt, options: ConversationOptions, end: string | null): Promise<string | null> {
    if ((await this.ready) === 'server' || !this.#reasons) return null;
    return end ?? ((await this.#ask({ ...idsQuestion(prompt, options), about: 'tail' })) as string);
  }

  /** Counts the tokens of a prompt, as {@link Outrider.tokenize} gives them. */
  async countTokens(prompt: Prompt, options: ConversationOptions = {}): Promise<number> {
    return (await this.tokenize(prompt, options)).length;
  }

  /** Throws if the instance was closed. */
  #admit(): void {
    if (this.#closed) throw new OutriderError('closed', 'this instance was closed');
  }

  #begin(request: GenerateRequest, committed: number[], signal: AbortSignal | undefined): Generation {
    // What ends soon leaves its session, with what it has read.
    const earlier = [...this.#running].filter(({ stopped }) => stopped).map(({ generation }) => generation.summary);
    const running = this.#running.add(request, (id) => this.#stop(id));
    if (signal) stopWith(running.generation, signal);
    void this.#run(running, earlier, committed);
    return running.generation;
  }

  /**
   * Emulates a slower link in both directions from now on, also while a generation runs, or cuts it. Fields that are left
   * out keep their values; {@link openLink} removes all limits. Texts that the server writes alone are cut, but not slowed.
   * @throws {@link OutriderError} `invalid-option`
   */
  setLink(link: Partial<Link>): void {
    this.#link = changedLink(this.#link, link);
    this.#post({ type: 'link', link: this.#link });
    if (this.#link.isCut) this.#running.cut();
  }

  /**
   * Ends the session and frees the model. A running generation rejects with `closed`. Resolves once the server knows, or
   * the worker was terminated because it was busy; waiting for it is optional.
   */
  close(): Promise<void> {
    if (this.#closed) return this.#closed;
    this.#unwatch();
    this.#closed = this.#worker ? ended(this.#worker) : Promise.resolve();
    this.#post({ type: 'close' });
    // The worker ends itself once it has closed the session; if it is busy, this does not wait for it.
    this.#worker = null;
    this.#discardWorker(new OutriderError('closed', 'this instance was closed'), true);
    return this.#closed;
  }

  /** {@link Outrider.close}, for `await using`. */
  [asyncDispose] = (): Promise<void> => this.close();

  async #run(running: Running, earlier: readonly Promise<unknown>[], committed: number[]): Promise<void> {
    const { id, generation, request } = running;
    try {
      if (earlier.length > 0) await Promise.allSettled(earlier);
      // It may have been stopped, or all may have been closed meanwhile.
      if (generation.ended) return;
      this.#joining?.tryAgain();
      const mayBegin = isServersText(request, this.#session) && isOpen(this.#link);
      if (this.#joining && !mayBegin) await this.#joining.settled;
      if (generation.ended) return;
      if (this.#refusal) throw this.#refusal;
      if (this.#alone) {
        if (this.#link.isCut) throw cutError();
        const { summary, lost } = await writeAlone(running, this.#alone, (event) => this.#follow(id, event));
        if (lost) {
          // The draft model goes on with the text, if it comes.
          await this.#joining?.settled;
          if (generation.ended) return;
          if (this.#alone) throw lost;
          running.joins = true;
        }
        if (!goesOn(running, summary)) return this.#running.end(id, () => generation.finish(summary));
        committed = summary.tokenIds;
      }
      await this.#withWorker(() => {
        if (generation.ended) return;
        running.sent = true;
        this.#post({ type: 'generate', id, request, continuation: { ...this.#terms, committed } });
      });
    } catch (error) {
      this.#running.end(id, () => generation.fail(error as Error));
    }
  }

  #stop(id: number): void {
    const running = this.#running.find(id);
    if (!running || running.stopped) return;
    running.stopped = true;
    if (!running.sent) {
      // The worker does not know of it. If it is still loading it goes on, for the next generation.
      this.#running.end(id, (generation, { before }) => generation.finish({ ...(before?.summary ?? emptySummary) }));
      return;
    }
    if (running.isAlone) return running.abort.abort();
    this.#post({ type: 'stop', id });
    running.graceTimer = setTimeout(() => {
      this.#discardWorker(new OutriderError('worker-unresponsive', 'the worker did not stop when asked to'));
    }, STOP_GRACE_MS);
  }

  #ask(question: Question): Promise<Answer> {
    this.#admit();
    if (this.#alone && !this.#worker) {
      throw new OutriderError('no-draft', 'the tokenizer is beside the draft model, which does not run here');
    }
    return this.#withWorker(() => this.#questions.ask(question, (message) => this.#post(message)));
  }

  /** Calls `send` while a worker runs that has loaded; starts one where there is none. @throws {@link OutriderError} */
  async #withWorker<T>(send: () => T | Promise<T>): Promise<T> {
    for (;;) {
      this.#admit();
      const ready = this.#ready ?? this.#startWorker();
      await ready;
      if (ready === this.#ready) return send();
    }
  }

  /**
   * Connects to the server, and lets the draft model join when it has been loaded. Resolves to false where the server is
   * away and need not be there. @throws {@link OutriderError}
   */
  async #writeAtOnce(options: LoadOptions): Promise<boolean> {
    const alone = await ServerAlone.connectIfThere(options);
    options.signal?.throwIfAborted();
    if (!alone) return false;
    this.#startAlone(alone);
    this.#join(options);
    return true;
  }

  #join(options: LoadOptions): void {
    const load = (): Promise<void> => {
      this.#refusal = null;
      return this.#startWorker();
    };
    const onJoined = (): void => {
      this.#alone = null;
      for (const running of this.#running) join(running);
      callSafely(() => this.#on.engine(this.#engine));
    };
    this.#joining = new Joining(load, onJoined, (error) => {
      if (this.#closed) return;
      if (options.fallback === 'none') this.#refusal = error;
      else tellFallback(error, options);
    });
  }

  #watch(): void {
    this.#unwatch();
    this.#unwatch = watchNetwork(() => {
      this.#alone?.networkChanged();
      this.#post({ type: 'network' });
    });
  }

  #startAlone(alone: ServerAlone): void {
    this.#alone = alone;
    this.#engine = { engine: 'none', declined: null, build: 'none', threads: 0, failed: [] };
    this.#model = alone.model;
    this.#session = alone.session;
    this.sampling.set(alone.sampling);
    this.#watch();
  }

  /** Falls back to the server alone if `error` calls for it. @throws `error` otherwise */
  async #fallBack(error: unknown, options: LoadOptions): Promise<void> {
    this.#startAlone(await ServerAlone.insteadOf(error, options));
    tellFallback(error, options);
  }

  #startWorker(): Promise<void> {
    let worker: Worker;
    try {
      // A message may still be under way when its worker has been replaced.
      worker = openWorker(
        this.#workerUrl,
        (message) => worker === this.#worker && this.#receive(message),
        (error) => worker === this.#worker && this.#discardWorker(error),
      );
    } catch (error) {
      return Promise.reject(error as OutriderError);
    }
    this.#worker = worker;
    this.#ready = new Promise((resolve, reject) => (this.#loading = { resolve, reject }));
    this.#post({ ...this.#start, link: this.#link, claim: this.#claim });
    this.#claim = null;
    this.context.repeat();
    return this.#ready;
  }

  #receive(message: FromWorker): void {
    switch (message.type) {
      case 'progress':
        return this.#on.progress(message.progress);
      case 'loaded':
        this.#engine = message.engine;
        this.#model = message.model;
        this.#session = message.session;
        this.#offline = message.offline;
        this.#reasons = message.reasons;
        this.#loading?.resolve();
        this.#loading = null;
        return;
      case 'engine':
        this.#engine = message.engine;
        callSafely(() => this.#on.engine(message.engine));
        return;
      case 'reconnected':
        this.#session = message.session;
        this.#offline = message.offline;
        return;
      case 'cache-full':
        return this.#on.cacheFull(revive(message.error));
      case 'round':
      case 'guess':
      case 'done':
      case 'failed':
        return this.#running.receive(message);
      case 'line':
        return this.#follow(message.id, message.event);
      case 'answer':
      case 'no-answer':
        return this.#questions.receive(message);
      case 'token-wanted':
        return void tokenMessage(message.id, this.#token).then((answer) => this.#post(answer));
      case 'load-failed':
      case 'crashed':
        this.#discardWorker(revive(message.error));
    }
  }

  #follow(id: number, event: LineEvent): void {
    if (event.state === 'resumed') this.#offline = false;
    this.#running.follow(id, event, this.#on.connection);
  }

  /** Terminates the worker; its waiters fail with `reason`. Queued generations start another, unless `isEnd`. */
  #discardWorker(reason: unknown, isEnd = false): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#ready = null;
    this.#loading?.reject(reason);
    this.#loading = null;
    this.#questions.fail(reason);
    // The server writes on alone.
    const running = [...this.#running];
    const failing = isEnd ? running : running.filter(({ sent, isAlone }) => sent && !isAlone);
    for (const { id, abort } of failing) {
      this.#running.end(id, (generation) => generation.fail(reason as Error));
      abort.abort();
    }
  }

  #post(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }
}
