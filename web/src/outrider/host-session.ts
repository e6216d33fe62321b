import type { Claim, Edge, GenerateRequest, SessionInfo, Summary } from './edge.js';
import { describe, OutriderError } from './errors.js';
import type { OutriderErrorCode } from './errors.js';
import { emptySummary } from './generation.js';
import { GuessThrottle } from './guess-throttle.js';
import { AWAY_MS } from './kept-answers.js';
import type { FromWorker, ToWorker } from './messages.js';
import { willBeAhead } from './policies.js';
import { within } from './within.js';

/** Settings and services that the sessions of a worker share. */
export interface SessionSettings {
  url: string;
  /** Asks the page for a bearer token, if the server wants one. */
  askForToken: (() => Promise<string>) | undefined;
  connectTimeoutMs: number;
  /** True if a session may begin without its server. */
  mayBeOffline: boolean;
  post(message: FromWorker): void;
  /** Reports the engine after a text: a GPU may be lost while it drafts. */
  tellEngine(edge: Edge): void;
  /** Keeps the Welcome of the session at an address. */
  keepBytes(url: string, welcome: Uint8Array): void;
  keptBytes(url: string): Promise<Uint8Array | null>;
  /** Keeps the acceptance after a text. */
  keepAcceptance(edge: Edge): void;
}

/** A request of the page for a text. */
export type Asked = Extract<ToWorker, { type: 'generate' }>;

/** A session with the server, its connections, and the texts that it writes, one at a time. */
export class HostSession {
  readonly #edge: Edge;
  readonly #settings: SessionSettings;
  /** The session that the first connection resumes. */
  #claim: Claim | null;
  /** True while the server has not answered since a start without it. */
  #isOffline = false;
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
  /** Resolves when the last text has ended. */
  #written: Promise<unknown> = Promise.resolve();

  constructor(edge: Edge, settings: SessionSettings, claim: Claim | null) {
    this.#edge = edge;
    this.#settings = settings;
    this.#claim = claim;
  }

  get isIdle(): boolean {
    return this.#running === null;
  }

  get isOffline(): boolean {
    return this.#isOffline;
  }

  /** Creates a session beside this one, with the same model. */
  another(): HostSession {
    return new HostSession(this.#edge.another(), this.#settings, null);
  }

  /** Stops the generation of an id, if this session runs it. */
  stop(id: number): void {
    if (this.#running?.id !== id) return;
    if (this.#running.inEngine) this.#edge.stop();
    else this.#running.cancel();
  }

  networkChanged(): void {
    this.#edge.network_changed();
  }

  close(): void {
    this.#connected = false;
    this.#edge.close();
  }

  /** Stops the text and closes. The server keeps a session whose connection closes in the middle of a text. */
  async end(): Promise<void> {
    if (this.#running) {
      this.stop(this.#running.id);
      await this.#written;
    }
    this.close();
  }

  /**
   * Writes a text and posts its rounds and its end. Resolves to false, with nothing posted, if `mayRefuse` and the server
   * takes no further session. Runs to its first wait at once: from then on the session is not idle.
   */
  generate(asked: Asked, mayRefuse: boolean): Promise<boolean> {
    const written = this.#write(asked, mayRefuse);
    this.#written = written;
    return written;
  }

  async #write({ id, request, continuation }: Asked, mayRefuse: boolean): Promise<boolean> {
    const { post, tellEngine, keepAcceptance } = this.#settings;
    const edge = this.#edge;
    let cancel = (): void => {};
    const cancelled = new Promise<'cancelled'>((resolve) => (cancel = () => resolve('cancelled')));
    const running = { id, inEngine: false, cancel };
    this.#running = running;

    let rounds = 0;
    const guesses = new GuessThrottle((guess) => post({ type: 'guess', id, guess }));
    const attempt = async (): Promise<Summary> => {
      running.inEngine = false;
      if (!this.#connected) {
        const session = await Promise.race([this.connect(this.#guessesOffline(request)), cancelled]);
        if (session === 'cancelled') return emptySummary;
        post({ type: 'reconnected', session, offline: this.#isOffline });
      }
      running.inEngine = true;
      let began: number | null = performance.now();
      return edge.generate(
        { ...request, seed: seedOf(request) },
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
      tellEngine(edge);
      keepAcceptance(edge);
      post({ type: 'done', id, summary });
    } catch (thrown) {
      guesses.clear();
      this.#running = null;
      this.#usedAt = Date.now();
      const error = describe(thrown);
      if (mayRefuse && rounds === 0 && error.code === 'server-full') return false;
      if (error.code !== 'worker-crashed') tellEngine(edge);
      if (!refusals.includes(error.code)) this.#connected = false;
      if (error.code === 'worker-crashed') post({ type: 'crashed', error });
      else post({ type: 'failed', id, error });
    }
    return true;
  }

  /** True if guesses at a text go on without a connection. */
  #guessesOffline(request: GenerateRequest): boolean {
    return this.#settings.mayBeOffline && willBeAhead(request, { maxGuesses: 1 });
  }

  /** Connects, or takes over the attempt in progress. `mayBeOffline` begins without a server that is away. */
  connect(mayBeOffline: boolean): Promise<SessionInfo> {
    this.#connecting ??= this.#connectOnce(mayBeOffline).finally(() => (this.#connecting = null));
    return this.#connecting;
  }

  async #connectOnce(mayBeOffline: boolean): Promise<SessionInfo> {
    const { url, askForToken: token, connectTimeoutMs, keptBytes, keepBytes } = this.#settings;
    const [edge, claim] = [this.#edge, this.#claim];
    const kept = mayBeOffline ? await keptBytes(url) : null;
    const longest = kept ? Math.min(connectTimeoutMs, AWAY_MS) : connectTimeoutMs;
    const { host } = new URL(url);
    const late = new OutriderError(
      'connection-failed',
      `the server at ${host} did not answer within ${longest / 1000} s`,
    );
    let session: SessionInfo;
    try {
      session = await within(longest, edge.connect(url, token, claim), late);
      this.#isOffline = false;
      const welcome = edge.welcome();
      if (this.#settings.mayBeOffline && welcome) keepBytes(url, welcome);
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

/** The seed as the engine has it, in 64 bits. Negative numbers are those from 2^64 downwards, as by the server. */
function seedOf({ seed }: GenerateRequest): number | bigint {
  return seed < 0 ? BigInt.asUintN(64, BigInt(seed)) : seed;
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
