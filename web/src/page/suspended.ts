// What the page was at, kept over a reload. It ends with the tab, and no other page reads it.

import type { SuspendedGeneration } from '../outrider/index.js';

const key = 'outrider.generation';

/** Keeps a generation; null keeps what there is. */
export function keep(generation: SuspendedGeneration | null): void {
  if (!generation) return;
  try {
    sessionStorage.setItem(key, JSON.stringify(generation));
  } catch {
    // A browser that keeps nothing starts over after a reload.
  }
}

/** What was kept, if it can be read. A page takes it once: what fails is not tried for ever. */
export function kept(): SuspendedGeneration | null {
  try {
    const text = sessionStorage.getItem(key);
    forget();
    return text === null ? null : (JSON.parse(text) as SuspendedGeneration);
  } catch {
    return null;
  }
}

export function forget(): void {
  try {
    sessionStorage.removeItem(key);
  } catch {
    // There is nothing then.
  }
}
