import type { Link, Round, Statistics, Summary } from '../outrider/index.js';
import { element } from './elements.js';
import { fillRows, numberIn } from './figures.js';
import { formatNumber } from './format.js';
import type { ChosenPolicies } from './policies.js';
import { predict, RoundTimes, sameLink } from './prediction.js';
import type { Prediction, PredictedRun } from './prediction.js';
import { predictionSentence } from './sentences.js';

const figures: readonly { name: keyof Prediction; label: string }[] = [
  { name: 'speedup', label: 'Speed-up over the server alone' },
  { name: 'tokensPerRound', label: 'Tokens per round' },
];

/**
 * The closed form's prediction of the last speculative run beside the measurement. Each number is a cell with
 * `data-prediction`, `data-kind` (`predicted`, `measured`) and `data-value`, empty while there is none.
 */
export class PredictionView {
  /** The speed of the last run of the server alone, and its link. */
  #alone: { tokensPerSecond: number; link: Link } | null = null;
  #link: Link;
  #run: (PredictedRun & { isAdaptive: boolean; isAhead: boolean }) | null = null;
  #times = new RoundTimes();
  #statistics: Statistics | null = null;

  constructor(link: Link) {
    this.#link = { ...link };
    this.#show();
  }

  /** Begins a speculative run under these policies. */
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

  /** Takes a run of the server alone that was on `link` throughout. */
  compareWith({ tokens, tokensPerSecond }: Summary, link: Link): void {
    if (tokens === 0) return;
    this.#alone = { tokensPerSecond, link: { ...link } };
    this.#show();
  }

  /** Changes the link; measurements on another link are not used. */
  setLink(link: Link): void {
    this.#link = { ...link };
    this.#show();
  }

  #show(): void {
    const alone = this.#alone && sameLink(this.#alone.link, this.#link) ? this.#alone.tokensPerSecond : null;
    const prediction = this.#run && this.#statistics ? predict(this.#statistics, this.#times, this.#run, alone) : null;
    const rows = figures.map(({ name, label }) => {
      const cells = (['predicted', 'measured'] as const).map((kind) => {
        const attributes = { 'data-prediction': name, 'data-kind': kind };
        return numberIn('td', attributes, prediction?.[name][kind] ?? Number.NaN, formatNumber);
      });
      return [label, ...cells] as const;
    });
    fillRows(element('prediction', HTMLTableElement), rows);
    const { hasGate = false, isPipelined = false, isAdaptive = false, isAhead = false } = this.#run ?? {};
    const run = { isAloneKnown: alone !== null, hasGate, isPipelined, isAdaptive, isAhead };
    element('prediction-note', HTMLElement).textContent = predictionSentence(run);
  }
}
