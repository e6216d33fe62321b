import type { Guess, Round } from './edge.js';

/**
 * Milliseconds that a guess waits before it is shown. On a near link it is confirmed before, and its message would have
 * cost drafting time.
 */
const WAIT_MS = 40;

/** Passes on the last of several guesses, unless a round follows them at once. */
export class GuessThrottle {
  readonly #show: (guess: Guess) => void;
  /** Ids of the visible guesses. */
  #shown: readonly number[] = [];
  /** Ids of the last guesses, visible or not. */
  #made: readonly number[] = [];
  #waiting: Guess | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(show: (guess: Guess) => void) {
    this.#show = show;
  }

  guess(guess: Guess): void {
    this.#made = guess.ids;
    this.#waiting = guess;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (this.#waiting === undefined) return;
      this.#shown = this.#waiting.ids;
      this.#show(this.#waiting);
      this.#waiting = undefined;
    }, WAIT_MS);
  }

  /** Takes a round with the guesses that follow it, and returns it with the number of visible ones it contradicts. */
  round({ withdrawn = 0, ...round }: Round): Round {
    const left = round.guess?.ids ?? [];
    const visible = this.#contradicted(this.#made.length - left.length - withdrawn, withdrawn > 0);
    this.clear();
    this.#shown = this.#made = left;
    return visible > 0 ? { ...round, withdrawn: visible } : round;
  }

  /**
   * The number of visible guesses that a text contradicts.
   * @param right the number of guesses made, visible or not, that the text confirms
   * @param ends whether the text contradicts the next one
   */
  #contradicted(right: number, ends: boolean): number {
    const differs = this.#shown.findIndex((id, at) => id !== this.#made[at]);
    const alike = differs === -1 ? this.#shown.length : differs;
    return ends || alike < right ? Math.max(0, this.#shown.length - Math.min(alike, right)) : 0;
  }

  /** The end of the text. */
  clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting = undefined;
  }
}
