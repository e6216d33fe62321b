// The running generation, kept over a reload. It ends with the tab, and no other page reads it.

import type { Statistics, SuspendedGeneration } from '../outrider/index.js';

const key = 'outrider.generation';
const tokenKey = 'outrider.token';

/** A generation of an earlier page, and its statistics. */
export interface Kept {
  generation: SuspendedGeneration;
  statistics: Statistics;
}

/** Keeps a generation; null changes nothing. */
export function keep(generation: SuspendedGeneration | null, statistics: Statistics): void {
  if (!generation) return;
  const text = JSON.stringify({ generation, statistics } satisfies Kept);
  inSession((storage) => storage.setItem(key, text));
}

/** The kept generation, if it can be read. It stays until a text {@link forget | ends}: the server may be away for long. */
export function kept(): Kept | null {
  return inSession((storage) => {
    const text = storage.getItem(key);
    const read = text === null ? null : (JSON.parse(text) as Partial<Kept>);
    // A page of an earlier version kept less.
    return read?.generation && read.statistics ? (read as Kept) : null;
  });
}

/** Forgets the kept generation: its text has ended. */
export function forget(): void {
  inSession((storage) => storage.removeItem(key));
}

/**
 * The access token: from the address, else from an earlier page in the same tab. It is kept here, so that it need not
 * stay in the address, which people copy, and browsers show and remember.
 */
export function accessToken(given: string | null): string | null {
  if (given !== null) inSession((storage) => storage.setItem(tokenKey, given));
  return given ?? inSession((storage) => storage.getItem(tokenKey));
}

/** Uses the tab's storage; null in a browser that refuses it, where a reload starts over. */
function inSession<T>(use: (storage: Storage) => T): T | null {
  try {
    return use(sessionStorage);
  } catch {
    return null;
  }
}
