import type { Round } from '../outrider/index.js';
import { axis } from './chart.js';
import { draw, element } from './elements.js';
import { eventOf, SHOWN_EVENTS, timelineSentence } from './timeline.js';
import type { Event } from './timeline.js';

const HEIGHT = 96;
/** From the top: drafting, the way there and back, the tokens; then the axis. */
const LANES = { draft: 4, link: 22, tokens: 44, axis: HEIGHT - 4 };
const LABELS = 62;

/** The last rounds or guesses over time: a bar for drafting, one for link and server, a mark for each token. */
export class TimelineView {
  readonly #place = element('timeline', HTMLElement);
  readonly #svg = draw('svg', { role: 'img', height: HEIGHT });
  #events: Event[] = [];
  #frame: number | null = null;

  constructor() {
    this.#place.append(this.#svg);
    new ResizeObserver(() => this.#draw()).observe(this.#place);
  }

  begin(): void {
    this.#events = [];
    this.#draw();
  }

  add(round: Round): void {
    if (round.tokens.length === 0) return;
    this.#events.push(eventOf(round));
    if (this.#events.length > SHOWN_EVENTS) this.#events.shift();
    this.#frame ??= requestAnimationFrame(() => this.#draw());
  }

  #draw(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    const width = Math.floor(this.#place.clientWidth);
    if (width === 0) return;
    const first = this.#events[0]?.draftMs ?? 0;
    const ticks = axis([first, this.#events.at(-1)?.answerMs ?? 1000], false);
    const [low, high] = [ticks[0] ?? 0, ticks.at(-1) ?? 1];
    const x = (ms: number): number => LABELS + ((ms - low) / (high - low)) * (width - LABELS - 8);
    const bar = (kind: string, from: number, to: number, y: number) =>
      draw('rect', {
        class: 'span',
        'data-kind': kind,
        x: x(from),
        y,
        width: Math.max(1, x(to) - x(from)),
        height: 12,
      });
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
        ...cells.slice(0, 5).map((cell, index) =>
          draw('rect', {
            class: 'mark-of',
            'data-cell': cell,
            x: x(answerMs) - 4,
            y: LANES.tokens + 7 * index,
            width: 6,
            height: 6,
            rx: cell === 'accepted' ? 1 : 3,
          }),
        ),
      ]),
    );
  }
}
