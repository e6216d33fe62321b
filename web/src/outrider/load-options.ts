import { builds, engines } from './builds.js';
import type { Build, EngineInfo, EngineKind, EngineRequest } from './builds.js';
import type { Continuation, LineEvent, Link } from './edge.js';
import { invalidOption, OutriderError } from './errors.js';
import { engineAddresses } from './files.js';
import type { SuspendedGeneration } from './generation.js';
import type { LoadProgress, Sources, ToWorker } from './messages.js';
import { checkedToken } from './token.js';
import type { TokenSource } from './token.js';
import { refuseUnknown } from './validation.js';

/** The default of `connectTimeoutMs`. */
export const CONNECT_TIMEOUT_MS = 20_000;

/** Options of {@link Outrider.load}: addresses, the engine, and callbacks. */
export interface LoadOptions {
  /** The base address of the server; the page's own origin if not given. */
  server?: string | URL | undefined;
  /** The name of one of the server's models, as `/v1/models` lists them; the server's first one if not given. */
  model?: string | undefined;
  /**
   * The draft model, a GGUF file or safetensors that have their `config.json` within: its address, or a file that the
   * user has picked; `pair/draft` below `server` if not given, or `'lookup'` where the server has none. `'lookup'`
   * downloads no model: guesses are what followed the text's end earlier, in itself or in texts of
   * {@link Outrider.context}.
   */
  draft?: 'lookup' | (string & {}) | URL | Blob | undefined;
  /** Its `tokenizer.json`, likewise; `pair/tokenizer.json` below `server` if not given. */
  tokenizer?: string | URL | Blob | undefined;
  /**
   * Address of the heads that were trained for the draft model; if not given, `pair/heads.safetensors` below `server` for
   * the server's own draft, and none for another. Where the server answers 404 there are none.
   */
  heads?: string | URL | undefined;
  /**
   * Address of what makes prompts of conversations, `{ template, tool_use, bos_token, eos_token, first_token }` as JSON with Jinja templates;
   * `chat.json` beside the tokenizer if not given. Where the server answers 404 a plain form is taken.
   */
  chat?: string | URL | undefined;
  /**
   * A bearer token, if the server asks for one, or a function that gives one; it is called for each connection, so that
   * it can renew the token. Visitors of the page can read it.
   */
  token?: TokenSource | undefined;
  /**
   * The engine that drafts: `wasm`, the processor; `webgpu`, the browser's GPU; `auto` (default), whichever takes less time for a draft,
   * measured once the model is there. An engine that is named and cannot run is `gpu-failed`: see `fallback`. Where the GPU is taken away the processor goes on.
   */
  engine?: EngineKind | 'auto' | undefined;
  /**
   * The build of the engine: `auto` (default) takes the fastest that starts here. One that is named and
   * cannot run is `wasm-failed`: see `fallback`. Those with threads need a page that is served with `Cross-Origin-Opener-Policy: same-origin` and
   * `Cross-Origin-Embedder-Policy: require-corp`; elsewhere `auto` takes one without.
   */
  build?: Build | 'auto' | undefined;
  /**
   * The number of drafting threads, at most one per processor; one per processor and at most four if not given.
   * With 1, `auto` takes a build without threads.
   */
  threads?: number | undefined;
  /**
   * Address of a folder with the package's .wasm files, if they are not where its bundler has put them. Another origin
   * has to allow the page's (CORS).
   */
  wasmUrl?: string | URL | undefined;
  /**
   * Address of the package's `worker.js`, on the page's own origin. If not given the worker starts from a `blob:`
   * address, which a Content-Security-Policy may forbid (`worker-src`).
   */
  workerUrl?: string | URL | undefined;
  /**
   * The answer that `load()` waits for. `server` (default): the server's first answer; it writes alone, the same text of
   * the same seed, until the draft model has been loaded and joins, also in the middle of a text ({@link Outrider.ready}).
   * `draft`: the draft model as well. That is the default with `fallback: 'none'`, and always so with `resume` and with a
   * `chat` of the page's own, which the server does not have.
   */
  wait?: 'server' | 'draft' | undefined;
  /** The link to begin with; see {@link Outrider.setLink}. */
  link?: Partial<Link> | undefined;
  /** Called while the draft is fetched and prepared. */
  onProgress?: ((progress: LoadProgress) => void) | undefined;
  /** Gives loading up; `load()` then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Most time to wait for the server's handshake, in milliseconds; 20 000 if not given. */
  connectTimeoutMs?: number | undefined;
  /** A generation of an earlier page, for {@link Outrider.resume}: its session is resumed. */
  resume?: SuspendedGeneration | null | undefined;
  /**
   * Most attempts to reconnect when a generation has lost its connection; 8 if not given, which takes about ten seconds.
   * 0 gives up at once.
   */
  reconnectAttempts?: number | undefined;
  /**
   * Longest silence of the server while text is due, in milliseconds; 5 000 if not given. After it the generation
   * reconnects and goes on. A server that answers and is slow gets twice the time at each attempt; `Infinity` waits for
   * ever. While the server writes alone it is at least 5 000, and after doubling at most `connectTimeoutMs`.
   */
  stallTimeoutMs?: number | undefined;
  /**
   * Least chance of guesses that `generation.events()` gives before the server has confirmed them; 0.5 if not given.
   * Null or 1 gives none.
   */
  guessesFrom?: number | null | undefined;
  /**
   * Most tokens that a generation guesses after the confirmed text while its connection is lost, as events `guess` with
   * `offline`; 64 if not given, and 0 for none. The server confirms or replaces them after the reconnection.
   */
  offlineTokens?: number | undefined;
  /**
   * Starts without the server where it cannot be reached, with the files of an earlier visit, which this keeps. Texts
   * that are drafted ahead are then guesses, up to `offlineTokens`, until the server answers; they wait for it until they
   * are stopped, whatever `reconnectAttempts` is. See {@link Outrider.offline}.
   */
  offline?: boolean | undefined;
  /** Called when a generation has lost its connection, and when it goes on. */
  onConnection?: ((event: ConnectionEvent) => void) | undefined;
  /**
   * Headers of downloads and of requests to the server alone. A page cannot give headers to the session's WebSocket; the
   * session has `token`. A server of another origin has to allow the headers.
   */
  headers?: Readonly<Record<string, string>> | Headers | undefined;
  /**
   * The behaviour where the draft model cannot join: no WebAssembly with SIMD, not enough memory, a worker that the
   * page's Content-Security-Policy blocks, a file that cannot be had. `server` (default) lets the server write alone, over
   * its OpenAI API: the text of a seed is the same. What may pass, such as a full server, is tried again with the next
   * text. With `wait: 'draft'` it holds for browsers in which no draft model can run. `none` fails with the error.
   */
  fallback?: 'server' | 'none' | undefined;
  /** Called when the server writes alone for such a reason; if not given, the console has a warning. */
  onFallback?: ((reason: OutriderError) => void) | undefined;
  /**
   * Asks the browser not to evict the draft models that it keeps (`navigator.storage.persist()`), which may ask the
   * user.
   */
  persist?: boolean | undefined;
  /**
   * Called when the draft model cannot be kept for the next visit: the disk or the origin's quota is full, or the
   * model's server sends no `ETag` that the page may read.
   */
  onCacheFull?: ((reason: OutriderError) => void) | undefined;
  /**
   * Names of settings of the draft model that are not known and known to change nothing: keys of its `config.json`, or
   * whole keys of its GGUF file. Without them such a model fails with `unsupported-model`, and the error names the
   * setting.
   */
  ignoreSetting?: string | readonly string[] | undefined;
  /** Called when an engine begins to draft: one has been loaded, or the browser has taken the GPU away. */
  onEngine?: ((engine: EngineInfo) => void) | undefined;
}

