import { policyDefaults, policyOptions, reasonAgainstPolicy } from '../outrider/index.js';
import type { Heads, Policy, Scheme } from '../outrider/index.js';
import { addField, element, make } from './elements.js';
import { showGuarantee } from './guarantee-view.js';
import {
  explanationOf,
  guaranteeOf,
  missingSentence,
  policyOf,
  policySelects,
  rangeHint,
} from './policies.js';
import type { ChosenPolicies, Guarantee, PolicySelect, PolicySettings } from './policies.js';
import { parseNumber, stepped } from './settings.js';

/** How far an arrow key moves a parameter. */
const STEP = 0.05;

interface Row {
  select: PolicySelect;
  control: HTMLSelectElement;
  explanation: HTMLElement;
  /** Why what is chosen cannot be had. */
  reason: HTMLElement;
  missing: HTMLElement;
  /** The field of the number; hidden where none comes with what is chosen. */
  box: HTMLElement;
  symbol: HTMLElement;
  input: HTMLInputElement;
  hint: HTMLElement;
  inputReason: HTMLElement;
}

/**
 * The acceptance rule, the gate and the stop rule, each with a sentence on what is chosen and its number, and the switch
 * of AS². Which of them can be had depends on the draft model's heads, so the selectors wait for {@link offer}.
 */
export class PoliciesView {
  readonly #rows: Row[];
  readonly #adaptive = element('adaptiveMode', HTMLInputElement);
  readonly #onChange: () => void;
  #settings: PolicySettings;
  #scheme: Scheme;
  #isAhead = false;
  #ownDraws = false;
  #heads: Heads | null = null;
  #guarantee: Guarantee | null = null;

