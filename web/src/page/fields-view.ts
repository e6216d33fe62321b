import { generationRanges } from '../outrider/index.js';
import type { NumberOption, Range } from '../outrider/index.js';
import { addField, make } from './elements.js';
import { fields, parseField, stepped } from './settings.js';
import type { Field } from './settings.js';

interface Row {
  field: Field;
  /** The whole field; hidden while nothing uses it. */
  box: HTMLElement;
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
        placeholder: field.unset ?? '',
        'aria-describedby': `${option}-hint ${option}-reason`,
      });
      input.value = texts[option];
      const reason = make('p', { id: `${option}-reason`, class: 'reason' });
      const label = make('label', { for: option }, field.label);
      if (field.symbol) label.append(' ', make('i', { class: 'symbol' }, field.symbol));
      const hint = make('p', { id: `${option}-hint`, class: 'hint' }, field.explanation);
      const box = make('div', { class: 'field' }, label, input, hint, reason);
      const row = { field, box, input, reason };
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
      addField(field.group, box);
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

  /** Hides the fields that nothing uses. What stands in them is kept. */
  show(isUsed: (option: NumberOption) => boolean): void {
    for (const { field, box } of this.#rows) box.hidden = !isUsed(field.option);
  }

  /** The numbers in use, or why one is out of range; the first such field is then focused. */
  read(): { values: Partial<Record<NumberOption, number>> } | { reason: string } {
    const values: Partial<Record<NumberOption, number>> = {};
    for (const row of this.#rows) {
      if (row.box.hidden) continue;
      const value = this.#read(row);
      if (value === null) continue;
      if (typeof value !== 'number') {
        row.input.focus();
        return value;
      }
      values[row.field.option] = value;
    }
    return { values };
  }

  #read({ field, input, reason }: Row): number | null | { reason: string } {
    const value = parseField(field, input.value, this.#ranges[field.option]);
    const wrong = value !== null && typeof value !== 'number';
    input.setAttribute('aria-invalid', String(wrong));
    reason.textContent = wrong ? value.reason : '';
    return value;
  }

  #step(row: Row, direction: 1 | -1): void {
    const { field, input } = row;
    const current = Number(input.value);
    if (!Number.isFinite(current)) return;
    input.value = String(stepped(field, current, this.#ranges[field.option], direction));
    this.#read(row);
  }
}
