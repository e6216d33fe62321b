// Slider positions of the link panel and the values they stand for.

/** ISO 3's R10 series: ten steps per decade, each about 1.26 times the one before. */
const decade = [1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8];
/** Bits per second at position 0. */
const SLOWEST = 1_000;
/** Positions with a limit: 1 kbit/s up to 100 Mbit/s. */
const LIMITED = 51;

/** The last position, where the rate is not limited. */
export const rateSteps = LIMITED;

/** The rate at a slider position, in bits per second; null is no limit. */
export function rateAt(position: number): number | null {
  if (position >= LIMITED) return null;
  const step = Math.max(0, Math.round(position));
  const mantissa = decade[step % decade.length] ?? 1;
  return Math.round(SLOWEST * mantissa * 10 ** Math.floor(step / decade.length));
}

/** The slider position nearest to a rate, on the logarithmic scale. */
export function positionOf(rate: number | null): number {
  if (rate === null) return LIMITED;
  const position = Math.round(decade.length * Math.log10(rate / SLOWEST));
  return Math.min(LIMITED - 1, Math.max(0, position));
}