/** A change of a generation's connection. */
export type ConnectionEvent = Exclude<LineEvent, { state: 'begun' }>;

const known: Record<keyof LoadOptions, true> = {
  ...{ server: true, model: true, draft: true, tokenizer: true, heads: true, chat: true, token: true, headers: true },
  ...{ engine: true, build: true, threads: true, wasmUrl: true, workerUrl: true, link: true },
  ...{ connectTimeoutMs: true, reconnectAttempts: true, stallTimeoutMs: true, resume: true },
  ...{ signal: true, onProgress: true, onConnection: true, onFallback: true, onCacheFull: true },
  ...{ onEngine: true, fallback: true, persist: true, wait: true, ignoreSetting: true },
  ...{ guessesFrom: true, offlineTokens: true, offline: true },
};

/** Most attempts to connect again, which the engine counts in 32 bits. */
const MOST_ATTEMPTS = 2 ** 32 - 1;

/**
 * Checks the options that do not depend on the browser's builds. @throws {@link OutriderError} `invalid-option`,
 * `unsupported-environment`
 */
export function checkLoadOptions(options: LoadOptions): void {
  if (typeof Worker !== 'function' || typeof location === 'undefined') {
    const text =
      'outrider drafts in a worker of a browser, and there is no browser here (Node, or rendering on a server)';
    throw new OutriderError('unsupported-environment', `${text}: call load() in the page`);
  }
  refuseUnknown(options, Object.keys(known), 'load()');
  const { fallback = 'server', connectTimeoutMs = 1, reconnectAttempts = 0, stallTimeoutMs = 1 } = options;
  if (!['server', 'draft', undefined].includes(options.wait)) {
    throw invalidOption(`wait is 'server' or 'draft', not '${String(options.wait)}'`);
  }
  if (fallback !== 'server' && fallback !== 'none') {
    throw invalidOption(`fallback is 'server' or 'none', not '${String(fallback)}'`);
  }
  if (!(Number.isFinite(connectTimeoutMs) && connectTimeoutMs > 0)) {
    throw invalidOption('connectTimeoutMs must be above 0');
  }
  if (!(stallTimeoutMs > 0)) throw invalidOption('stallTimeoutMs must be above 0, or Infinity');
  const { guessesFrom = null, offlineTokens = 0 } = options;
  if (guessesFrom !== null && !(guessesFrom >= 0 && guessesFrom <= 1)) {
    throw invalidOption('guessesFrom must be a chance from 0 to 1, or null');
  }
  if (!(Number.isInteger(offlineTokens) && offlineTokens >= 0 && offlineTokens <= 1024)) {
    throw invalidOption('offlineTokens must be a whole number from 0 to 1024');
  }
  if (!(Number.isInteger(reconnectAttempts) && reconnectAttempts >= 0 && reconnectAttempts <= MOST_ATTEMPTS)) {
    throw invalidOption(`reconnectAttempts must be a whole number from 0 to ${MOST_ATTEMPTS}`);
  }
}

