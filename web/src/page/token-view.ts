import type { Candidate } from '../outrider/index.js';
import { element, make } from './elements.js';
import { fillRows, headOf } from './figures.js';
import { formatProbability } from './format.js';
import { cardOf, shownText } from './token-card.js';
import type { TokenFacts } from './token-card.js';

/**
 * The card about a token: of the one under the pointer, that was touched, or that has the focus. The arrow keys go from
 * token to token once the text has the focus; Escape closes the card.
 */
export class TokenView {
  readonly #output = element('output', HTMLElement);
  readonly #card = element('token-card', HTMLElement);
  readonly #factsOf: (span: HTMLElement) => TokenFacts | undefined;
  #described: HTMLElement | null = null;
  /** The last place of the pointer. */
  #pointer = [NaN, NaN];

  constructor(factsOf: (span: HTMLElement) => TokenFacts | undefined) {
    this.#factsOf = factsOf;
    this.#output.addEventListener('pointerover', ({ target, clientX, clientY }) => {
      // Under a pointer at rest tokens change as the page is laid out: then the focus stays what is described.
      if (this.#follow(clientX, clientY)) this.#show(tokenAt(target));
    });
    this.#output.addEventListener('pointermove', ({ clientX, clientY }) => this.#follow(clientX, clientY));
    this.#output.addEventListener('pointerleave', ({ relatedTarget }) => {
      if (!(relatedTarget instanceof Node && this.#card.contains(relatedTarget))) this.#showFocused();
    });
    this.#card.addEventListener('pointerleave', () => this.#showFocused());
    this.#output.addEventListener('focusin', () => this.#showFocused());
    this.#output.addEventListener('focusout', () => this.#show(null));
    this.#output.addEventListener('scroll', () => this.#place());
    this.#output.addEventListener('keydown', (event) => {
      const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
      if (step === 0) return;
      const spans = [...this.#output.querySelectorAll<HTMLElement>('[data-token-id]')];
      const at = spans.indexOf(document.activeElement as HTMLElement);
      const next = spans[at < 0 ? (step > 0 ? 0 : spans.length - 1) : at + step];
      if (!next) return;
      event.preventDefault();
      next.focus();
    });
    document.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !this.#described) return;
      // It closes the card, and stops no text.
      event.preventDefault();
      this.#show(null);
    });
  }

  /** Closes the card: what it is about is gone. */
  close(): void {
    this.#show(null);
  }

  /** Notes the place of the pointer; false if it has not moved. */
  #follow(x: number, y: number): boolean {
    const [before, above] = this.#pointer;
    this.#pointer = [x, y];
    return x !== before || y !== above;
  }

  #showFocused(): void {
    this.#show(tokenAt(document.activeElement));
  }

  #show(span: HTMLElement | null): void {
    if (span === this.#described) return;
    this.#described?.removeAttribute('aria-describedby');
    const facts = span && this.#factsOf(span);
    this.#described = facts ? span : null;
    this.#card.hidden = !facts;
    if (!facts || !span) return;
    span.setAttribute('aria-describedby', 'token-card');
    const { title, lines, candidates } = cardOf(facts);
    const list = lines.map((line) => make('p', {}, line));
    this.#card.replaceChildren(make('b', {}, title), ...list, ...tableOf(candidates, facts.token.id));
    this.#place();
  }

  /** Below the token, or above where there is no room; never beyond the window. */
  #place(): void {
    if (!this.#described) return;
    const { left, top, bottom } = this.#described.getBoundingClientRect();
    const { width, height } = this.#card.getBoundingClientRect();
    const below = bottom + height < innerHeight;
    const x = Math.max(8, Math.min(left, document.documentElement.clientWidth - width - 8));
    this.#card.style.left = `${x + scrollX}px`;
    this.#card.style.top = `${(below ? bottom : Math.max(0, top - height)) + scrollY}px`;
  }
}

function tokenAt(target: EventTarget | null): HTMLElement | null {
  return target instanceof Element ? target.closest<HTMLElement>('[data-token-id]') : null;
}

/** A table of the candidates with q and p; nothing where none are known. */
function tableOf(candidates: readonly Candidate[], id: number): HTMLElement[] {
  if (candidates.length === 0) return [];
  const share = (value: number | null): string => (value === null ? '–' : formatProbability(value));
  const table = make('table', { class: 'candidates' });
  table.append(headOf(['Candidate', 'Small model, q', 'Large model, p']));
  fillRows(
    table,
    candidates.map(({ text, q, p }) => [shownText(text), share(q), share(p)]),
  );
  const chosen = candidates.findIndex((candidate) => candidate.id === id);
  table.tBodies[0]?.rows[chosen]?.setAttribute('data-chosen', 'true');
  return [table];
}
