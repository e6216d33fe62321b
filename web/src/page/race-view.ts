import type { Round, Statistics, Summary, Token } from '../outrider/index.js';
import { axis } from './chart.js';
import { draw, element, make } from './elements.js';
import { barsOf } from './evidence.js';
import { formatBytes, formatCount, formatMilliseconds, formatNumber } from './format.js';
import { lanes, pathsOf, raceSentences, Track, trackSentence } from './race.js';
import type { Kind, Lane, LaneName, Results } from './race.js';
import { RaceChartsView } from './race-charts-view.js';

const HEIGHT = 56;
const KINDS: readonly Kind[] = ['accepted', 'late', 'cloud'];

/** The numbers beside a lane, with `data-race` and `data-value`. */
const figures: readonly {
  name: string;
  label: string;
  of: (statistics: Statistics) => number;
  text: (value: number) => string;
}[] = [
  { name: 'tokensPerSecond', label: 'tokens/s', of: (s) => s.tokensPerSecond, text: formatNumber },
  { name: 'elapsedMs', label: 'in all', of: (s) => s.elapsedMs, text: formatMilliseconds },
  { name: 'uplinkBytes', label: 'up', of: (s) => s.uplinkBits / 8, text: formatBytes },
  { name: 'downlinkBytes', label: 'down', of: (s) => s.downlinkBits / 8, text: formatBytes },
  { name: 'serverPasses', label: 'forward passes', of: (s) => s.serverPasses, text: formatCount },
];

interface Row {
  lane: Lane;
  item: HTMLElement;
  svg: SVGSVGElement;
  paths: Record<Kind, SVGPathElement>;
  grid: SVGPathElement;
  values: HTMLElement[];
  /** The distributions that were sent, where the lane sends any and the package tells them. */
  distributions: HTMLElement;
  track: Track;
}

/** How wide and high a distribution is drawn. */
const BARS = { width: 44, height: 26 };

/** The three lanes. Each is an item with `data-lane` and `data-state`: `waiting`, `running`, `done` or `skipped`. */
export class RaceView {
  readonly #list = element('lanes', HTMLOListElement);
  readonly #sentence = element('race-sentence', HTMLElement);
  readonly #time = draw('svg', { class: 'race-axis', height: 20, 'aria-hidden': 'true', hidden: '' });
  readonly #rows: readonly Row[];
  readonly #charts = new RaceChartsView();
  #results: Results = {};
  #mostTokens = 1;
  #frame: number | null = null;