/** Reads the engine that the options ask for. @throws {@link OutriderError} `invalid-option` */
export function engineRequestOf(options: LoadOptions): EngineRequest {
  const { engine = 'auto', build = 'auto' } = options;
  const threads = options.threads ?? null;
  if (engine !== 'auto' && !engines.includes(engine)) {
    throw invalidOption(`engine is auto, wasm or webgpu, not ${String(engine)}`);
  }
  if (build !== 'auto' && !builds.includes(build)) {
    throw invalidOption(`build is auto or one of ${builds.join(', ')}, not ${String(build)}`);
  }
  if (threads !== null && !(Number.isInteger(threads) && threads >= 1)) {
    throw invalidOption(`threads is a whole number from 1 on, not ${threads}`);
  }
  return { engine, build, threads, addresses: engineAddresses(options.wasmUrl) };
}

/** The absolute address of `given`. @throws {@link OutriderError} `invalid-option` */
export function addressOf(given: string | URL, base: string | URL, name: string): URL {
  if (typeof given !== 'string' && !(given instanceof URL))
    throw invalidOption(`${name} is an address, not ${typeof given}`);
  try {
    return new URL(given, base);
  } catch (cause) {
    throw invalidOption(
      `${name} is no address that can be fetched: '${String(given)}'; it begins with https:// or http://`,
      { cause },
    );
  }
}

/** The server's address, which ends with a slash. @throws {@link OutriderError} `invalid-option` */
export function serverOf(options: LoadOptions): URL {
  const given = options.server ?? location.origin;
  const server = addressOf(given, location.href, 'server');
  // A host with a port and without a scheme would be read as a scheme or a path.
  const isHost = /^[\w.-]+:\d+(\/|$)/.test(String(given));
  if (!/^https?:$/.test(server.protocol) || isHost || /\s/.test(String(given).trim())) {
    throw invalidOption(`server must begin with https:// or http://, also for WebSockets, not be '${String(given)}'`);
  }
  if (!server.pathname.endsWith('/')) server.pathname += '/';
  return server;
}

