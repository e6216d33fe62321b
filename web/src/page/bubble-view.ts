// The bubbles of the chat: a message of the user, and an answer while it is written and after.

import type { Guess } from '../outrider/index.js';
import { make } from './elements.js';
import { renderMarkdown } from './markdown.js';
import { unverified } from './sentences.js';

/** Actions that bubbles offer. */
export interface BubbleActions {
  edit(position: number): void;
  copy(text: string): Promise<void>;
  regenerate(): void;
}

function action(label: string, act: () => void, attributes: Record<string, string> = {}): HTMLButtonElement {
  const button = make('button', { type: 'button', class: 'small bare', ...attributes }, label);
  button.addEventListener('click', act);
  return button;
}

/** Makes the bubble of a message of the user. */
export function questionBubble(said: string, position: number, actions: BubbleActions): HTMLElement {
  const who = make('span', { class: 'spoken', dir: 'ltr' }, 'You: ');
  const text = make('p', { class: 'bubble', dir: 'auto' }, who, said);
  const edit = action('Edit', () => actions.edit(position), { 'aria-label': `Edit message ${position + 1}` });
  return make('li', { class: 'question' }, text, make('div', { class: 'bubble-actions' }, edit));
}

/** The bubble of an answer. */
export class AnswerBubble {
  readonly item: HTMLElement;
  readonly #text = make('div', { class: 'bubble markdown', dir: 'auto' });
  readonly #guess = make('span', { class: 'guess', 'aria-hidden': 'true' });
  readonly #costs = make('span', { class: 'hint costs' });
  readonly #below = make('div', { class: 'bubble-actions' });
  readonly #actions: BubbleActions;
  #confirmed = '';
  #guessed: Guess | null = null;
  #frame: number | null = null;

  constructor(actions: BubbleActions) {
    this.#actions = actions;
    this.item = make('li', { class: 'answer' }, make('span', { class: 'spoken' }, 'Model: '), this.#text, this.#below);
    this.#draw();
  }

  /** Sets the text that the server has confirmed; it is drawn with the next frame. */
  confirm(text: string): void {
    this.#confirmed = text;
    this.#drawSoon();
  }

  /** Sets the unverified text after the confirmed text, likewise; null removes it. */
  guess(guess: Guess | null): void {
    if (guess === null && this.#guessed === null) return;
    this.#guessed = guess;
    this.#drawSoon();
  }

  /** Ends the answer with its costs in words; the last answer of a chat can be written again. */
  end(costs: string, isLast: boolean): void {
    this.#guessed = null;
    this.#draw();
    const copy = action('Copy', () => {
      void this.#actions.copy(this.#confirmed).then(
        () => (copy.textContent = 'Copied'),
        () => (copy.textContent = 'Not copied'),
      );
      setTimeout(() => (copy.textContent = 'Copy'), 2000);
    });
    const label = this.#confirmed === '' ? 'Try again' : 'Regenerate';
    const again = action(label, () => this.#actions.regenerate(), { 'data-again': '' });
    this.#costs.textContent = costs;
    this.#below.replaceChildren(...(this.#confirmed === '' ? [] : [copy]), ...(isLast ? [again] : []), this.#costs);
  }

  #drawSoon(): void {
    this.#frame ??= requestAnimationFrame(() => this.#draw());
  }

  #draw(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    this.#text.replaceChildren(renderMarkdown(this.#confirmed));
    this.#place();
  }

  /** Puts the guess where the confirmed text ends: into its last paragraph or item. */
  #place(): void {
    this.#guess.textContent = this.#guessed?.text ?? '';
    this.#guess.toggleAttribute('data-offline', this.#guessed?.offline ?? false);
    this.#guess.title = this.#guessed?.offline ? unverified : '';
    if (this.#guess.textContent === '') return this.#guess.remove();
    let end: Element = this.#text;
    for (
      let last = end.lastElementChild;
      last && /^(P|UL|OL|LI|BLOCKQUOTE)$/.test(last.tagName);
      last = end.lastElementChild
    ) {
      if (last.nextSibling?.textContent?.trim()) break;
      end = last;
    }
    end.append(this.#guess);
  }
}
