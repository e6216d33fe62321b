import { ChartView } from './chart-view.js';
import { element } from './elements.js';
import { formatCount, formatNumber } from './format.js';
import { lanes } from './race.js';
import type { Track } from './race.js';

/** Speed, bytes and forward passes of the lanes over time, a chart each. Never waiting is the line they are about. */
export class RaceChartsView {
  readonly #names = [...lanes].reverse();
  readonly #speed = this.#chart('Tokens per second', formatNumber);
  readonly #bytes = this.#chart('Bytes sent, up and down', formatCount);
  readonly #passes = this.#chart('Forward passes', formatCount);
  readonly #place = element('race-charts', HTMLElement);

  constructor() {
    this.#place.append(...[this.#speed, this.#bytes, this.#passes].map(({ figure }) => figure));
  }

  /** @param tracks in the order of the lanes */
  show(tracks: readonly Track[]): void {
    this.#place.hidden = false;
    const lines = [...tracks].reverse();
    this.#speed.showTimes(lines.map(({ speeds }) => speeds));
    this.#bytes.showTimes(lines.map(({ samples }) => samples.map(({ ms, bytes }) => ({ ms, value: bytes }))));
    this.#passes.showTimes(
      lines.map(({ samples }) => samples.map(({ ms, passes }) => ({ ms, value: passes }))),
    );
  }

  #chart(title: string, format: (value: number) => string): ChartView {
    return new ChartView({ title, over: 'over time', lines: this.#names.map(({ label }) => label), format });
  }
}
