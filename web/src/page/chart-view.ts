import { lineChart, timeChart } from './chart.js';
import type { ChartSize, LineChart, Point } from './chart.js';
import { draw, make } from './elements.js';
import { Drawing } from './figures.js';
import { formatNumber } from './format.js';
import { chartSentence } from './sentences.js';

/** The title, axes and lines of a chart. */
export interface ChartOptions {
  title: string;
  /** The quantity on the horizontal axis. */
  over: 'by round' | 'over time';
  /** Names of the lines; the first is the main one, drawn on top. */
  lines: readonly string[];
  /** True if the vertical axis begins at zero, as it always does over time. */
  fromZero?: boolean;
  format: (value: number) => string;
}

const margins = { left: 52, right: 14, top: 8, bottom: 22 };
const HEIGHT = 150;

/** A line chart, as wide as its place, with a sentence for screen readers. */
export class ChartView {
  readonly figure = make('figure', { class: 'chart' });
  readonly #options: ChartOptions;
  readonly #svg = draw('svg', { role: 'img', height: HEIGHT });
  readonly #drawing: Drawing;
  #chart: (size: ChartSize) => LineChart = (size) => lineChart([], size, true);
  #sentence: string;

  constructor(options: ChartOptions) {
    this.#options = options;
    const { title, over, lines, format } = options;
    this.#sentence = chartSentence(title, [], format);
    const caption = make('figcaption', {}, `${title}, ${over}`);
    if (lines.length > 1) {
      lines.forEach((name, index) => {
        const key = draw('svg', { class: 'key', width: 22, height: 8, 'aria-hidden': 'true' });
        key.append(draw('path', { d: 'M1 4h20', class: 'line', 'data-line': index }));
        caption.append(make('span', {}, key, name));
      });
    }
    this.figure.append(caption, this.#svg);
    this.#drawing = new Drawing(this.figure, (width) => this.#draw(width));
  }

  /** @param values a list per line, a value per round; null is a gap */
  show(values: readonly (readonly (number | null)[])[]): void {
    const { title, fromZero = true, format } = this.#options;
    this.#chart = (size) => lineChart(values, size, fromZero);
    this.#sentence = chartSentence(title, values[0] ?? [], format);
    this.#drawing.now();
  }

  /** @param series a list per line, over the time since its beginning */
  showTimes(series: readonly (readonly Point[])[]): void {
    const { title, lines, format } = this.#options;
    this.#chart = (size) => timeChart(series, size);
    const ends = lines.map((name, index) => {
      const last = series[index]?.at(-1);
      return `${name} ${last ? `${format(last.value)} after ${formatNumber(last.ms / 1000)} s` : 'nothing yet'}`;
    });
    this.#sentence = `${title}: ${ends.join('; ')}.`;
    this.#drawing.now();
  }

  #draw(width: number): void {
    const { paths, xTicks, yTicks } = this.#chart({ width, height: HEIGHT, ...margins });
    const bottom = HEIGHT - margins.bottom;
    this.#svg.setAttribute('width', String(width));
    this.#svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.#svg.setAttribute('aria-label', this.#sentence);
    this.#svg.replaceChildren(
      ...yTicks.flatMap(({ at, text }) => [
        draw('path', { class: 'grid', d: `M${margins.left} ${at}H${width - margins.right}` }),
        draw('text', { x: margins.left - 6, y: at, dy: '0.35em', 'text-anchor': 'end' }, text),
      ]),
      ...xTicks.map(({ at, text }) => draw('text', { x: at, y: bottom + 16, 'text-anchor': 'middle' }, text)),
      // The main line comes last, so that it lies on top.
      ...paths.map((d, index) => draw('path', { class: 'line', 'data-line': index, d })).reverse(),
    );
  }
}
