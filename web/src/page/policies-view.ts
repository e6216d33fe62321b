import { policyDefaults, policyOptions, reasonAgainstPolicy } from '../outrider/index.js';
import type { Heads, Policy, Scheme } from '../outrider/index.js';
import { NumberField, selector } from './controls.js';
import { addField, element, make } from './elements.js';
import { showGuarantee } from './guarantee-view.js';
import { explanationOf, guaranteeOf, missingSentence, policyOf, policySelects, rangeHint } from './policies.js';
import type { ChosenPolicies, Guarantee, PolicySelect, PolicySettings } from './policies.js';
import { parseNumber } from './settings.js';

/** The distance that an arrow key moves a parameter. */
const STEP = 0.05;

/**
 * The acceptance rule, the gate and the stop rule, each with a sentence on what is chosen and its number, and the switch
 * of AS². The draft model's heads decide which of them are offered, so the selectors wait for {@link offer}.
 */
export class PoliciesView {
  readonly #rows;
  readonly #adaptive = element('adaptiveMode', HTMLInputElement);
  readonly #onChange: () => void;
  readonly #settings: PolicySettings;
  #scheme: Scheme;
  #isAhead = false;
  #ownDraws = false;
  #heads: Heads | null = null;
  #guarantee: Guarantee | null = null;

  constructor(settings: PolicySettings, scheme: Scheme, onChange: () => void) {
    this.#settings = structuredClone(settings);
    this.#scheme = scheme;
    this.#onChange = onChange;
    this.#rows = policySelects.map((select) => this.#rowOf(select));
    this.#adaptive.checked = settings.adaptiveMode;
    this.#adaptive.addEventListener('change', () => {
      this.#settings.adaptiveMode = this.#adaptive.checked;
      onChange();
    });
  }

  /** The settings as chosen; a number that is its policy's default is left out. */
  get settings(): PolicySettings {
    return this.#settings;
  }

  /** The guarantee of the next text; null until the engine is ready. */
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
   * Offers the rules that the scheme allows.
   * @param isAhead whether the text has no rounds, so that nothing ends one
   * @param ownDraws whether the server makes its own random draws
   */
  setScheme(scheme: Scheme, isAhead: boolean, ownDraws: boolean): void {
    if (scheme === this.#scheme && isAhead === this.#isAhead && ownDraws === this.#ownDraws) return;
    element('rounds', HTMLFieldSetElement).hidden = isAhead;
    this.#scheme = scheme;
    this.#isAhead = isAhead;
    this.#ownDraws = ownDraws;
    this.#show();
  }

  /** The chosen policies, or why one is not possible; its field is then focused. */
  read(): ChosenPolicies | { reason: string } {
    const heads = this.#heads;
    if (!heads) return { reason: 'The draft engine is not ready.' };
    const policies = {} as ChosenPolicies['policies'];
    const values: ChosenPolicies['values'] = {};
    for (const { option, control, field } of this.#rows) {
      if (this.#isAhead && option === 'stopRule') {
        policies[option] = policyOf(option, policyDefaults[option]);
        continue;
      }
      const policy = this.#chosen(option);
      const reason = reasonAgainstPolicy(policy, option, this.#scheme, heads);
      if (reason !== null) {
        control.focus();
        return { reason: `${policy.name} ${reason}.` };
      }
      policies[option] = policy;
      const value = field.read();
      if (value === null) continue;
      if (typeof value !== 'number') {
        field.input.focus();
        return value;
      }
      values[policyOptions[option].parameter] = value;
    }
    return { policies, values, adaptiveMode: this.#settings.adaptiveMode && !this.#isAhead };
  }

  #chosen(option: PolicySelect['option']): Policy {
    return policyOf(option, this.#settings.names[option]);
  }

  #rowOf({ option, label, parameterLabel, entries, group }: PolicySelect) {
    const { names, texts } = this.#settings;
    const lines = { explanation: 'hint', reason: 'reason', missing: 'hint' } as const;
    const choice = selector(option, label, optionsOf(entries), lines, names[option], (chosen) => {
      names[option] = chosen;
      // The number of one rule has no meaning for another.
      texts[option] = '';
      this.#show();
      this.#onChange();
    });
    choice.control.disabled = true;
    const values = () => {
      const { parameter } = this.#chosen(option);
      if (!parameter) return null;
      const { symbol, range } = parameter;
      return { parse: (text: string) => parseNumber(`${label}: ${symbol}`, text, range), range, step: STEP };
    };
    const field = new NumberField(policyOptions[option].parameter, parameterLabel, values, () => {
      const text = field.input.value.trim();
      texts[option] = text === String(this.#chosen(option).parameter?.default) ? '' : text;
      this.#judge();
      this.#onChange();
    });
    field.box.hidden = true;
    addField(group, choice.box);
    addField(group, field.box);
    return { option, entries, ...choice, field };
  }

  #show(): void {
    const heads = this.#heads;
    if (!heads) return;
    for (const { option, entries, control, lines, field } of this.#rows) {
      const chosen = this.#chosen(option);
      lines.explanation.textContent = explanationOf(option, chosen, this.#chosen('gate'));
      const against = (policy: Policy) => reasonAgainstPolicy(policy, option, this.#scheme, heads);
      const reason = against(chosen);
      lines.reason.textContent = reason === null ? '' : `${chosen.name} ${reason}.`;
      control.setAttribute('aria-invalid', String(reason !== null));
      lines.missing.textContent = missingSentence(option, chosen, this.#scheme, heads);
      for (const choice of control.options) {
        const policy = entries.find(({ name }) => name === choice.value);
        if (policy) choice.disabled = against(policy) !== null;
      }
      const { parameter } = chosen;
      field.box.hidden = parameter === null;
      if (!parameter) continue;
      field.describe(parameter.symbol, rangeHint(parameter.range, parameter.default));
      field.input.value = this.#settings.texts[option] || String(parameter.default);
    }
    this.#judge();
  }

  /** Shows what is wrong with a number beside its field, and the guarantee of the next text at the top. */
  #judge(): void {
    const policies = {} as ChosenPolicies['policies'];
    const values: ChosenPolicies['values'] = {};
    for (const { option, field } of this.#rows) {
      policies[option] = this.#chosen(option);
      const value = field.read();
      if (typeof value === 'number') values[policyOptions[option].parameter] = value;
    }
    this.#guarantee = guaranteeOf({ policies, values }, this.#isAhead, this.#ownDraws);
    showGuarantee(element('guarantee-chosen', HTMLElement), this.#guarantee);
  }
}

/** The options of a selector; where some are lossy, in two groups that say so. */
function optionsOf(policies: readonly Policy[]): HTMLElement[] {
  const options = (lossy: boolean) =>
    policies.filter((policy) => policy.lossy === lossy).map(({ name }) => make('option', { value: name }, name));
  if (!policies.some(({ lossy }) => lossy)) return options(false);
  return [
    make('optgroup', { label: 'exact' }, ...options(false)),
    make('optgroup', { label: 'lossy' }, ...options(true)),
  ];
}
