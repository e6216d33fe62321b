// The strip of rounds: what became of each round's drafts, derived from the running totals.

import type { Origin, Round, Statistics } from '../outrider/index.js';

/** One cell of a round's column, from the bottom up. */
export type Cell = Origin | 'rejected';

/**
 * The cells of one round: drafts that were accepted, then those that were not, then the server's own token.
 * @param before the totals before the round; null for the first
 */
export function cellsOf(round: Round, before: Statistics | null): Cell[] {
  const drafted = round.statistics.drafted - (before?.drafted ?? 0);
  const cells: Cell[] = round.tokens.filter(({ origin }) => origin === 'accepted').map(() => 'accepted');
  const rejected = Math.max(0, drafted - cells.length);
  for (let i = 0; i < rejected; i++) cells.push('rejected');
  for (const { origin } of round.tokens) if (origin !== 'accepted') cells.push(origin);
  return cells;
}
