// One exchange between browser and server, as the picture shows it. No DOM.

import type { Round } from '../outrider/index.js';
import { cellsOf } from './rounds.js';
import type { Cell } from './rounds.js';

/** Tokens that go up and come down, and a sentence about them. */
export interface Exchange {
  up: readonly Cell[];
  down: readonly Cell[];
  words: string;
}

/** Most cells on a wire: a column of more could not be read. */
const MOST = 8;

const count = (number: number, what: string): string => `${number} ${what}${number === 1 ? '' : 's'}`;

/** Describes a round as an exchange. */
export function exchangeOf(round: Round): Exchange {
  const { tokens } = round;
  const cells = cellsOf(round);
  const of = (...kinds: Cell[]): Cell[] => cells.filter((cell) => kinds.includes(cell));
  const down = tokens.map(({ origin }) => origin as Cell).slice(0, MOST);
  const accepted = of('accepted').length;
  if (round.round) {
    const up = of('accepted', 'rejected');
    const own = of('resampled', 'bonus').length > 0 ? ' and added one of its own' : '';
    const taken = up.length === 0 ? 'Nothing was drafted' : `The browser drafted ${count(up.length, 'token')}`;
    const verdict =
      up.length === 0 ? `the server wrote ${count(tokens.length, 'token')}` : `the server accepted ${accepted}${own}`;
    return { up: up.slice(0, MOST), down, words: `${taken}; ${verdict}.` };
  }
  const guessed = of('accepted', 'late');
  const passed = of('passed').length;
  if (passed > 0) return { up: [], down, words: `The browser kept ${count(passed, 'token')} without asking.` };
  const words =
    accepted > 0
      ? `The browser had guessed ${count(accepted, 'token')} in time: the server judged ${tokens.length} in one forward pass.`
      : guessed.length > 0
        ? 'The browser had guessed it, too late to help: the server had written it already.'
        : `The server wrote ${count(tokens.length, 'token')} itself.`;
  return { up: guessed.slice(0, MOST), down, words };
}