  constructor() {
    this.#rows = lanes.map((lane) => rowOf(lane));
    this.#list.append(...this.#rows.map(({ item }) => item));
    this.#list.after(this.#time);
    new ResizeObserver(() => this.#draw()).observe(this.#list);
  }

  /** Empties the lanes for texts of at most so many tokens. */
  begin(mostTokens: number): void {
    this.#mostTokens = mostTokens;
    this.#results = {};
    this.#sentence.textContent = '';
    for (const row of this.#rows) {
      row.track = new Track();
      row.item.dataset['state'] = 'waiting';
      row.distributions.hidden = true;
      for (const value of row.values) fill(value, '', '–');
    }
    this.#list.hidden = false;
    // On a phone the lanes lie below the window.
    if (this.#list.getBoundingClientRect().top > innerHeight - 100) {
      const behavior = matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth';
      this.#sentence.parentElement?.scrollIntoView({ block: 'start', behavior });
    }
    this.#time.removeAttribute('hidden');
    this.#draw();
  }

  /** A lane is not run. */
  skip(name: LaneName, why: string): void {
    const row = this.#row(name);
    row.item.dataset['state'] = 'skipped';
    this.#sentence.textContent = why;
  }

  add(name: LaneName, round: Round): void {
    const row = this.#row(name);
    row.item.dataset['state'] = 'running';
    row.track.add(round);
    showFigures(row, round.statistics);
    this.#frame ??= requestAnimationFrame(() => this.#draw());
  }

  /** A lane has run to its end. */
  finish(name: LaneName, summary: Summary): void {
    const row = this.#row(name);
    row.item.dataset['state'] = 'done';
    this.#results[name] = summary;
    showFigures(row, summary);
    this.#draw();
  }

  /** Draws the distributions that were sent of drafts; nothing where none are known. */
  showDistributions(name: LaneName, tokens: readonly Token[]): void {
    const { distributions } = this.#row(name);
    const drawn = tokens
      .map((token) => ({ token, bars: barsOf(token) }))
      .filter(({ bars }) => bars.length > 0);
    distributions.hidden = drawn.length === 0;
    distributions.replaceChildren(
      'What is sent of each draft, the most likely tokens alone: ',
      ...drawn.map(({ token, bars }) => {
        const words = bars.map(({ text, height }) => `${text.trim()} ${formatNumber(height)}`).join(', ');
        const label = `${token.text.trim()}, of: ${words}`;
        const svg = draw('svg', { role: 'img', 'aria-label': label, ...BARS, class: 'distribution' });
        const step = BARS.width / bars.length;
        bars.forEach(({ height, chosen }, index) => {
          const high = Math.max(1, height * BARS.height);
          const at = { x: index * step, y: BARS.height - high, width: Math.max(1, step - 1), height: high };
          svg.append(draw('rect', { ...at, 'data-chosen': String(chosen) }));
        });
        return make('span', { title: label }, svg, make('span', {}, token.text.trim() || '␣'));
      }),
    );
  }

  /** The race is over, or was stopped. */
  end(linkChanged: boolean, ownDraws: boolean): void {
    const [first, ...rest] = raceSentences(this.#results, linkChanged, ownDraws);
    if (first !== undefined) {
      const skipped = this.#sentence.textContent ?? '';
      this.#sentence.replaceChildren(make('b', {}, first), ` ${[...rest, skipped].join(' ')}`.trimEnd());
    }
    this.#draw();
  }

  #row(name: LaneName): Row {
    const row = this.#rows.find(({ lane }) => lane.name === name);
    if (!row) throw new Error(`there is no lane ${name}`);
    return row;
  }

  #draw(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    const width = Math.floor(this.#list.clientWidth);
    // Hidden, or not yet laid out: the observer calls again.
    if (width === 0) return;
    const ticks = axis([Math.max(1, ...this.#rows.map(({ track }) => track.endMs)) / 1000], true);
    const seconds = ticks.at(-1) ?? 1;
    const tokens = Math.max(1, ...this.#rows.map(({ track }) => track.tokens));
    const axes = { ms: 1000 * seconds, tokens: Math.min(tokens * 1.25, Math.max(tokens, this.#mostTokens)) };
    const at = (tick: number): number => (tick / seconds) * width;
    for (const { lane, svg, paths, grid, track } of this.#rows) {
      svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
      svg.setAttribute('aria-label', trackSentence(lane.label, track));
      grid.setAttribute('d', ticks.map((tick) => `M${at(tick)} 0V${HEIGHT}`).join(''));
      const drawn = pathsOf(track, axes, { width, height: HEIGHT });
      for (const kind of KINDS) paths[kind].setAttribute('d', drawn[kind]);
    }
    this.#charts.show(this.#rows.map(({ track }) => track));
    this.#time.setAttribute('viewBox', `0 0 ${width} 20`);
    this.#time.replaceChildren(
      ...ticks.map((tick, index) => {
        const anchor = index === 0 ? 'start' : index === ticks.length - 1 ? 'end' : 'middle';
        return draw('text', { x: at(tick), y: 14, 'text-anchor': anchor }, `${formatTick(tick)} s`);
      }),
    );
  }
}

function rowOf(lane: Lane): Row {
  const paths = Object.fromEntries(
    KINDS.map((kind) => [
      kind,
      draw('path', { class: 'slab', 'data-cell': kind, fill: `url(#pattern-${kind})` }),
    ]),
  ) as Record<Kind, SVGPathElement>;
  const grid = draw('path', { class: 'grid' });
  const svg = draw('svg', { role: 'img', height: HEIGHT, preserveAspectRatio: 'none' }, grid);
  svg.append(...KINDS.map((kind) => paths[kind]));
  const values = figures.map(({ name }) => make('dd', { 'data-race': name }));
  const list = make('dl');
  figures.forEach(({ label }, index) =>
    list.append(make('div', {}, values[index] ?? '', make('dt', {}, label))),
  );
  const name = make(
    'p',
    { class: 'lane-name' },
    make('b', {}, lane.label),
    ' ',
    make('span', {}, lane.explanation),
  );
  const item = make('li', { 'data-lane': lane.name, 'data-state': 'waiting' }, name, list);
  const distributions = make('p', { class: 'distributions', hidden: '' });
  item.append(svg, distributions);
  return { lane, item, svg, paths, grid, values, distributions, track: new Track() };
}

function showFigures(row: Row, statistics: Statistics): void {
  figures.forEach(({ of, text }, index) => {
    const value = row.values[index];
    if (value) fill(value, String(of(statistics)), text(of(statistics)));
  });
}

function fill(cell: HTMLElement, value: string, text: string): void {
  cell.dataset['value'] = value;
  cell.textContent = text;
}

function formatTick(seconds: number): string {
  return String(Number(seconds.toFixed(2)));
}
