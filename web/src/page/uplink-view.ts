import type { Round, RoundRecord } from '../outrider/index.js';
import { ChartView } from './chart-view.js';
import type { RunChoices } from './counters.js';
import { element } from './elements.js';
import { DRAW_EVERY_MS } from './figures.js';
import { formatCount, formatProbability } from './format.js';
import { Paced } from './paced.js';
import { SchemeBitsView } from './scheme-bits-view.js';
import { SchemeBits } from './scheme-bits.js';
import { aheadCostsSentence, draftsSentence } from './sentences.js';

/** The uplink cost of the drafts of the last speculative run: over its rounds, and beside the other schemes. */
export class UplinkView {
  readonly #note = element('uplink-note', HTMLElement);
  readonly #costs = element('uplink-costs', HTMLElement);
  readonly #bitsChart = new ChartView({
    title: 'Uplink bits per drafted token',
    over: 'by round',
    lines: ['whole frame', 'its payload'],
    fromZero: true,
    format: formatCount,
  });
  readonly #thresholdChart = new ChartView({
    title: 'Threshold β',
    over: 'by round',
    lines: ['β'],
    fromZero: false,
    format: formatProbability,
  });
  readonly #bars: SchemeBitsView;
  #bits: SchemeBits | null = null;
  #records: RoundRecord[] = [];
  #gate = 'none';
  #stopRule = 'fixed';
  readonly #drawings = new Paced(() => this.#draw(), DRAW_EVERY_MS);

  /** A sentence on why nothing is drafted; null while drafts are made. */
  get complaint(): string | null {
    const bits = this.#bits;
    const isOdd = bits?.drafted === 0 && this.#gate === 'none' && this.#stopRule !== 'bild';
    return bits && isOdd && this.#records.length >= 3 ? this.#sentence(bits) : null;
  }

  constructor(uplinkBitsPerSecond: number | null) {
    this.#bars = new SchemeBitsView(uplinkBitsPerSecond);
    this.#bitsChart.figure.id = 'bits-chart';
    this.#thresholdChart.figure.id = 'threshold-chart';
    element('charts', HTMLElement).append(this.#bitsChart.figure, this.#thresholdChart.figure);
  }

  /** Empties the view for a speculative run with these choices. */
  begin({ scheme, code, gate, stopRule, isAhead }: RunChoices): void {
    this.#gate = gate;
    this.#stopRule = stopRule;
    this.#bits = isAhead ? null : new SchemeBits(scheme, code);
    this.#records = [];
    if (isAhead) {
      this.#note.textContent = aheadCostsSentence;
      this.#costs.hidden = true;
    }
    this.#draw();
  }

  add({ round }: Round): void {
    if (!round) return;
    this.#records.push(round);
    this.#bits?.add(round);
    this.#drawings.soon();
  }

  /** Ends the run with a complete drawing. */
  end(): void {
    this.#drawings.now();
  }

  /** Sets the uplink's rate from the slider. */
  setUplink(bitsPerSecond: number | null): void {
    this.#bars.setUplink(bitsPerSecond);
  }

  #draw(): void {
    const bits = this.#bits;
    if (!bits) return;
    const records = this.#records;
    const thresholds = records.map(({ threshold }) => threshold);
    this.#note.textContent = this.#sentence(bits);
    this.#costs.hidden = bits.drafted === 0;
    this.#thresholdChart.figure.hidden = thresholds.every((threshold) => threshold === null);
    const perDraft = (count: 'uplinkBits' | 'payloadBits') =>
      records.map((record) => (record.drafted.length > 0 ? record[count] / record.drafted.length : null));
    this.#bitsChart.show([perDraft('uplinkBits'), perDraft('payloadBits')]);
    this.#thresholdChart.show([thresholds]);
    this.#bars.show(bits.costs);
  }

  #sentence({ label, drafted, rounds }: SchemeBits): string {
    return draftsSentence(label, drafted, rounds, this.#records.length, this.#gate, this.#stopRule);
  }
}
