import type { Mode, Statistics } from '../outrider/index.js';
import { comparedCounters, liveCounters, readCounter } from './counters.js';
import type { RunChoices } from './counters.js';
import { element, make } from './elements.js';
import { fillRows, numberIn } from './figures.js';
import { reasonNotToCompare } from './gain.js';
import type { Measured } from './gain.js';
import { comparisonSentence } from './sentences.js';

/**
 * The live counters and the comparison of the last two runs. Each live value is an element with `data-counter` (the
 * statistic's name) and `data-value`; counters that do not concern every run are there only while they have a value.
 * Values of the comparison have `data-compared` and `data-mode`.
 */
export class CountersView {
  readonly #verdict = element('verdict', HTMLElement);
  readonly #last: Record<Mode, Measured | null> = { speculative: null, 'cloud-only': null };
  #isAhead = false;

  constructor() {
    this.show(null, 'speculative');
    this.#compare();
  }

  show(statistics: Statistics | null, mode: Mode, choices?: RunChoices): void {
    const tiles = liveCounters.flatMap((counter) => {
      const { name, aheadLabel, concerns, format } = counter;
      const value = readCounter(counter, statistics, mode, choices);
      if (concerns && !Number.isFinite(value)) return [];
      const label = (choices?.isAhead && aheadLabel) || counter.label;
      const cell = numberIn('dd', { 'data-counter': name }, value, format);
      return make('div', concerns ? { class: 'wide' } : {}, make('dt', {}, label), cell);
    });
    element('counters', HTMLElement).replaceChildren(...tiles);
  }

  /**
   * Keeps a finished run for the comparison. A run that it cannot be compared with is dropped, and the page says why.
   */
  keep(run: Measured, mode: Mode, isAhead: boolean): void {
    if (run.summary.tokens === 0) return;
    if (mode === 'speculative') this.#isAhead = isAhead;
    this.#last[mode] = run;
    const other = mode === 'speculative' ? 'cloud-only' : 'speculative';
    const before = this.#last[other];
    const reason = before && reasonNotToCompare(run, before);
    if (reason) this.#last[other] = null;
    this.#compare();
    if (reason) this.#verdict.textContent = reason;
  }

  #compare(): void {
    const summaryOf = (mode: Mode) => this.#last[mode]?.summary ?? null;
    const rows = comparedCounters.map((counter) => {
      const cells = (['speculative', 'cloud-only'] as const).map((mode) => {
        const attributes = { 'data-compared': counter.name, 'data-mode': mode };
        return numberIn('td', attributes, readCounter(counter, summaryOf(mode), mode), counter.format);
      });
      return [counter.label, ...cells] as const;
    });
    fillRows(element('comparison', HTMLTableElement), rows);
    const sentence = comparisonSentence(summaryOf('speculative'), summaryOf('cloud-only'), this.#isAhead);
    if (sentence !== null) this.#verdict.textContent = sentence;
  }
}
