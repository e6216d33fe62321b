import type { ToWorker } from './messages.js';
import { invalidOption } from './errors.js';

/**
 * Texts that the page knows beside the prompt: documents that a user has open, earlier conversations. Guesses are taken
 * from them where the server's text continues as they do, and the text stays exactly what it is without them. They stay
 * in the page: the server sees guesses alone, which reveal how a text goes on, and none before four of its tokens stand
 * in the prompt or the answer. Guesses are made in the scheme `ahead`, the default. The engine keeps about 260,000 tokens; the oldest texts go first.
 */
export class LocalContext {
  readonly #texts = new Map<string, string>();
  readonly #post: (message: ToWorker) => void;

  /** Starts without texts; {@link Outrider} makes one. @internal */
  constructor(post: (message: ToWorker) => void) {
    this.#post = post;
  }

  /**
   * Adds a text, or replaces the one of the same `id`, from the next generation on.
   * @throws {@link OutriderError} `invalid-option`
   */
  add(id: string, text: string): void {
    if (typeof id !== 'string' || typeof text !== 'string') throw invalidOption('context.add() takes an id and a text');
    this.#texts.delete(id);
    this.#texts.set(id, text);
    this.#post({ type: 'context', id, text });
  }

  /** Removes the text of an `id`. Returns true if there was one. */
  remove(id: string): boolean {
    if (!this.#texts.delete(id)) return false;
    this.#post({ type: 'context', id, text: null });
    return true;
  }

  /** The ids of all texts, the oldest first. */
  get ids(): string[] {
    return [...this.#texts.keys()];
  }

  /** Sends all texts to another worker. @internal */
  repeat(): void {
    for (const [id, text] of this.#texts) this.#post({ type: 'context', id, text });
  }
}