  constructor(settings: PolicySettings, scheme: Scheme, onChange: () => void) {
    this.#settings = structuredClone(settings);
    this.#scheme = scheme;
    this.#onChange = onChange;
    this.#rows = policySelects.map((select) => this.#addRow(select));
    this.#adaptive.checked = settings.adaptiveMode;
    this.#adaptive.addEventListener('change', () => {
      this.#settings.adaptiveMode = this.#adaptive.checked;
      onChange();
    });
  }

  /** As chosen; numbers that are a policy's default are left out. */
  get settings(): PolicySettings {
    return this.#settings;
  }

  /** What the next text will promise; null before the engine is there. */
  get guarantee(): Guarantee | null {
    return this.#guarantee;
  }

  /** Enables the selectors, once it is known which heads the draft model has. */
  offer(heads: Heads): void {
    this.#heads = heads;
    for (const { control } of this.#rows) control.disabled = false;
    this.#show();
  }

  /**
   * The scheme decides which rules can be had.
   * @param isAhead whether it has no rounds: nothing then ends one
   * @param ownDraws whether the server's draws are its own
   */
  setScheme(scheme: Scheme, isAhead: boolean, ownDraws: boolean): void {
    if (scheme === this.#scheme && isAhead === this.#isAhead && ownDraws === this.#ownDraws) return;
    element('rounds', HTMLFieldSetElement).hidden = isAhead;
    this.#scheme = scheme;
    this.#isAhead = isAhead;
    this.#ownDraws = ownDraws;
    this.#show();
  }

  /** What is chosen, or why it cannot be had; the field to blame is then focused. */
  read(): ChosenPolicies | { reason: string } {
    const heads = this.#heads;
    if (!heads) return { reason: 'The draft engine is not ready.' };
    const policies = {} as ChosenPolicies['policies'];
    const values: ChosenPolicies['values'] = {};
    for (const row of this.#rows) {
      const { option } = row.select;
      if (this.#isAhead && option === 'stopRule') {
        policies[option] = policyOf(option, policyDefaults[option]);
        continue;
      }
      const policy = this.#chosen(row);
      const reason = reasonAgainstPolicy(policy, option, this.#scheme, heads);
      if (reason !== null) {
        row.control.focus();
        return { reason: `${policy.name} ${reason}.` };
      }
      policies[option] = policy;
      const value = this.#value(row, policy);
      if (value === null) continue;
      if (typeof value !== 'number') {
        row.input.focus();
        return value;
      }
      values[policyOptions[option].parameter] = value;
    }
    return { policies, values, adaptiveMode: this.#settings.adaptiveMode && !this.#isAhead };
  }

  #chosen({ select: { option } }: Row): Policy {
    return policyOf(option, this.#settings.names[option]);
  }

  /** The number of a row; null where there is none. */
  #value({ select, input }: Row, { parameter }: Policy): number | { reason: string } | null {
    return parameter && parseNumber(`${select.label}: ${parameter.symbol}`, input.value, parameter.range);
  }

  #addRow(select: PolicySelect): Row {
    const { option, label, parameterLabel } = select;
    const parameter = policyOptions[option].parameter;
    const control = make(
      'select',
      {
        id: option,
        autocomplete: 'off',
        'aria-describedby': `${option}-explanation ${option}-reason ${option}-missing`,
      },
      ...optionsOf(select.entries),
    );
    control.value = this.#settings.names[option];
    control.disabled = true;
    const explanation = make('p', { id: `${option}-explanation`, class: 'hint' });
    const reason = make('p', { id: `${option}-reason`, class: 'reason' });
    const missing = make('p', { id: `${option}-missing`, class: 'hint' });
    const choice = make('div', { class: 'field wide' }, make('label', { for: option }, label), control);
    choice.append(explanation, reason, missing);

    const input = make('input', {
      id: parameter,
      inputmode: 'decimal',
      autocomplete: 'off',
      'aria-describedby': `${parameter}-hint ${parameter}-reason`,
    });
    const symbol = make('i', { class: 'symbol' });
    const hint = make('p', { id: `${parameter}-hint`, class: 'hint' });
    const inputReason = make('p', { id: `${parameter}-reason`, class: 'reason' });
    const caption = make('label', { for: parameter }, parameterLabel, ' ', symbol);
    const box = make('div', { class: 'field' }, caption, input, hint, inputReason);
    box.hidden = true;
    const row: Row = { select, control, explanation, reason, missing, box, symbol, input, hint, inputReason };

    control.addEventListener('change', () => {
      this.#settings.names[option] = control.value;
      // A number of one rule means nothing to another.
      this.#settings.texts[option] = '';
      this.#show();
      this.#onChange();
    });
    input.addEventListener('input', () => this.#typed(row));
    input.addEventListener('keydown', (event) => {
      const direction = event.key === 'ArrowUp' ? 1 : event.key === 'ArrowDown' ? -1 : 0;
      const range = this.#chosen(row).parameter?.range;
      const current = Number(input.value);
      if (direction === 0 || !range || !Number.isFinite(current)) return;
      event.preventDefault();
      input.value = String(stepped({ step: STEP }, current, range, direction));
      this.#typed(row);
    });
    addField(select.group, choice);
    addField(select.group, box);
    return row;
  }

  #typed({ select: { option }, input }: Row): void {
    const policy = policyOf(option, this.#settings.names[option]);
    const text = input.value.trim();
    this.#settings.texts[option] = text === String(policy.parameter?.default) ? '' : text;
    this.#judge();
    this.#onChange();
  }

  #show(): void {
    const heads = this.#heads;
    if (!heads) return;
    const gate = policyOf('gate', this.#settings.names.gate);
    for (const row of this.#rows) {
      const { option } = row.select;
      const chosen = this.#chosen(row);
      row.explanation.textContent = explanationOf(option, chosen, gate);
      const reason = reasonAgainstPolicy(chosen, option, this.#scheme, heads);
      row.reason.textContent = reason === null ? '' : `${chosen.name} ${reason}.`;
      row.control.setAttribute('aria-invalid', String(reason !== null));
      row.missing.textContent = missingSentence(option, chosen, this.#scheme, heads);
      for (const { element, policy } of named(row.control, row.select.entries)) {
        element.disabled = reasonAgainstPolicy(policy, option, this.#scheme, heads) !== null;
      }
      const { parameter } = chosen;
      row.box.hidden = parameter === null;
      if (!parameter) continue;
      row.symbol.textContent = parameter.symbol;
      row.hint.textContent = rangeHint(parameter.range, parameter.default);
      row.input.value = this.#settings.texts[option] || String(parameter.default);
    }
    this.#judge();
  }

  /** Says beside its field what is wrong with a number, and above all what the text will be worth. */
  #judge(): void {
    const policies = {} as ChosenPolicies['policies'];
    const numbers: ChosenPolicies['values'] = {};
    for (const row of this.#rows) {
      const policy = this.#chosen(row);
      policies[row.select.option] = policy;
      const value = this.#value(row, policy);
      if (typeof value === 'number') numbers[policyOptions[row.select.option].parameter] = value;
      const wrong = value !== null && typeof value !== 'number';
      row.input.setAttribute('aria-invalid', String(wrong));
      row.inputReason.textContent = wrong ? value.reason : '';
    }
    this.#guarantee = guaranteeOf({ policies, values: numbers }, this.#isAhead, this.#ownDraws);
    showGuarantee(element('guarantee-chosen', HTMLElement), this.#guarantee);
  }
}

/** The options of a selector; where some are lossy, in two groups that say so. */
function optionsOf(policies: readonly Policy[]): HTMLElement[] {
  const options = (some: readonly Policy[]) => some.map(({ name }) => make('option', { value: name }, name));
  const lossy = policies.filter((policy) => policy.lossy);
  if (lossy.length === 0) return options(policies);
  return [
    make('optgroup', { label: 'exact' }, ...options(policies.filter((policy) => !policy.lossy))),
    make('optgroup', { label: 'lossy' }, ...options(lossy)),
  ];
}

/** The options of a selector with the policies that they stand for. */
function named(
  control: HTMLSelectElement,
  policies: readonly Policy[],
): { element: HTMLOptionElement; policy: Policy }[] {
  return [...control.options].flatMap((element) => {
    const policy = policies.find(({ name }) => name === element.value);
    return policy ? [{ element, policy }] : [];
  });
}
