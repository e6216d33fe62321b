import type { Choices, Scheme } from '../outrider/index.js';
import { selector } from './controls.js';
import { element, make } from './elements.js';
import { isUsed, selects } from './settings.js';

/** The scheme and the choices that belong to it, each with a sentence on what is chosen. */
export class ChoicesView {
  readonly #rows;
  #choices: Choices;

  constructor(choices: Choices, onChange: (choices: Choices) => void) {
    this.#choices = { ...choices };
    this.#rows = selects.map((select) => {
      const { option, id, label, entries } = select;
      const options = entries.map(({ name, label }) => make('option', { value: name }, label));
      const change = (chosen: string): void => {
        this.#choices = { ...this.#choices, [option]: chosen };
        onChange(this.choices);
      };
      return { select, ...selector(id, label, options, { travels: 'hint' }, choices[option], change) };
    });
    element('drafting', HTMLFieldSetElement).append(...this.#rows.map(({ box }) => box));
    this.show(choices.scheme);
  }

  get choices(): Choices {
    return this.#choices;
  }

  /** @param scheme the scheme that the choice resolves to: `ahead` where `auto` is */
  show(scheme: Scheme): void {
    for (const { select, box, control, lines } of this.#rows) {
      box.hidden = !isUsed(select.option, { ...this.#choices, scheme });
      const chosen = select.entries.find(({ name }) => name === control.value);
      lines.travels.textContent = `${select.lead} ${chosen?.explanation ?? ''}`;
    }
  }
}
