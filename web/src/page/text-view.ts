import type { Origin, Round } from '../outrider/index.js';
import { element, make } from './elements.js';
import { cellsOf } from './rounds.js';

const origins: Readonly<Record<Origin, { name: string; meaning: string }>> = {
  accepted: { name: 'Accepted', meaning: 'drafted here, accepted by the server' },
  passed: { name: 'Passed', meaning: 'written here, never verified' },
  resampled: { name: 'Resampled', meaning: 'the server’s, for a rejected draft' },
  bonus: { name: 'Bonus', meaning: 'the server’s, nothing was rejected' },
  late: { name: 'Late', meaning: 'the server’s, guessed here too late' },
  cloud: { name: 'Cloud', meaning: 'written by the server alone' },
};

const noTallies: Readonly<Record<Origin, number>> = {
  accepted: 0,
  passed: 0,
  resampled: 0,
  bonus: 0,
  late: 0,
  cloud: 0,
};

/** Columns of the strip; older ones are dropped. */
const SHOWN_ROUNDS = 160;

/** The streaming text, its legend and the strip of rounds. */
export class TextView {
  readonly #output = element('output', HTMLElement);
  readonly #strip = element('strip', HTMLElement);
  readonly #legend = element('legend', HTMLElement);
  readonly #counts = new Map<Origin, HTMLElement>();
  #tallies: Record<Origin, number> = { ...noTallies };
  #text: HTMLElement | null = null;

  constructor() {
    for (const [origin, { name, meaning }] of Object.entries(origins)) {
      const count = make('span', { class: 'count' });
      this.#counts.set(origin as Origin, count);
      const sample = make('span', { class: 'token', 'data-sample': origin }, make('span', {}, name));
      this.#legend.append(make('li', {}, sample, make('span', { class: 'meaning' }, meaning), count));
    }
  }

  /** Empties the view and shows the prompt that is being continued. */
  begin(prompt: string): void {
    this.#tallies = { ...noTallies };
    this.#text = make('p', { class: 'text' }, make('span', { class: 'given', title: 'the prompt' }, prompt));
    this.#output.replaceChildren(this.#text);
    // Of a long conversation what comes now is wanted.
    this.#output.scrollTop = this.#output.scrollHeight;
    this.#output.setAttribute('aria-busy', 'true');
    this.#strip.replaceChildren();
    for (const count of this.#counts.values()) count.textContent = '';
  }

  add(round: Round): void {
    const follows = atEnd(this.#output);
    for (const token of round.tokens) {
      const { origin } = token;
      // Blanks stay outside of the underline, so that its gaps show where tokens begin.
      const word = token.text.trimStart();
      const blanks = token.text.slice(0, token.text.length - word.length);
      const span = make(
        'span',
        { class: 'token', title: origins[origin].meaning },
        blanks,
        make('span', {}, word),
      );
      span.dataset['tokenId'] = String(token.id);
      span.dataset['origin'] = origin;
      this.#text?.append(span);
      this.#tallies[origin] += 1;
      const count = this.#counts.get(origin);
      if (count) count.textContent = String(this.#tallies[origin]);
    }
    // Whoever has scrolled up to read is left there.
    if (follows) this.#output.scrollTop = this.#output.scrollHeight;

    const cells = cellsOf(round).map((cell) => make('i', { class: 'cell', 'data-cell': cell }));
    this.#strip.append(make('span', { class: 'round' }, ...cells));
    if (this.#strip.childElementCount > SHOWN_ROUNDS) this.#strip.firstElementChild?.remove();
    this.#strip.scrollLeft = this.#strip.scrollWidth;
  }

  end(): void {
    this.#output.setAttribute('aria-busy', 'false');
  }
}

function atEnd(scrolled: HTMLElement): boolean {
  return scrolled.scrollHeight - scrolled.scrollTop - scrolled.clientHeight < 24;
}
