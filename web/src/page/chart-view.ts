import { lineChart } from './chart.js';
import { draw, make } from './elements.js';
import { chartSentence } from './sentences.js';

/** What a chart shows and how it reads. */
export interface ChartOptions {
  title: string;
  /** Names of the lines; the first is the one that the chart is about. */
  lines: readonly string[];
  /** Whether the vertical axis begins at zero. */
  fromZero: boolean;
  format: (value: number) => string;
}

const margins = { left: 52, right: 10, top: 8, bottom: 22 };
const HEIGHT = 150;

/** A line chart over the rounds, as wide as its place; for those who do not see it, a sentence. */
export class ChartView {
  readonly figure = make('figure', { class: 'chart' });
  readonly #options: ChartOptions;
  readonly #svg = draw('svg', { role: 'img', height: HEIGHT });
  #values: readonly (readonly (number | null)[])[] = [];

  constructor(options: ChartOptions) {
    this.#options = options;
    const caption = make('figcaption', {}, `${options.title}, by round`);
    if (options.lines.length > 1) {
      options.lines.forEach((name, index) => {
        const key = draw('svg', { class: 'key', width: 22, height: 8, 'aria-hidden': 'true' });
        key.append(draw('path', { d: 'M1 4h20', class: 'line', 'data-line': index }));
        caption.append(make('span', {}, key, name));
      });
    }
    this.figure.append(caption, this.#svg);
    new ResizeObserver(() => this.#draw()).observe(this.figure);
  }

  /** @param values a list per line, a value per round; null is a gap */
  show(values: readonly (readonly (number | null)[])[]): void {
    this.#values = values;
    this.#draw();
  }

  #draw(): void {
    const { title, fromZero, format } = this.#options;
    const width = Math.floor(this.figure.clientWidth);
    // Hidden, or not yet laid out: the observer calls again.
    if (width === 0) return;
    const { paths, xTicks, yTicks } = lineChart(
      this.#values,
      { width, height: HEIGHT, ...margins },
      fromZero,
    );
    const bottom = HEIGHT - margins.bottom;
    this.#svg.setAttribute('width', String(width));
    this.#svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.#svg.setAttribute('aria-label', chartSentence(title, this.#values[0] ?? [], format));
    this.#svg.replaceChildren(
      ...yTicks.flatMap(({ at, text }) => [
        draw('path', { class: 'grid', d: `M${margins.left} ${at}H${width - margins.right}` }),
        draw('text', { x: margins.left - 6, y: at, dy: '0.35em', 'text-anchor': 'end' }, text),
      ]),
      ...xTicks.map(({ at, text }) => draw('text', { x: at, y: bottom + 16, 'text-anchor': 'middle' }, text)),
      // The line that the chart is about comes last, so that it lies on top.
      ...paths.map((d, index) => draw('path', { class: 'line', 'data-line': index, d })).reverse(),
    );
  }
}
