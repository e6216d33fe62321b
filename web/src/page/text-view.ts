import type { Guess, Origin, Prompt, Round, Token } from '../outrider/index.js';
import { said } from './conversation.js';
import { element, make } from './elements.js';
import { origins } from './origins.js';
import { cellsOf } from './rounds.js';
import { unverified } from './sentences.js';
import type { TokenFacts } from './token-card.js';
import { TokenView } from './token-view.js';

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
  readonly #rows = new Map<Origin, { row: HTMLElement; count: HTMLElement }>();
  readonly #facts = new WeakMap<HTMLElement, TokenFacts>();
  readonly #card = new TokenView((span) => this.#facts.get(span));
  #tallies: Record<Origin, number> = { ...noTallies };
  #answers = 0;
  #text: HTMLElement | null = null;
  /** Guesses after the text; assistive technology gets confirmed text only. */
  readonly #guesses = make('span', { class: 'guess', 'aria-hidden': 'true' });

  constructor() {
    for (const [origin, { name, meaning }] of Object.entries(origins)) {
      const count = make('span', { class: 'count' });
      const sample = make('span', { class: 'token', 'data-sample': origin }, make('span', {}, name));
      const row = make('li', {}, sample, make('span', { class: 'meaning' }, meaning), count);
      this.#rows.set(origin as Origin, { row, count });
      this.#legend.append(row);
    }
  }

  /** Empties the view and shows the prompt. */
  begin(prompt: Prompt): void {
    this.#card.close();
    this.#tallies = { ...noTallies };
    this.#answers = 0;
    const before = said(prompt);
    const given = before.map(({ who, text }) =>
      make(
        'span',
        { class: 'given', ...(who && { 'data-who': who }) },
        ...(who ? [make('b', {}, who), ': '] : []),
        text,
      ),
    );
    this.guess(null);
    this.#text = make('p', { class: 'text' }, ...given, this.#guesses);
    this.#output.replaceChildren(this.#text);
    // A long conversation is shown at its end.
    this.#output.scrollTop = this.#output.scrollHeight;
    this.#output.setAttribute('aria-busy', 'true');
    this.#strip.replaceChildren();
    for (const { count } of this.#rows.values()) count.textContent = '';
  }

  /** Shows guesses after the text; null removes them. */
  guess(guess: Guess | null): void {
    const follows = atEnd(this.#output);
    this.#guesses.textContent = guess?.text ?? '';
    this.#guesses.toggleAttribute('data-offline', guess?.offline ?? false);
    this.#guesses.title = guess?.offline ? unverified : '';
    if (follows) this.#output.scrollTop = this.#output.scrollHeight;
  }

  /** Adds rounds at once: each measuring of the page's layout takes as long as many tokens. */
  add(rounds: readonly Round[]): void {
    const follows = atEnd(this.#output);
    for (const round of rounds) {
      this.#answers += 1;
      this.#guesses.before(...round.tokens.map((token) => this.#span(token, round)));
      const cells = cellsOf(round).map((cell) => make('i', { class: 'cell', 'data-cell': cell }));
      this.#strip.append(make('span', { class: 'round' }, ...cells));
      if (this.#strip.childElementCount > SHOWN_ROUNDS) this.#strip.firstElementChild?.remove();
    }
    for (const [origin, { count }] of this.#rows) {
      if (this.#tallies[origin] > 0) count.textContent = String(this.#tallies[origin]);
    }
    // A reader who has scrolled up stays there.
    if (follows) this.#output.scrollTop = this.#output.scrollHeight;
    this.#strip.scrollLeft = this.#strip.scrollWidth;
  }

  #span(token: Token, round: Round): HTMLElement {
    // Blanks stay outside of the underline, so that its gaps show where tokens begin.
    const word = token.text.trimStart();
    const blanks = token.text.slice(0, token.text.length - word.length);
    const span = make('span', { class: 'token', tabindex: '-1' }, blanks, make('span', {}, word));
    span.dataset['tokenId'] = String(token.id);
    span.dataset['origin'] = token.origin;
    this.#facts.set(span, { token, round, answer: this.#answers });
    this.#tallies[token.origin] += 1;
    return span;
  }

  end(): void {
    this.guess(null);
    this.#output.setAttribute('aria-busy', 'false');
  }
}

function atEnd(scrolled: HTMLElement): boolean {
  return scrolled.scrollHeight - scrolled.scrollTop - scrolled.clientHeight < 24;
}
