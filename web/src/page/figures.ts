// Numbers, tables and drawings: one way to show each, from its data.

import { make } from './elements.js';

/** A number of a view, described by the data that it is read from. */
export interface Figure<Data> {
  name: string;
  label: string;
  /** Reads the number; NaN where there is none. */
  of: (data: Data) => number;
  format: (value: number) => string;
}

/** Makes an element for a number: `data-value` has it for programs, empty where there is none, the text for readers. */
export function numberIn(
  tag: 'td' | 'dd',
  attributes: Record<string, string>,
  value: number,
  format: (value: number) => string,
): HTMLElement {
  const isKnown = Number.isFinite(value);
  return make(tag, { ...attributes, 'data-value': isKnown ? String(value) : '' }, isKnown ? format(value) : '–');
}

/** Replaces the rows of a table's body, each a heading and its cells. */
export function fillRows(
  table: HTMLTableElement,
  rows: readonly (readonly [heading: string, ...cells: (HTMLElement | string)[]])[],
): void {
  const body = table.tBodies[0] ?? table.createTBody();
  body.replaceChildren(
    ...rows.map(([heading, ...cells]) =>
      make(
        'tr',
        {},
        make('th', { scope: 'row' }, heading),
        ...cells.map((cell) => (typeof cell === 'string' ? make('td', {}, cell) : cell)),
      ),
    ),
  );
}

/** Makes the head of a table from the names of its columns. */
export function headOf(columns: readonly string[]): HTMLTableSectionElement {
  return make('thead', {}, make('tr', {}, ...columns.map((name) => make('th', { scope: 'col' }, name))));
}

/** Draws as wide as an element is: once a frame at most, and again when the width changes. */
export class Drawing {
  readonly #place: Element;
  readonly #draw: (width: number) => void;
  #frame: number | null = null;

  constructor(place: Element, draw: (width: number) => void) {
    this.#place = place;
    this.#draw = draw;
    new ResizeObserver(() => this.now()).observe(place);
  }

  /** Draws with the next frame: data may come faster than it can be seen. */
  soon(): void {
    this.#frame ??= requestAnimationFrame(() => this.now());
  }

  now(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    const width = Math.floor(this.#place.clientWidth);
    // A place that is hidden or not yet laid out is drawn when the observer reports its width.
    if (width > 0) this.#draw(width);
  }
}
