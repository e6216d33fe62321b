import { generationRanges } from '../outrider/index.js';
import type { NumberOption, Range } from '../outrider/index.js';
import { NumberField } from './controls.js';
import { addField } from './elements.js';
import { fields, parseField } from './settings.js';

/** The number fields of the form. */
export class FieldsView {
  readonly #rows: readonly { option: NumberOption; field: NumberField }[];
  #ranges: Readonly<Record<NumberOption, Range>> = generationRanges;

  constructor(texts: Readonly<Record<NumberOption, string>>, onChange: () => void) {
    this.#rows = fields.map((description) => {
      const { option, label, symbol, explanation, unset = '', group, step } = description;
      const values = () => {
        const range = this.#ranges[option];
        return { parse: (text: string) => parseField(description, text, range), range, step };
      };
      const field = new NumberField(option, label, values, onChange);
      field.describe(symbol, explanation);
      field.input.placeholder = unset;
      field.input.value = texts[option];
      addField(group, field.box);
      field.read();
      return { option, field };
    });
  }

  /** The texts of the fields as typed. */
  get texts(): Record<NumberOption, string> {
    const texts = this.#rows.map(({ option, field }) => [option, field.input.value.trim()]);
    return Object.fromEntries(texts) as Record<NumberOption, string>;
  }

  /** Narrows the ranges, once the model and the server are known. */
  limit(ranges: Readonly<Record<NumberOption, Range>>): void {
    this.#ranges = ranges;
    for (const { field } of this.#rows) field.read();
  }

  /** Hides the fields that nothing uses; their texts are kept. */
  show(isUsed: (option: NumberOption) => boolean): void {
    for (const { option, field } of this.#rows) field.box.hidden = !isUsed(option);
  }

  /** The numbers in use, or why one is out of range; the first such field is then focused. */
  read(): { values: Partial<Record<NumberOption, number>> } | { reason: string } {
    const values: Partial<Record<NumberOption, number>> = {};
    for (const { option, field } of this.#rows) {
      const value = field.box.hidden ? null : field.read();
      if (value === null) continue;
      if (typeof value !== 'number') {
        field.input.focus();
        return value;
      }
      values[option] = value;
    }
    return { values };
  }
}
