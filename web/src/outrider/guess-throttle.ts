import type { Guess } from './edge.js';

/**
 * Milliseconds that a guess waits before it is shown. On a near link it is confirmed before, and its message would have
 * cost drafting time.
 */
const WAIT_MS = 40;

/** Passes on the last of several guesses, unless a round follows them at once. */
export class GuessThrottle {
  readonly #show: (guess: Guess) => void;
  #last: Guess | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(show: (guess: Guess) => void) {
    this.#show = show;
  }

  guess(guess: Guess): void {
    this.#last = guess;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (this.#last !== undefined) this.#show(this.#last);
      this.#last = undefined;
    }, WAIT_MS);
  }

  /** A round, which has the guess that follows it, or the end of the text. */
  clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#last = undefined;
  }
}
