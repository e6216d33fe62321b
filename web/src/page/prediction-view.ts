import type { Link, Round, Statistics, Summary } from '../outrider/index.js';
import { element, make } from './elements.js';
import { formatNumber } from './format.js';
import type { ChosenPolicies } from './policies.js';
import { predict, RoundTimes, sameLink } from './prediction.js';
import type { Prediction, PredictedRun } from './prediction.js';
import { predictionSentence } from './sentences.js';

const rows: readonly { name: keyof Prediction; label: string }[] = [
  { name: 'speedup', label: 'Speed-up over the server alone' },
  { name: 'tokensPerRound', label: 'Tokens per round' },
];

/**
 * What the closed form predicts of the last speculative run, and what came out. Each number is a cell with
 * `data-prediction`, `data-kind` (`predicted`, `measured`) and `data-value`, empty while there is none.
 */
export class PredictionView {
  readonly #cells: { name: keyof Prediction; kind: 'predicted' | 'measured'; cell: HTMLElement }[] = [];
  readonly #note = element('prediction-note', HTMLElement);
  /** The last run of the server alone, and the link that it was on. */
  #alone: { tokensPerSecond: number; link: Link } | null = null;
  #link: Link;
  #run: (PredictedRun & { isAdaptive: boolean; isAhead: boolean }) | null = null;
  #times = new RoundTimes();
  #statistics: Statistics | null = null;

  constructor(link: Link) {
    this.#link = { ...link };
    const body = element('prediction', HTMLTableElement).tBodies[0];
    for (const { name, label } of rows) {
      const row = make('tr', {}, make('th', { scope: 'row' }, label));
      for (const kind of ['predicted', 'measured'] as const) {
        const cell = make('td', { 'data-prediction': name, 'data-kind': kind });
        this.#cells.push({ name, kind, cell });
        row.append(cell);
      }
      body?.append(row);
    }
    this.#show();
  }

  /** A speculative run under these policies begins. */
  begin({ policies, adaptiveMode }: ChosenPolicies, maxInFlight: number, isAhead: boolean): void {
    this.#run = {
      hasBonus: policies.rule.hasBonus ?? false,
      hasGate: policies.gate.name !== 'none',
      isPipelined: maxInFlight > 1,
      isAdaptive: adaptiveMode,
      isAhead,
    };
    this.#times = new RoundTimes();
    this.#statistics = null;
    this.#show();
  }

  add({ round, statistics }: Round): void {
    if (round) this.#times.add(round);
    this.#statistics = statistics;
    this.#show();
  }

  /** The server alone has written a text on `link`, all of it. */
  compareWith({ tokens, tokensPerSecond }: Summary, link: Link): void {
    if (tokens === 0) return;
    this.#alone = { tokensPerSecond, link: { ...link } };
    this.#show();
  }

  /** The link is another now; what was measured on the old one says nothing of it. */
  setLink(link: Link): void {
    this.#link = { ...link };
    this.#show();
  }

  #show(): void {
    const alone = this.#alone && sameLink(this.#alone.link, this.#link) ? this.#alone.tokensPerSecond : null;
    const prediction =
      this.#run && this.#statistics ? predict(this.#statistics, this.#times, this.#run, alone) : null;
    for (const { name, kind, cell } of this.#cells) {
      const value = prediction?.[name][kind] ?? Number.NaN;
      cell.dataset['value'] = Number.isFinite(value) ? String(value) : '';
      cell.textContent = formatNumber(value);
    }
    this.#note.textContent = predictionSentence({
      isAloneKnown: alone !== null,
      hasGate: this.#run?.hasGate ?? false,
      isPipelined: this.#run?.isPipelined ?? false,
      isAdaptive: this.#run?.isAdaptive ?? false,
      isAhead: this.#run?.isAhead ?? false,
    });
  }
}
