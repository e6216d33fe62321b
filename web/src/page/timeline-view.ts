import type { Round } from '../outrider/index.js';
import { axis } from './chart.js';
import { draw, element } from './elements.js';
import { Drawing } from './figures.js';
import { eventOf, SHOWN_EVENTS, timelineSentence } from './timeline.js';
import type { Event } from './timeline.js';
import type { Cell } from './rounds.js';

const HEIGHT = 96;
/** From the top: drafting, the way there and back, the tokens; then the axis. */
const LANES = { draft: 4, link: 22, tokens: 44, axis: HEIGHT - 4 };
const LABELS = 62;

/** The last rounds or guesses over time: a bar for drafting, one for link and server, a mark for each token. */
export class TimelineView {
  readonly #svg = draw('svg', { role: 'img', height: HEIGHT });
  #events: Event[] = [];
  readonly #drawing: Drawing;

  constructor() {
    const place = element('timeline', HTMLElement);
    place.append(this.#svg);
    this.#drawing = new Drawing(place, (width) => this.#draw(width));
  }

  begin(): void {
    this.#events = [];
    this.#drawing.now();
  }

  add(round: Round): void {
    if (round.tokens.length === 0) return;
    this.#events.push(eventOf(round));
    if (this.#events.length > SHOWN_EVENTS) this.#events.shift();
    this.#drawing.soon();
  }

  #draw(width: number): void {
    const first = this.#events[0]?.draftMs ?? 0;
    const ticks = axis([first, this.#events.at(-1)?.answerMs ?? 1000], false);
    const [low, high] = [ticks[0] ?? 0, ticks.at(-1) ?? 1];
    const x = (ms: number): number => LABELS + ((ms - low) / (high - low)) * (width - LABELS - 8);
    const bar = (kind: string, from: number, to: number, y: number) => {
      const box = { x: x(from), y, width: Math.max(1, x(to) - x(from)), height: 12 };
      return draw('rect', { class: 'span', 'data-kind': kind, ...box });
    };
    const mark = (cell: Cell, at: number, index: number) => {
      const box = { x: x(at) - 4, y: LANES.tokens + 7 * index, width: 6, height: 6 };
      return draw('rect', { class: 'mark-of', 'data-cell': cell, ...box, rx: cell === 'accepted' ? 1 : 3 });
    };
    this.#svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.#svg.setAttribute('width', String(width));
    this.#svg.setAttribute('aria-label', timelineSentence(this.#events));
    const label = (words: string, y: number) => draw('text', { x: 0, y }, words);
    this.#svg.replaceChildren(
      label('drafting', LANES.draft + 10),
      label('waiting', LANES.link + 10),
      label('tokens', LANES.tokens + 10),
      ...ticks.flatMap((tick) => [
        draw('path', { class: 'grid', d: `M${x(tick)} 0V${HEIGHT - 18}` }),
        draw('text', { x: x(tick), y: LANES.axis, 'text-anchor': 'middle' }, `${Math.round(tick)} ms`),
      ]),
      ...this.#events.flatMap(({ draftMs, sentMs, answerMs, cells }) => [
        ...(sentMs > draftMs ? [bar('draft', draftMs, sentMs, LANES.draft)] : []),
        ...(answerMs > sentMs ? [bar('link', sentMs, answerMs, LANES.link)] : []),
        ...cells.slice(0, 5).map((cell, index) => mark(cell, answerMs, index)),
      ]),
    );
  }
}
