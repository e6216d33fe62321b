import { generationRanges } from '../outrider/index.js';
import type { NumberOption, Range } from '../outrider/index.js';
import { element, make } from './elements.js';
import { fields, parseField } from './settings.js';
import type { Field } from './settings.js';

interface Row {
  field: Field;
  input: HTMLInputElement;
  reason: HTMLElement;
}

/** The number fields. A value out of range says why beside its field, as soon as it is typed. */
export class FieldsView {
  readonly #rows: Row[] = [];
  #ranges: Readonly<Record<NumberOption, Range>> = generationRanges;

  constructor(texts: Readonly<Record<NumberOption, string>>, onChange: () => void) {
    for (const field of fields) {
      const { option } = field;
      // Not type=number: it swallows what it cannot read, and then nobody can say what was wrong.
      const input = make('input', {
        id: option,
        inputmode: 'decimal',
        autocomplete: 'off',
        'aria-describedby': `${option}-hint ${option}-reason`,
      });
      input.value = texts[option];
      const reason = make('p', { id: `${option}-reason`, class: 'reason' });
      const label = make('label', { for: option }, field.label);
      if (field.symbol) label.append(' ', make('i', { class: 'symbol' }, field.symbol));
      const hint = make('p', { id: `${option}-hint`, class: 'hint' }, field.hint);
      const row = { field, input, reason };
      input.addEventListener('input', () => {
        this.#read(row);
        onChange();
      });
      input.addEventListener('keydown', (event) => {
        const direction = event.key === 'ArrowUp' ? 1 : event.key === 'ArrowDown' ? -1 : 0;
        if (direction === 0) return;
        event.preventDefault();
        this.#step(row, direction);
        onChange();
      });
      this.#rows.push(row);
      element(field.group, HTMLFieldSetElement).append(
        make('div', { class: 'field' }, label, input, hint, reason),
      );
      this.#read(row);
    }
  }

  /** The fields as typed. */
  get texts(): Record<NumberOption, string> {
    const texts = {} as Record<NumberOption, string>;
    for (const { field, input } of this.#rows) texts[field.option] = input.value.trim();
    return texts;
  }

  /** Narrows what is allowed, once the model and the server are known. */
  limit(ranges: Readonly<Record<NumberOption, Range>>): void {
    this.#ranges = ranges;
    for (const row of this.#rows) this.#read(row);
  }

  /** The numbers, or why one is out of range; the first such field is then focused. */
  read(): { values: Record<NumberOption, number> } | { reason: string } {
    const values = {} as Record<NumberOption, number>;
    for (const row of this.#rows) {
      const value = this.#read(row);
      if (typeof value !== 'number') {
        row.input.focus();
        return value;
      }
      values[row.field.option] = value;
    }
    return { values };
  }

  #read({ field, input, reason }: Row): number | { reason: string } {
    const value = parseField(field, input.value, this.#ranges[field.option]);
    const wrong = typeof value !== 'number';
    input.setAttribute('aria-invalid', String(wrong));
    reason.textContent = wrong ? value.reason : '';
    return value;
  }

  #step(row: Row, direction: number): void {
    const { field, input } = row;
    const { min, max } = this.#ranges[field.option];
    const current = Number(input.value);
    if (!Number.isFinite(current)) return;
    const stepped = Math.min(max, Math.max(min, current + direction * field.step));
    // Steps of a tenth must not show binary fractions.
    input.value = String(Number(stepped.toFixed(4)));
    this.#read(row);
  }
}
