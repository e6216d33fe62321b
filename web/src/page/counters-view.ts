import type { Mode, Statistics } from '../outrider/index.js';
import { comparedCounters, liveCounters, readCounter } from './counters.js';
import type { Counter, RunChoices } from './counters.js';
import { element, make } from './elements.js';
import { reasonNotToCompare } from './gain.js';
import type { Measured } from './gain.js';
import { comparisonSentence } from './sentences.js';

/**
 * The live counters and the comparison. Each live value is an element with `data-counter` (the statistic's name)
 * and `data-value` (the number, or empty while there is none); those that do not concern every run
 * are there only while they have a value. Those of the comparison have `data-compared` and `data-mode`.
 */
export class CountersView {
  readonly #list = element('counters', HTMLElement);
  readonly #live: { counter: Counter; tile: HTMLElement; label: HTMLElement; value: HTMLElement }[] = [];
  readonly #compared: { counter: Counter; mode: Mode; cell: HTMLElement }[] = [];
  readonly #verdict = element('verdict', HTMLElement);
  readonly #last: Record<Mode, Measured | null> = { speculative: null, 'cloud-only': null };
  #isAhead = false;

  constructor() {
    for (const counter of liveCounters) {
      const value = make('dd', { 'data-counter': counter.name });
      const label = make('dt', {}, counter.label);
      const tile = make('div', {}, label, value);
      if (counter.concerns) tile.className = 'wide';
      this.#live.push({ counter, tile, label, value });
      this.#list.append(tile);
    }
    const body = element('comparison', HTMLTableElement).tBodies[0];
    for (const counter of comparedCounters) {
      const row = make('tr', {}, make('th', { scope: 'row' }, counter.label));
      for (const mode of ['speculative', 'cloud-only'] as const) {
        const cell = make('td', { 'data-compared': counter.name, 'data-mode': mode });
        this.#compared.push({ counter, mode, cell });
        row.append(cell);
      }
      body?.append(row);
    }
    this.show(null, 'speculative');
    this.#compare();
  }

  show(statistics: Statistics | null, mode: Mode, choices?: RunChoices): void {
    for (const { counter, tile, label, value } of this.#live) {
      const shown = readCounter(counter, statistics, mode, choices);
      fill(value, shown);
      const { aheadLabel } = counter;
      if (aheadLabel) label.textContent = choices?.isAhead ? aheadLabel : counter.label;
      if (!counter.concerns) continue;
      if (shown.value === '') tile.remove();
      else if (!tile.isConnected) this.#list.append(tile);
    }
  }

  /** Keeps a finished run for the comparison. What it cannot be compared with is dropped, and the page says why. */
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
    for (const { counter, mode, cell } of this.#compared) {
      fill(cell, readCounter(counter, this.#last[mode]?.summary ?? null, mode));
    }
    const [speculative, alone] = [this.#last.speculative?.summary, this.#last['cloud-only']?.summary];
    const sentence = comparisonSentence(speculative ?? null, alone ?? null, this.#isAhead);
    if (sentence !== null) this.#verdict.textContent = sentence;
  }
}

function fill(cell: HTMLElement, { value, text }: { value: string; text: string }): void {
  cell.dataset['value'] = value;
  cell.textContent = text;
}
