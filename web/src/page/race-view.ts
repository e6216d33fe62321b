import type { Round, Statistics, Summary, Token } from '../outrider/index.js';
import { ChartView } from './chart-view.js';
import { axis } from './chart.js';
import type { Point } from './chart.js';
import { draw, element, make } from './elements.js';
import { Drawing, numberIn } from './figures.js';
import type { Figure } from './figures.js';
import { formatBytes, formatCount, formatMilliseconds, formatNumber } from './format.js';
import { lanes, medianOf, pathsOf, raceSentences, REPETITIONS, Track, trackSentence } from './race.js';
import type { Kind, Lane, LaneName, Results, Sample } from './race.js';
import { barsOf } from './token-card.js';

const HEIGHT = 56;
const KINDS: readonly Kind[] = ['accepted', 'late', 'cloud'];

/** The numbers beside a lane, in elements with `data-race` and `data-value`. */
const figures: readonly Figure<Statistics>[] = [
  { name: 'tokensPerSecond', label: 'tokens/s', of: (s) => s.tokensPerSecond, format: formatNumber },
  { name: 'elapsedMs', label: 'in all', of: (s) => s.elapsedMs, format: formatMilliseconds },
  { name: 'uplinkBytes', label: 'up', of: (s) => s.uplinkBits / 8, format: formatBytes },
  { name: 'downlinkBytes', label: 'down', of: (s) => s.downlinkBits / 8, format: formatBytes },
  { name: 'serverPasses', label: 'forward passes', of: (s) => s.serverPasses, format: formatCount },
];

const samplesOf =
  (value: (sample: Sample) => number) =>
  ({ samples }: Track): Point[] =>
    samples.map((sample) => ({ ms: sample.ms, value: value(sample) }));

/** The charts over time below the lanes, a line for each lane. */
const charts: readonly { title: string; points: (track: Track) => Point[]; format: typeof formatCount }[] = [
  { title: 'Tokens per second', points: ({ speeds }) => speeds, format: formatNumber },
  { title: 'Bytes sent, up and down', points: samplesOf(({ bytes }) => bytes), format: formatCount },
  { title: 'Forward passes', points: samplesOf(({ passes }) => passes), format: formatCount },
];

/** Size of a distribution's drawing, in CSS pixels. */
const BARS = { width: 44, height: 26 };

/**
 * The three lanes of the race. Each is an item with `data-lane` and `data-state`: `waiting`, `running`, `done` or
 * `skipped`.
 */
