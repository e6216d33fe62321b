import type { Link, Statistics } from '../outrider/index.js';
import { breakEvenMs, breakEvenSentence, speedupAt, timesOf } from './break-even.js';
import type { AheadTimes } from './break-even.js';
import { draw, element } from './elements.js';
import { Drawing } from './figures.js';
import { formatNumber } from './format.js';

const HEIGHT = 52;
/** Half the width of a slider's thumb: its value is in the middle of it. */
const INSET = 8;
const STEPS = 60;

/** The predicted gain over the round trip, above its slider, with the break-even point and the round trip as set. */
export class BreakEvenView {
  readonly #place = element('break-even', HTMLElement);
  readonly #words = element('break-even-words', HTMLElement);
  readonly #mostMs = Number(element('round-trip', HTMLInputElement).max);
  readonly #svg = draw('svg', { role: 'img', height: HEIGHT, width: '100%' });
  readonly #drawing: Drawing;
  #times: AheadTimes | null = null;
  #addedMs: number;

  constructor({ roundTripMs }: Link) {
    this.#addedMs = roundTripMs;
    this.#place.append(this.#svg);
    this.#drawing = new Drawing(this.#place, (width) => this.#draw(width));
    this.#words.textContent = breakEvenSentence(null, this.#mostMs);
    this.#place.hidden = true;
  }

  /** Takes the times of a text that was written on a link. */
  measure({ ahead }: Statistics, { roundTripMs }: Link): void {
    this.#times = timesOf(ahead, roundTripMs) ?? this.#times;
    this.#words.textContent = breakEvenSentence(this.#times, this.#mostMs);
    this.#place.hidden = this.#times === null;
    this.#drawing.now();
  }

  setLink({ roundTripMs }: Link): void {
    this.#addedMs = roundTripMs;
    this.#drawing.soon();
  }

  #draw(width: number): void {
    const times = this.#times;
    if (!times) return;
    const top = Math.max(1.5, speedupAt(times, 0));
    const x = (ms: number): number => INSET + (Math.min(ms, this.#mostMs) / this.#mostMs) * (width - 2 * INSET);
    const y = (speedup: number): number => HEIGHT - 2 - ((speedup - 1) / (top - 1)) * (HEIGHT - 18);
    const points = Array.from({ length: STEPS + 1 }, (_, step) => (step / STEPS) * this.#mostMs);
    const curve = points.map((ms) => `L${x(ms).toFixed(1)} ${y(speedupAt(times, ms)).toFixed(1)}`).join('');
    const breakEven = breakEvenMs(times);
    const here = speedupAt(times, this.#addedMs);
    this.#svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    const label = `Predicted speed over the round trip: ${formatNumber(here)} times the server alone as set here.`;
    this.#svg.setAttribute('aria-label', `${label} ${this.#words.textContent}`);
    this.#svg.replaceChildren(
      draw('path', { class: 'gain-area', d: `M${x(0)} ${y(1)}${curve}V${y(1)}Z` }),
      draw('path', { class: 'grid', d: `M0 ${y(1)}H${width}` }),
      draw('circle', { class: 'gain-here', cx: x(this.#addedMs), cy: y(here), r: 4 }),
    );
    if (breakEven === null || breakEven > this.#mostMs) return;
    const isLeft = x(breakEven) < width / 2;
    const at = { x: x(breakEven) + (isLeft ? 4 : -4), y: 11, 'text-anchor': isLeft ? 'start' : 'end' };
    this.#svg.append(
      draw('path', { class: 'gain-end', d: `M${x(breakEven)} 0V${y(1)}` }),
      draw('text', at, `break-even: ${Math.round(breakEven)} ms`),
    );
  }
}
