import type { ComparedScheme } from '../outrider/index.js';
import { decades, logShare } from './chart.js';
import { element, make } from './elements.js';
import { formatMark, formatMilliseconds, formatNumber, formatRate } from './format.js';
import { comparedSchemes, transferMs } from './scheme-bits.js';
import type { SchemeCost } from './scheme-bits.js';

/**
 * One bar for each scheme. Each is a row with `data-scheme`, `data-sent`, `data-bits` (per drafted token) and `data-round-ms`
 * (of one round at the uplink's rate; empty while that is not limited).
 */
export class SchemeBitsView {
  readonly #table = element('scheme-bits', HTMLTableElement);
  readonly #rows = comparedSchemes.map((scheme) => rowOf(scheme));
  readonly #axis = make('div', { class: 'axis', 'aria-hidden': 'true' });
  #costs: readonly SchemeCost[] = [];
  #uplinkBitsPerSecond: number | null;

  constructor(uplinkBitsPerSecond: number | null) {
    this.#uplinkBitsPerSecond = uplinkBitsPerSecond;
    this.#table.tBodies[0]?.append(...this.#rows.map(({ row }) => row));
    this.#table.createTFoot().append(make('tr', {}, make('td', {}, this.#axis), make('td'), make('td')));
  }

  show(costs: readonly SchemeCost[]): void {
    this.#costs = costs;
    this.#draw();
  }

  /** Sets the uplink's rate from the slider. */
  setUplink(bitsPerSecond: number | null): void {
    this.#uplinkBitsPerSecond = bitsPerSecond;
    this.#draw();
  }

  #draw(): void {
    const rate = this.#uplinkBitsPerSecond;
    element('scheme-bits-rate', HTMLElement).textContent = rate === null ? 'without limit' : `at ${formatRate(rate)}`;
    const marks = decades(this.#costs.map((cost) => cost.payloadBitsPerDraftedToken));
    const scale = [marks[0] ?? 1, marks.at(-1) ?? 1] as const;
    this.#axis.replaceChildren(
      ...marks.map((mark) => {
        const label = make('span', {}, formatMark(mark));
        label.style.left = `${100 * logShare(mark, scale)}%`;
        return label;
      }),
    );
    this.#table.style.setProperty('--decades', String(marks.length - 1));
    this.#costs.forEach((cost, index) => {
      this.#rows[index]?.show(cost, transferMs(cost.roundBits, rate), scale);
    });
  }
}

/** A row, which stays in place so that its bar moves from one length to the next. */
function rowOf(scheme: ComparedScheme) {
  const [name, tag] = [make('span', { class: 'name' }), make('span', { class: 'tag' })];
  const [bar, bits, time] = [make('i', { class: 'bar' }), make('td'), make('td')];
  const head = make('th', { scope: 'row' }, name, ' ', tag, make('span', { class: 'track' }, bar));
  const row = make('tr', { 'data-scheme': scheme }, head, bits, time);
  const show = (cost: SchemeCost, roundMs: number, scale: readonly [number, number]): void => {
    const { label, sent, payloadBitsPerDraftedToken: payload } = cost;
    name.textContent = label;
    tag.textContent = sent ? 'sent' : 'computed, not sent';
    bar.style.width = `${100 * (logShare(payload, scale) || 0)}%`;
    bits.textContent = formatNumber(payload);
    time.textContent = formatMilliseconds(roundMs);
    const text = (value: number): string => (Number.isFinite(value) ? String(value) : '');
    Object.assign(row.dataset, { sent: String(sent), bits: text(payload), roundMs: text(roundMs) });
  };
  return { row, show };
}
