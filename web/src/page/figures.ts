// Numbers, tables and drawings: one way to show each, from its data.

import { make } from './elements.js';
import { Paced } from './paced.js';

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

/** Least time between two drawings of a chart, in milliseconds. */
export const DRAW_EVERY_MS = 200;

/** Draws as wide as an element is, again and again, and when the width changes. */
export class Drawing {
  readonly #paced: Paced;

  constructor(place: Element, draw: (width: number) => void) {
    this.#paced = new Paced(() => {
      const width = Math.floor(place.clientWidth);
      // A place that is hidden or not yet laid out is drawn when the observer reports its width.
      if (width > 0) draw(width);
    }, DRAW_EVERY_MS);
    new ResizeObserver(() => this.now()).observe(place);
  }

  soon(): void {
    this.#paced.soon();
  }

  now(): void {
    this.#paced.now();
  }
}