export class RaceView {
  readonly #list = element('lanes', HTMLOListElement);
  readonly #sentence = element('race-sentence', HTMLElement);
  readonly #time = draw('svg', { class: 'race-axis', height: 20, 'aria-hidden': 'true', hidden: '' });
  readonly #rows = lanes.map((lane): Row => rowOf(lane));
  // "Draft ahead" comes first: it is what the charts are about.
  readonly #charts = charts.map(({ title, format, points }) => {
    const lines = [...lanes].reverse().map(({ label }) => label);
    return { points, view: new ChartView({ title, over: 'over time', lines, format }) };
  });
  readonly #drawing: Drawing;
  #results: Results = {};
  #mostTokens = 1;

  constructor() {
    this.#list.append(...this.#rows.map(({ item }) => item));
    this.#list.after(this.#time);
    element('race-charts', HTMLElement).append(...this.#charts.map(({ view }) => view.figure));
    this.#drawing = new Drawing(this.#list, (width) => this.#draw(width));
  }

  /** Empties the lanes for texts of at most `mostTokens` tokens. */
  begin(mostTokens: number): void {
    this.#mostTokens = mostTokens;
    this.#results = {};
    this.#sentence.textContent = '';
    for (const row of this.#rows) {
      row.track = new Track();
      row.tracks.clear();
      row.item.dataset['state'] = 'waiting';
      row.spread.textContent = '';
      row.distributions.hidden = true;
      row.statistics = null;
    }
    this.#list.hidden = false;
    // On a phone the lanes lie below the window.
    if (this.#list.getBoundingClientRect().top > innerHeight - 100) {
      const behavior = matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth';
      this.#sentence.parentElement?.scrollIntoView({ block: 'start', behavior });
    }
    this.#time.removeAttribute('hidden');
    this.#drawing.now();
  }

  /** Marks a lane that is not run. */
  skip(name: LaneName, why: string): void {
    const row = this.#row(name);
    row.item.dataset['state'] = 'skipped';
    this.#sentence.textContent = why;
  }

  /** Empties a lane for its next run. */
  beginRun(name: LaneName): void {
    const row = this.#row(name);
    row.track = new Track();
    row.spread.textContent = `· run ${(this.#results[name]?.length ?? 0) + 1} of ${REPETITIONS}`;
  }

  add(name: LaneName, round: Round): void {
    const row = this.#row(name);
    row.item.dataset['state'] = 'running';
    row.track.add(round);
    row.statistics = round.statistics;
    this.#drawing.soon();
  }

  /** Marks a lane whose run has come to its end, and shows the median of its runs with their spread. */
  finish(name: LaneName, summary: Summary): void {
    const row = this.#row(name);
    row.item.dataset['state'] = 'done';
    row.tracks.set(summary, row.track);
    const runs = [...(this.#results[name] ?? []), summary];
    this.#results[name] = runs;
    const median = medianOf(runs);
    if (!median) return;
    const { run, min, max } = median;
    row.track = row.tracks.get(run) ?? row.track;
    const range = `${formatNumber(min)} to ${formatNumber(max)} tokens/s`;
    row.spread.textContent = runs.length > 1 ? `· median of ${runs.length}: ${range}` : '';
    Object.assign(row.spread.dataset, { min: String(min), max: String(max) });
    row.statistics = run;
    this.#drawing.now();
  }

  /** Draws the distributions that were sent with drafts; nothing where none are known. */
  showDistributions(name: LaneName, tokens: readonly Token[]): void {
    const { distributions } = this.#row(name);
    const drawn = tokens.map((token) => ({ token, bars: barsOf(token) })).filter(({ bars }) => bars.length > 0);
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

  /** Ends the race, also one that was stopped: its complete runs are compared only if each lane has one. */
  end(linkChanged: boolean, ownDraws: boolean): void {
    const [first, ...rest] = raceSentences(this.#results, linkChanged, ownDraws);
    if (first !== undefined) {
      const skipped = this.#sentence.textContent ?? '';
      this.#sentence.replaceChildren(make('b', {}, first), ` ${[...rest, skipped].join(' ')}`.trimEnd());
    }
    this.#drawing.now();
  }

  #row(name: LaneName): Row {
    const row = this.#rows.find(({ lane }) => lane.name === name);
    if (!row) throw new Error(`there is no lane ${name}`);
    return row;
  }

  #draw(width: number): void {
    const ticks = axis([Math.max(1, ...this.#rows.map(({ track }) => track.endMs)) / 1000], true);
    const seconds = ticks.at(-1) ?? 1;
    const tokens = Math.max(1, ...this.#rows.map(({ track }) => track.tokens));
    const axes = { ms: 1000 * seconds, tokens: Math.min(tokens * 1.25, Math.max(tokens, this.#mostTokens)) };
    const at = (tick: number): number => (tick / seconds) * width;
    for (const row of this.#rows) {
      const { lane, svg, paths, grid, track } = row;
      showFigures(row);
      svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
      svg.setAttribute('aria-label', trackSentence(lane.label, track));
      grid.setAttribute('d', ticks.map((tick) => `M${at(tick)} 0V${HEIGHT}`).join(''));
      const drawn = pathsOf(track, axes, { width, height: HEIGHT });
      for (const kind of KINDS) paths[kind].setAttribute('d', drawn[kind]);
    }
    element('race-charts', HTMLElement).hidden = false;
    const tracks = this.#rows.map(({ track }) => track).reverse();
    for (const { view, points } of this.#charts) view.showTimes(tracks.map(points));
    this.#time.setAttribute('viewBox', `0 0 ${width} 20`);
    this.#time.replaceChildren(
      ...ticks.map((tick, index) => {
        const anchor = index === 0 ? 'start' : index === ticks.length - 1 ? 'end' : 'middle';
        return draw('text', { x: at(tick), y: 14, 'text-anchor': anchor }, `${Number(tick.toFixed(2))} s`);
      }),
    );
  }
}

/** A lane with the tracks of its runs; `distributions` shows those that were sent of its drafts, where any are known. */
function rowOf(lane: Lane) {
  const paths = Object.fromEntries(
    KINDS.map((kind) => [kind, draw('path', { class: 'slab', 'data-cell': kind, fill: `url(#pattern-${kind})` })]),
  ) as Record<Kind, SVGPathElement>;
  const grid = draw('path', { class: 'grid' });
  const svg = draw('svg', { role: 'img', height: HEIGHT, preserveAspectRatio: 'none' }, grid);
  svg.append(...KINDS.map((kind) => paths[kind]));
  const [name, explanation] = [make('b', {}, lane.label), make('span', {}, lane.explanation)];
  const spread = make('span', { class: 'spread' });
  const heading = make('p', { class: 'lane-name' }, name, ' ', explanation, ' ', spread);
  const values = make('dl');
  const distributions = make('p', { class: 'distributions', hidden: '' });
  const attributes = { 'data-lane': lane.name, 'data-state': 'waiting' };
  const item = make('li', attributes, heading, values, svg, distributions);
  const tracks = new Map<Summary, Track>();
  const statistics: Statistics | null = null;
  return { lane, item, svg, paths, grid, values, spread, distributions, tracks, track: new Track(), statistics };
}

type Row = Omit<ReturnType<typeof rowOf>, 'statistics'> & { statistics: Statistics | null };

function showFigures({ values, statistics }: Row): void {
  const tiles = figures.map(({ name, label, of, format }) => {
    const value = statistics === null ? Number.NaN : of(statistics);
    return make('div', {}, numberIn('dd', { 'data-race': name }, value, format), make('dt', {}, label));
  });
  values.replaceChildren(...tiles);
}
