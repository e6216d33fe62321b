// The form's controls: a number field and a selector, each with its label and the lines below it.

import type { Range } from '../outrider/index.js';
import { make } from './elements.js';
import { stepped } from './settings.js';

/** A number, null for an empty field that may be empty, or the reason why the text is refused. */
export type Parsed = number | null | { reason: string };

/** The values that a number field takes. */
export interface Values {
  parse: (text: string) => Parsed;
  range: Range;
  /** The distance that an arrow key moves. */
  step: number;
}

/** A field for a number. The reason against a text stands below the field as soon as it is typed. */
export class NumberField {
  readonly box: HTMLElement;
  readonly input: HTMLInputElement;
  readonly #label: string;
  readonly #caption: HTMLElement;
  readonly #hint: HTMLElement;
  readonly #reason: HTMLElement;
  readonly #values: () => Values | null;

  /**
   * @param values the values that are taken now; null where the field has no number
   * @param onTyped called after a change by the user
   */
  constructor(id: string, label: string, values: () => Values | null, onTyped: () => void) {
    this.#values = values;
    this.#label = label;
    this.#hint = make('p', { id: `${id}-hint`, class: 'hint' });
    this.#reason = make('p', { id: `${id}-reason`, class: 'reason' });
    // Not type=number, which hides the text that it cannot read.
    const described = { 'aria-describedby': `${id}-hint ${id}-reason` };
    this.input = make('input', { id, inputmode: 'decimal', autocomplete: 'off', ...described });
    this.#caption = make('label', { for: id }, label);
    this.box = make('div', { class: 'field' }, this.#caption, this.input, this.#hint, this.#reason);
    const typed = (): void => {
      this.read();
      onTyped();
    };
    this.input.addEventListener('input', typed);
    this.input.addEventListener('keydown', (event) => {
      const direction = event.key === 'ArrowUp' ? 1 : event.key === 'ArrowDown' ? -1 : 0;
      const [values, current] = [this.#values(), Number(this.input.value)];
      if (direction === 0 || !values) return;
      event.preventDefault();
      if (!Number.isFinite(current)) return;
      this.input.value = String(stepped(values, current, values.range, direction));
      typed();
    });
  }

  /** Sets the papers' letter, if there is one, and the line below the field. */
  describe(symbol: string, hint: string): void {
    const letter = symbol ? [' ', make('i', { class: 'symbol' }, symbol)] : [];
    this.#caption.replaceChildren(this.#label, ...letter);
    this.#hint.textContent = hint;
  }

  /** Reads the field, and shows what is wrong with its text. */
  read(): Parsed {
    const value = this.#values()?.parse(this.input.value) ?? null;
    const reason = value !== null && typeof value !== 'number' ? value.reason : '';
    this.input.setAttribute('aria-invalid', String(reason !== ''));
    this.#reason.textContent = reason;
    return value;
  }
}

/** A selector with lines of text below it: the line NAME has the id `ID-NAME` and the class that `lines` gives it. */
export function selector<Line extends string>(
  id: string,
  label: string,
  options: readonly HTMLElement[],
  lines: Readonly<Record<Line, 'hint' | 'reason'>>,
  selected: string,
  onChange: (selected: string) => void,
): { box: HTMLElement; control: HTMLSelectElement; lines: Record<Line, HTMLElement> } {
  const below = {} as Record<Line, HTMLElement>;
  for (const name of Object.keys(lines) as Line[]) {
    below[name] = make('p', { id: `${id}-${name}`, class: lines[name] });
  }
  const paragraphs = Object.values<HTMLElement>(below);
  const described = paragraphs.map((line) => line.id).join(' ');
  const control = make('select', { id, autocomplete: 'off', 'aria-describedby': described }, ...options);
  control.value = selected;
  control.addEventListener('change', () => onChange(control.value));
  const box = make('div', { class: 'field wide' }, make('label', { for: id }, label), control, ...paragraphs);
  return { box, control, lines: below };
}
