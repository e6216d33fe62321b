import type { OutriderError } from './errors.js';
import type { LoadOptions } from './load-options.js';
import type { Heads } from './policies.js';
import { callSafely } from './running.js';

/** Errors that kept a draft model away and may be gone at the next text. */
const passing: readonly string[] = [
  ...['server-full', 'connection-failed', 'connection-lost', 'download-failed'],
  ...['shutting-down', 'idle'],
];

/** A draft model on its way to texts that the server has begun alone. */
export class Joining {
  readonly #load: () => Promise<void>;
  readonly #onJoined: () => void;
  readonly #onFailed: (error: unknown) => void;
  #mayComeLater = false;
  /** Settles once the draft model has joined, or cannot. */
  settled: Promise<void> = Promise.resolve();
  /** Heads that options may name until then: the draft model knows its own. */
  heads: Heads | null = null;

  constructor(load: () => Promise<void>, onJoined: () => void, onFailed: (error: unknown) => void) {
    this.#load = load;
    this.#onJoined = onJoined;
    this.#onFailed = onFailed;
    this.#begin();
  }

  /** Tries again if what kept the draft model away may be gone. */
  tryAgain(): void {
    if (this.#mayComeLater) this.#begin();
  }

  #begin(): void {
    this.#mayComeLater = false;
    this.heads = { gate: true, stop: true };
    this.settled = this.#load().then(
      () => {
        this.heads = null;
        this.#onJoined();
      },
      (error: unknown) => {
        this.heads = null;
        this.#mayComeLater = passing.includes((error as OutriderError).code);
        this.#onFailed(error);
      },
    );
  }
}

/** Says that the server writes alone, and why. */
export function tellFallback(error: unknown, { onFallback }: LoadOptions): void {
  const tell = onFallback ?? ((reason) => console.warn(`The server writes alone: ${reason.message}`));
  callSafely(() => tell(error as OutriderError));
}
