/** Does something again and again, with a least time between. */
export class Paced {
  readonly #act: () => void;
  readonly #everyMs: number;
  #last = -Infinity;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(act: () => void, everyMs: number) {
    this.#act = act;
    this.#everyMs = everyMs;
  }

  /** Acts as soon as the time allows: data may come faster than it can be seen. */
  soon(): void {
    const wait = Math.max(0, this.#last + this.#everyMs - performance.now());
    this.#timer ??= setTimeout(() => this.now(), wait);
  }

  now(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#last = performance.now();
    this.#act();
  }
}
