import { decades, logShare } from './chart.js';
import { element, make } from './elements.js';
import { formatMark, formatMilliseconds, formatNumber, formatRate } from './format.js';
import { comparedSchemes, transferMs } from './scheme-bits.js';
import type { SchemeCost } from './scheme-bits.js';

interface Row {
  row: HTMLTableRowElement;
  name: HTMLElement;
  tag: HTMLElement;
  bar: HTMLElement;
  bits: HTMLElement;
  time: HTMLElement;
}

/**
 * A bar per scheme. Each is a row with `data-scheme`, `data-sent`, `data-bits` (per drafted token) and `data-round-ms`
 * (of one round at the uplink's rate; empty while that is not limited).
 */
export class SchemeBitsView {
  readonly #table = element('scheme-bits', HTMLTableElement);
  readonly #rows: Row[] = [];
  readonly #axis = make('div', { class: 'axis', 'aria-hidden': 'true' });
  #costs: readonly SchemeCost[] = [];
  #uplinkBitsPerSecond: number | null;

  constructor(uplinkBitsPerSecond: number | null) {
    this.#uplinkBitsPerSecond = uplinkBitsPerSecond;
    const body = this.#table.tBodies[0];
    for (const scheme of comparedSchemes) {
      const name = make('span', { class: 'name' });
      const tag = make('span', { class: 'tag' });
      const bar = make('i', { class: 'bar' });
      const bits = make('td');
      const time = make('td');
      const head = make('th', { scope: 'row' }, name, ' ', tag, make('span', { class: 'track' }, bar));
      const row = make('tr', { 'data-scheme': scheme }, head, bits, time);
      this.#rows.push({ row, name, tag, bar, bits, time });
      body?.append(row);
    }
    this.#table.createTFoot().append(make('tr', {}, make('td', {}, this.#axis), make('td'), make('td')));
  }

  show(costs: readonly SchemeCost[]): void {
    this.#costs = costs;
    this.#draw();
  }

  /** The uplink's rate as the slider has it. */
  setUplink(bitsPerSecond: number | null): void {
    this.#uplinkBitsPerSecond = bitsPerSecond;
    this.#draw();
  }

  #draw(): void {
    const rate = this.#uplinkBitsPerSecond;
    element('scheme-bits-rate', HTMLElement).textContent =
      rate === null ? 'without limit' : `at ${formatRate(rate)}`;
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
      const row = this.#rows[index];
      if (row) fill(row, cost, transferMs(cost.roundBits, rate), scale);
    });
  }
}

function fill(
  { row, name, tag, bar, bits, time }: Row,
  cost: SchemeCost,
  roundMs: number,
  scale: readonly [number, number],
): void {
  const { label, sent, payloadBitsPerDraftedToken } = cost;
  name.textContent = label;
  tag.textContent = sent ? 'sent' : 'computed, not sent';
  const share = logShare(payloadBitsPerDraftedToken, scale);
  bar.style.width = `${100 * (share || 0)}%`;
  bits.textContent = formatNumber(payloadBitsPerDraftedToken);
  time.textContent = formatMilliseconds(roundMs);
  row.dataset['sent'] = String(sent);
  row.dataset['bits'] = text(payloadBitsPerDraftedToken);
  row.dataset['roundMs'] = text(roundMs);
}

function text(value: number): string {
  return Number.isFinite(value) ? String(value) : '';
}