/** The address of `path` below the server, for the model that the options name. @throws {@link OutriderError} */
export function ofModel(options: LoadOptions, path: string): URL {
  const url = new URL(path, serverOf(options));
  if (options.model !== undefined) url.searchParams.set('model', options.model);
  return url;
}

/** The headers that requests send along. @throws {@link OutriderError} `invalid-option` */
export function headersOf({ headers = {} }: LoadOptions): Record<string, string> {
  try {
    return Object.fromEntries(new Headers(headers));
  } catch (cause) {
    const { message } = cause as Error;
    throw invalidOption(`headers cannot be sent: ${message}`, { cause });
  }
}

/** The names of settings to ignore. @throws {@link OutriderError} `invalid-option` */
function ignoredSettings({ ignoreSetting = [] }: LoadOptions): string[] {
  const names: readonly unknown[] = typeof ignoreSetting === 'string' ? [ignoreSetting] : ignoreSetting;
  if (!Array.isArray(names) || !names.every((name) => typeof name === 'string' && name !== '')) {
    throw invalidOption('ignoreSetting is the name of a setting of the draft model, or an array of names');
  }
  return [...(names as readonly string[])];
}

/** Functions of the page that are called with what happens to an instance. */
export interface Callbacks {
  progress: (progress: LoadProgress) => void;
  connection: (event: ConnectionEvent) => void;
  cacheFull: (reason: OutriderError) => void;
  engine: (engine: EngineInfo) => void;
}

/** Reads the functions that the options have. */
export function callbacksOf(options: LoadOptions): Callbacks {
  const none = (): void => {};
  const { onProgress: progress = none, onConnection: connection = none } = options;
  const { onCacheFull: cacheFull = none, onEngine: engine = none } = options;
  return { progress, connection, cacheFull, engine };
}

/** The terms on which all generations keep their sessions. */
export type Terms = Omit<Continuation, 'committed'>;

/** The terms that the options ask for. */
export function termsOf(options: LoadOptions): Terms {
  const { reconnectAttempts = 8, stallTimeoutMs = 5_000, guessesFrom = 0.5, offlineTokens = 64 } = options;
  return { attempts: reconnectAttempts, stallMs: stallTimeoutMs, guessesFrom: guessesFrom ?? 1, offlineTokens };
}

/** The message that starts a worker, but for what changes from one to the next. @throws {@link OutriderError} */
export function loadMessageOf(options: LoadOptions): Omit<Extract<ToWorker, { type: 'load' }>, 'link' | 'claim'> {
  const [sources, engine] = [sourcesOf(options), engineRequestOf(options)];
  const { connectTimeoutMs = CONNECT_TIMEOUT_MS, offline = false } = options;
  return { type: 'load', engine, sources, connectTimeoutMs, offline };
}

/** Resolves all addresses. @throws {@link OutriderError} `invalid-option` */
export function sourcesOf(options: LoadOptions): Sources {
  const session = ofModel(options, 'session');
  session.protocol = session.protocol.replace('http', 'ws');
  const { token } = options;
  if (token !== undefined && typeof token !== 'function') checkedToken(token);
  // A relative address is below the server, or beside the page if the page gave it.
  const source = (given: string | URL | Blob | undefined, otherwise: string): string | Blob =>
    given instanceof Blob ? given : addressOf(given ?? ofModel(options, otherwise), location.href, otherwise).href;
  const draft = options.draft === 'lookup' ? null : source(options.draft, 'pair/draft');
  const tokenizer = source(options.tokenizer, 'pair/tokenizer.json');
  const hasOwn = options.tokenizer !== undefined && typeof tokenizer === 'string';
  // An address within the page has no neighbours.
  const hasPlace = hasOwn && !/^(blob|data):/.test(tokenizer);
  const beside = hasPlace ? addressOf('chat.json', tokenizer, 'tokenizer') : ofModel(options, 'pair/chat.json');
  const heads = options.heads || (options.draft === undefined ? ofModel(options, 'pair/heads.safetensors') : null);
  return {
    draft,
    mayLackDraft: options.draft === undefined,
    tokenizer,
    heads: heads && addressOf(heads, location.href, 'heads').href,
    chat: addressOf(options.chat || beside, location.href, 'chat').href,
    session: session.href,
    wantsToken: token !== undefined,
    headers: headersOf(options),
    ignoreSettings: ignoredSettings(options),
  };
}
