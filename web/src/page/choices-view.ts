import type { Choices, Scheme } from '../outrider/index.js';
import { element, make } from './elements.js';
import { isUsed, selects } from './settings.js';
import type { Select } from './settings.js';

interface Row {
  select: Select;
  /** The whole field; hidden while the scheme does not use it. */
  box: HTMLElement;
  control: HTMLSelectElement;
  travels: HTMLElement;
}

/** The scheme and the choices that belong to it, each with a sentence on what is chosen. */
export class ChoicesView {
  readonly #rows: Row[] = [];
  #choices: Choices;

  constructor(choices: Choices, onChange: (choices: Choices) => void) {
    this.#choices = { ...choices };
    for (const select of selects) {
      const { option, id, label, entries } = select;
      const options = entries.map(({ name, label }) => make('option', { value: name }, label));
      const attributes = { id, autocomplete: 'off', 'aria-describedby': `${id}-travels` };
      const control = make('select', attributes, ...options);
      control.value = choices[option];
      control.addEventListener('change', () => {
        this.#choices = { ...this.#choices, [option]: control.value };
        onChange(this.choices);
      });
      const travels = make('p', { id: `${id}-travels`, class: 'hint' });
      const box = make('div', { class: 'field wide' }, make('label', { for: id }, label), control, travels);
      this.#rows.push({ select, box, control, travels });
      element('drafting', HTMLFieldSetElement).append(box);
    }
    this.show(choices.scheme);
  }

  get choices(): Choices {
    return this.#choices;
  }

  /** @param scheme what the choice comes to: `ahead` where `auto` is */
  show(scheme: Scheme): void {
    for (const { select, box, control, travels } of this.#rows) {
      box.hidden = !isUsed(select.option, { ...this.#choices, scheme });
      const chosen = select.entries.find(({ name }) => name === control.value);
      travels.textContent = `${select.lead} ${chosen?.explanation ?? ''}`;
    }
  }
}
