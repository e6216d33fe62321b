// The uplink cost of a generation's drafts under the scheme in use and under the others.

import { codes, schemes } from '../outrider/index.js';
import type { Code, ComparedScheme, RoundRecord, RoundScheme, Scheme } from '../outrider/index.js';

/** One scheme's cost for the drafts of a generation. */
export interface SchemeCost {
  scheme: ComparedScheme;
  label: string;
  /** True for the scheme that was sent; other costs are computed. */
  sent: boolean;
  /** Bits of payload per drafted token; NaN while nothing was drafted. */
  payloadBitsPerDraftedToken: number;
  /** Bits of a whole round, mean: payload and frame. */
  roundBits: number;
}

/** Everything that is compared, in the order of the schemes: those that have rounds. */
export const comparedSchemes: readonly ComparedScheme[] = (Object.keys(schemes) as Scheme[])
  .filter(hasRounds)
  .flatMap((scheme): ComparedScheme[] => (scheme === 'k-sqs' ? [scheme, 'k-sqs/adaptive'] : [scheme]));

/** Sums over the rounds of one generation. Rounds without drafts do not count, as no scheme would have sent any. */
export class SchemeBits {
  readonly #scheme: RoundScheme;
  readonly #code: Code;
  readonly #payloadBits = new Map<ComparedScheme, number>();
  #rounds = 0;
  #drafted = 0;
  /** Bits of the frames without payloads, the same for every scheme. */
  #frameBits = 0;

  constructor(scheme: Scheme, code: Code) {
    // Where `auto` does not draft ahead, it uses rounds of this scheme.
    this.#scheme = hasRounds(scheme) ? scheme : 'k-sqs';
    this.#code = code;
  }

  /** The row of the scheme that is sent. */
  get sent(): ComparedScheme {
    return this.#scheme === 'k-sqs' && this.#code === 'adaptive' ? 'k-sqs/adaptive' : this.#scheme;
  }

  /** The name of the scheme that is sent. */
  get label(): string {
    return labelOf(this.#scheme, this.#code);
  }

  get rounds(): number {
    return this.#rounds;
  }

  get drafted(): number {
    return this.#drafted;
  }

  add({ drafted, payloadBits, uplinkBits, otherBits }: RoundRecord): void {
    if (drafted.length === 0) return;
    this.#rounds += 1;
    this.#drafted += drafted.length;
    this.#frameBits += Math.max(0, uplinkBits - payloadBits);
    for (const scheme of comparedSchemes) {
      const bits = scheme === this.sent ? payloadBits : (otherBits[scheme] ?? Number.NaN);
      this.#payloadBits.set(scheme, (this.#payloadBits.get(scheme) ?? 0) + bits);
    }
  }

  /** A cost for every compared scheme, in their order. */
  get costs(): SchemeCost[] {
    return comparedSchemes.map((scheme) => {
      const sent = scheme === this.sent;
      const payloadBits = this.#payloadBits.get(scheme) ?? Number.NaN;
      return {
        scheme,
        label: sent ? this.label : comparedLabel(scheme),
        sent,
        payloadBitsPerDraftedToken: payloadBits / this.#drafted,
        roundBits: (payloadBits + this.#frameBits) / this.#rounds,
      };
    });
  }
}

/** The time that bits take at a rate, in milliseconds; NaN without a limit. */
export function transferMs(bits: number, bitsPerSecond: number | null): number {
  return bitsPerSecond === null ? Number.NaN : (1000 * bits) / bitsPerSecond;
}

function hasRounds(scheme: Scheme): scheme is RoundScheme {
  return scheme !== 'auto' && scheme !== 'ahead';
}

function comparedLabel(scheme: ComparedScheme): string {
  return scheme === 'k-sqs/adaptive' ? labelOf('k-sqs', 'adaptive') : labelOf(scheme, 'enumerative');
}

function labelOf(scheme: Scheme, code: Code): string {
  const { label, options } = schemes[scheme];
  const named = code === 'adaptive' && options.includes('code');
  return named ? `${label}, ${codes[code].label.toLowerCase()}` : label;
}
