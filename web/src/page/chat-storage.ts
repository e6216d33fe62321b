// The conversation in the browser's storage: each tab has its own, and a new tab begins with the one saved last.

import { turnsFrom } from './conversation.js';
import type { Turn } from './conversation.js';

const key = 'outrider.chat';

/** The storages, the tab's own first. */
const places = ['sessionStorage', 'localStorage'] as const;

/** Reads the turns of this tab, else those that any tab saved last. */
export function storedTurns(): Turn[] {
  for (const place of places) {
    try {
      const stored = globalThis[place].getItem(key);
      if (stored !== null) return turnsFrom(stored);
    } catch {
      // The browser refuses storage, and a reload begins a new chat.
    }
  }
  return [];
}

/** Saves the turns for a reload of this tab, and for new tabs. */
export function storeTurns(turns: readonly Readonly<Turn>[]): void {
  for (const place of places) {
    try {
      globalThis[place].setItem(key, JSON.stringify(turns));
    } catch {
      // The storage is full or refused.
    }
  }
}
