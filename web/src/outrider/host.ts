import type { EngineRequest } from './builds.js';
import { isGone, readInto } from './download.js';
import type { Sink } from './download.js';
import type { DraftInfo, Edge, EdgeLoader, Engine, GpuHandle, Link } from './edge.js';
import type { RunningEngine } from './engine.js';
import { describe, OutriderError, revive } from './errors.js';
import { emptySummary } from './generation.js';
import { HostSession } from './host-session.js';
import type { Asked } from './host-session.js';
import type { Answer, FromWorker, Question, ToWorker } from './messages.js';
import { templateReasons } from './reasoning.js';

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
  /** Keeps bytes for a later visit: the Welcome of a session under its address, and its acceptance. */
  keepBytes(url: string, bytes: Uint8Array): void;
  keptBytes(url: string): Promise<Uint8Array | null>;
  /** Lets downloads give what an earlier visit has kept where the server cannot be reached. */
  allowOffline(): void;
}

/** Headers that downloads send. */
export type RequestHeaders = Readonly<Record<string, string>>;

/**
 * The worker's side: owns the engine and with it the model, the cache and the socket.
 *
 * `receive` never throws and never waits; answers go out through `post`. Order: one `load`, then any number of
 * `generate`, also side by side; `stop`, `link` and `close` at any time.
 */
export class EdgeHost {
  readonly #around: Surroundings;
  #edge: Edge | null = null;
  /** The first of them stays; the others write texts beside its own. */
  #sessions: HostSession[] = [];
  #mostSessions = MOST_SESSIONS;
  /** Texts that wait for a session, the oldest first. */
  #waiting: Asked[] = [];
  /** Connections that wait for a token. */
  readonly #tokens = new Map<number, { resolve: (token: string) => void; reject: (reason: unknown) => void }>();
  #lastToken = 0;
  #link: Link | null = null;
  #started: RunningEngine['info'] | null = null;
  /** The engine that was last reported to the page. */
  #kind: DraftInfo['engine'] = 'wasm';
  /** Texts that came before the engine was there. */
  #early: ContextMessage[] = [];

  constructor(around: Surroundings) {
    this.#around = around;
  }

