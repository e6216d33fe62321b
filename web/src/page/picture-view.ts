import type { Round } from '../outrider/index.js';
import { element, make } from './elements.js';
import { formatBits } from './format.js';
import { costOf, modelsSentence, namedDraft, namedTarget } from './models.js';
import type { NamedModel, ServedModels } from './models.js';
import { exchangeOf } from './picture.js';
import type { Cell } from './rounds.js';

/** Shortest and longest time of one way that is shown as a movement, in milliseconds. A shorter one is not to be seen,
 * and each movement has the whole page drawn sixty times a second, by a core that the models need. */
const SHORTEST = 50;
const LONGEST = 1500;
/** Time between exchanges that are shown at rest. */
const REST = 250;

/** Browser, link and server, with the names of the models. The wires show the last exchange on the link. */
export class PictureView {
  readonly #calm = matchMedia('(prefers-reduced-motion: reduce)');
  readonly #up = element('wire-up', HTMLElement);
  readonly #down = element('wire-down', HTMLElement);
  #models: ServedModels | null = null;
  #draftBytes: string | null = null;
  /** The end of the current movement on the wires. */
  #busyUntil = 0;

  /** True if the target does the work of a larger one. */
  get isGrown(): boolean {
    return this.#models !== null && costOf(this.#models.target) !== null;
  }

  get models(): ServedModels | null {
    return this.#models;
  }

  /** Shows the server's models, and other servers to try. */
  setModels(models: ServedModels, elsewhere: readonly { name: string; url: string }[]): void {
    this.#models = models;
    const shown = element('models', HTMLElement);
    shown.textContent = modelsSentence(models);
    for (const { name, url } of elsewhere) shown.append(' ', make('a', { href: url }, `Try ${name}`), '.');
    shown.hidden = false;
    this.#showNames();
  }

  /** Shows the size of the draft model, as formatted bytes. */
  setDraft(bytes: string): void {
    this.#draftBytes = bytes;
    this.#showNames();
  }

  /** Shows an exchange, over a slow link as a movement that takes as long; those that come meanwhile are left out. */
  show(round: Round): void {
    const { uplinkBitsPerToken, downlinkBitsPerToken, roundTripMs } = round.statistics;
    element('drafts', HTMLElement).textContent = `${formatBits(uplinkBitsPerToken)} per token →`;
    element('verdicts', HTMLElement).textContent = `← ${formatBits(downlinkBitsPerToken)} per token`;
    const now = performance.now();
    if (now < this.#busyUntil) return;
    const { up, down, words } = exchangeOf(round);
    element('picture-words', HTMLElement).textContent = words;
    place(this.#up, up);
    place(this.#down, down);
    const duration = Math.min(LONGEST, roundTripMs / 2);
    const moves = duration >= SHORTEST && !this.#calm.matches;
    this.#busyUntil = now + Math.max(REST, moves ? 2 * duration : 0);
    if (!moves) return;
    move(this.#up, ['0%', '100%'], duration, 0);
    move(this.#down, ['100%', '0%'], duration, duration);
  }

  #showNames(): void {
    if (!this.#models) return;
    showName('draft', namedDraft(this.#models, this.#draftBytes));
    showName('target', namedTarget(this.#models));
  }
}

function showName(end: string, { name, size }: NamedModel): void {
  element(`${end}-name`, HTMLElement).textContent = name;
  element(`${end}-size`, HTMLElement).textContent = size;
}

function place(wire: HTMLElement, cells: readonly Cell[]): void {
  wire.replaceChildren(...cells.map((cell) => make('i', { class: 'cell', 'data-cell': cell })));
}

function move(wire: HTMLElement, [from, to]: readonly [string, string], duration: number, delay: number): void {
  const frames = [
    { left: from, opacity: 0 },
    { opacity: 1, offset: 0.15 },
    { opacity: 1, offset: 0.85 },
    { left: to, opacity: 0 },
  ];
  wire.animate(frames, { duration, delay, easing: 'ease-in-out', fill: 'backwards' });
}
