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
  if (generation) write(key, JSON.stringify({ generation, statistics } satisfies Kept));
}

/** Takes the kept generation, if it can be read. It is taken once, so that a failure does not repeat for ever. */
export function kept(): Kept | null {
  try {
    const text = sessionStorage.getItem(key);
    forget();
    const read = text === null ? null : (JSON.parse(text) as Partial<Kept>);
    // A page of an earlier version kept less.
    return read?.generation && read.statistics ? (read as Kept) : null;
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

/**
 * The access token: from the address, else from an earlier page in the same tab. It is kept here, so that it need not
 * stay in the address, which people copy, and browsers show and remember.
 */
export function accessToken(given: string | null): string | null {
  if (given !== null) write(tokenKey, given);
  try {
    return given ?? sessionStorage.getItem(tokenKey);
  } catch {
    return given;
  }
}

function write(name: string, value: string): void {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // A browser that keeps nothing starts over after a reload.
  }
}