  receive(message: ToWorker): void {
    switch (message.type) {
      case 'load':
        this.#link = message.link;
        if (message.offline) this.#around.allowOffline();
        void this.#load(message);
        return;
      case 'generate':
        this.#generate(message);
        return;
      case 'stop':
        this.#stop(message.id);
        return;
      case 'ask':
        this.#answer(message.id, message.question);
        return;
      case 'link': {
        const isMended = this.#link?.isCut && !message.link.isCut;
        this.#link = message.link;
        this.#edge?.set_link(message.link);
        if (isMended) for (const session of this.#sessions) session.networkChanged();
        return;
      }
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
        for (const session of this.#sessions) session.networkChanged();
        return;
      case 'close':
        void this.#close();
    }
  }

  /** Closes all sessions and ends the worker. */
  async #close(): Promise<void> {
    this.#waiting = [];
    await Promise.all(this.#sessions.map((session) => session.end()));
    this.#around.post({ type: 'closed' });
    this.#around.exit();
  }

  async #load({ engine: request, sources, connectTimeoutMs, offline, claim }: LoadMessage): Promise<void> {
    const { post, keepBytes, keptBytes } = this.#around;
    const { headers = {} } = sources;
    try {
      const loading = this.#around.loadEngine(request);
      const draft = new DraftSink(loading, request.engine, this.#around.hasWebGpu, sources.ignoreSettings ?? []);
      const [engine, tokenizer, heads, chat, hasDraft] = await Promise.all([
        loading,
        bytesOf(sources.tokenizer, this.#around, headers),
        sources.heads === null ? null : this.#around.downloadOptional(sources.heads, headers),
        this.#around.downloadOptional(sources.chat, headers),
        sources.draft &&
          into(sources.draft, draft, this.#around, headers, (loadedBytes, totalBytes) => {
            post({ type: 'progress', progress: { stage: 'download', loadedBytes, totalBytes } });
          }).then(
            () => true,
            (error: unknown) => {
              if (sources.mayLackDraft && isGone(error)) return false;
              throw error;
            },
          ),
      ]);
      post({ type: 'progress', progress: { stage: 'prepare' } });
      const edge = hasDraft
        ? await draft.finish(tokenizer, heads, chat)
        : (await loading).EdgeLoader.lookup(tokenizer, chat ?? undefined);
      if (this.#link) edge.set_link(this.#link);
      for (const message of this.#early.splice(0)) this.#applyContext(edge, message);
      this.#edge = edge;
      const acceptanceAt = acceptanceAddress(sources.session, edge);
      const expecting = keptBytes(acceptanceAt).then((kept) => kept && edge.expect_acceptance(kept));
      const first = new HostSession(
        edge,
        {
          ...{ url: sources.session, connectTimeoutMs, mayBeOffline: offline, post, keepBytes, keptBytes },
          askForToken: sources.wantsToken ? () => this.#askForToken() : undefined,
          tellEngine: (edge) => this.#tellEngine(edge),
          keepAcceptance: (edge) => {
            const acceptance = edge.acceptance();
            if (acceptance) keepBytes(acceptanceAt, acceptance);
          },
        },
        claim,
      );
      this.#sessions = [first];
      post({ type: 'progress', progress: { stage: 'connect' } });
      const [session] = await Promise.all([first.connect(offline), expecting]);
      this.#started = engine.info;
      const { engine: kind, declined, ...model } = edge.info();
      this.#kind = kind;
      const info = { ...engine.info, engine: kind, declined: declined ?? draft.declined };
      post({
        ...{ type: 'loaded', engine: info, model, session, offline: first.isOffline },
        reasons: templateReasons(chat),
      });
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
      post({ type: 'answer', id, answer: answerTo(question, this.#edge) });
    } catch (thrown) {
      const error = describe(thrown);
      if (error.code === 'worker-crashed') post({ type: 'crashed', error });
      else post({ type: 'no-answer', id, error });
    }
  }

  #generate(asked: Asked): void {
    const [first] = this.#sessions;
    if (!first) {
      const error = { code: 'internal', message: 'generate before load' } as const;
      this.#around.post({ type: 'failed', id: asked.id, error });
      return;
    }
    const session = this.#sessions.find(({ isIdle }) => isIdle) ?? this.#another(first);
    if (!session) {
      this.#waiting.push(asked);
      return;
    }
    void session.generate(asked, session !== first).then((taken) => {
      if (!taken) {
        // The server allows no more. Another text ends some time, and the first session then takes this one.
        this.#drop(session);
        this.#mostSessions = this.#sessions.length;
        setTimeout(() => (this.#mostSessions = MOST_SESSIONS), BESIDE_MS);
        this.#waiting.unshift(asked);
      }
      const next = this.#sessions.some(({ isIdle }) => isIdle) ? this.#waiting.shift() : undefined;
      if (next) this.#generate(next);
      else if (session !== first) setTimeout(() => session.isIdle && this.#drop(session), BESIDE_MS);
    });
  }

  #another(first: HostSession): HostSession | null {
    if (this.#sessions.length >= this.#mostSessions) return null;
    const session = first.another();
    this.#sessions.push(session);
    return session;
  }

  #drop(session: HostSession): void {
    this.#sessions = this.#sessions.filter((other) => other !== session);
    session.close();
  }

  #stop(id: number): void {
    for (const session of this.#sessions) session.stop(id);
    if (!this.#waiting.some((asked) => asked.id === id)) return;
    this.#waiting = this.#waiting.filter((asked) => asked.id !== id);
    this.#around.post({ type: 'done', id, summary: emptySummary });
  }

  /** Reports another engine to the page: a GPU may be lost while it drafts. */
  #tellEngine(edge: Edge): void {
    const { engine, declined } = edge.info();
    if (engine === this.#kind || !this.#started) return;
    this.#kind = engine;
    this.#around.post({ type: 'engine', engine: { ...this.#started, engine, declined } });
  }

  #askForToken(): Promise<string> {
    const id = ++this.#lastToken;
    const token = new Promise<string>((resolve, reject) => this.#tokens.set(id, { resolve, reject }));
    this.#around.post({ type: 'token-wanted', id });
    return token.finally(() => this.#tokens.delete(id));
  }
}

/** The number of tokens at the end of a prompt in which the server looks for opened reasoning. */
const TAIL = 16;

/** Address under which the acceptance of a draft model at a server is kept; the file's size stands for the model. */
function acceptanceAddress(session: string, edge: Edge): string {
  const url = new URL(session);
  url.searchParams.set('acceptance', String(edge.info().weightBytes));
  return url.href;
}

function answerTo(question: Question, edge: Edge): Answer {
  if (question.about === 'text') return edge.detokenize(Uint32Array.from(question.ids));
  const { prompt, tools, chatTemplateKwargs, continueFinalMessage } = question;
  const ids = edge.tokenize(prompt, tools, chatTemplateKwargs, continueFinalMessage);
  return question.about === 'ids' ? Array.from(ids) : edge.detokenize(ids.slice(-TAIL));
}

type LoadMessage = Extract<ToWorker, { type: 'load' }>;
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

/** Most texts that are written at a time: each has a session of the server's and a KV cache here. */
const MOST_SESSIONS = 4;

/**
 * Idle time, in milliseconds, after which a session beside the first is closed; also the time after which a full server
 * is asked again.
 */
const BESIDE_MS = 30_000;
