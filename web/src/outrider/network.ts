// Changes of the network that the page can see and its worker cannot, and the policy of reconnecting in the page.

import { within } from './within.js';

/** Shortest time in the background, in milliseconds, after which a connection may have died unseen. */
const LONG_HIDDEN_MS = 5_000;

/** Pauses between attempts to reconnect, in milliseconds: those of sessions, `edge_driver/reconnect.rs`. */
const [PAUSE_MS, LONGEST_PAUSE_MS] = [100, 5_000];

/** Calls `changed` when the browser is online again, and when the page comes back from the background. */
export function watchNetwork(changed: () => void): () => void {
  // A page that is rendered elsewhere has neither.
  if (typeof addEventListener !== 'function' || typeof document === 'undefined') return () => {};
  let hiddenAt = Infinity;
  const seen = (): void => {
    if (document.hidden) hiddenAt = performance.now();
    else if (performance.now() - hiddenAt >= LONG_HIDDEN_MS) changed();
  };
  addEventListener('online', changed);
  document.addEventListener('visibilitychange', seen);
  return () => {
    removeEventListener('online', changed);
    document.removeEventListener('visibilitychange', seen);
  };
}

/** Pause before an attempt to reconnect, in milliseconds: none before the first, then doubling, half of it random. */
export function pauseAfter(attempts: number): number {
  if (attempts === 0) return 0;
  return (Math.min(PAUSE_MS * 2 ** (attempts - 1), LONGEST_PAUSE_MS) * (1 + Math.random())) / 2;
}

/** Waits that a change of the network cuts short. */
export class NetworkWaits {
  readonly #cuts = new Set<() => void>();

  /** Cuts the current waits short. */
  changed(): void {
    for (const cut of [...this.#cuts]) cut();
  }

  /** Waits for a time in milliseconds, or until the network changes. */
  async pause(ms: number): Promise<void> {
    if (ms > 0) await this.#wait((changed) => within(ms, changed, new Error('over')).catch(() => {}));
  }

  /**
   * Waits for a promise, or rejects with `late` if it takes longer than `ms` milliseconds; longer than `soonMs` if the
   * network changes meanwhile.
   */
  async within<T>(ms: number, soonMs: number, promise: Promise<T>, late: Error): Promise<T> {
    const began = performance.now();
    return this.#wait((changed) => {
      const rest = (): number => Math.max(soonMs - (performance.now() - began), 0);
      return Promise.race([within(ms, promise, late), changed.then(() => within(rest(), promise, late))]);
    });
  }

  async #wait<T>(wait: (changed: Promise<void>) => Promise<T>): Promise<T> {
    let cut = (): void => {};
    const changed = new Promise<void>((resolve) => (cut = resolve));
    this.#cuts.add(cut);
    try {
      return await wait(changed);
    } finally {
      this.#cuts.delete(cut);
    }
  }
}
