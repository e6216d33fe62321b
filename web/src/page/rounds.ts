// The strip of rounds: the fate of each round's drafts.

import type { Origin, Round } from '../outrider/index.js';

/** One cell of a round's column, from the bottom up. */
export type Cell = Origin | 'rejected';

/** The cells of one round: drafts that were accepted, then those that were not, then the server's own token. */
export function cellsOf({ tokens, round }: Round): Cell[] {
  const cells: Cell[] = tokens.filter(({ origin }) => origin === 'accepted').map(() => 'accepted');
  // Not from the totals: with several rounds in flight they may be those after the next round already.
  const rejected = Math.max(0, (round?.drafted.length ?? 0) - cells.length);
  for (let i = 0; i < rejected; i++) cells.push('rejected');
  for (const { origin } of tokens) if (origin !== 'accepted') cells.push(origin);
  return cells;
}
