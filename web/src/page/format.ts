// Numbers as people read them. Every function gives a dash for what is not a finite number.

const dash = '–';

/** Fixed decimals, fewer as the number grows: 0.41, 3.14, 38.2, 512. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return dash;
  const size = Math.abs(value);
  const decimals = size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return value.toFixed(decimals);
}

export function formatCount(value: number): string {
  return Number.isFinite(value) ? String(Math.round(value)) : dash;
}

export function formatPercent(fraction: number): string {
  return Number.isFinite(fraction) ? `${Math.round(100 * fraction)} %` : dash;
}

export function formatMilliseconds(value: number): string {
  if (!Number.isFinite(value)) return dash;
  if (value > 0 && value < 1) return '< 1 ms';
  if (value < 999.5) return `${Math.round(value)} ms`;
  return `${(value / 1000).toFixed(value < 100_000 ? 2 : 0)} s`;
}

/** Small shares and probabilities, two digits: 0.00052. */
export function formatProbability(value: number): string {
  if (!Number.isFinite(value)) return dash;
  return value === 0 ? '0' : value.toPrecision(2);
}

/** Decimal units, as files are sized. */
export function formatBytes(bytes: number): string {
  return withUnit(bytes, 1000, ['B', 'kB', 'MB', 'GB']);
}

/** Bits per second; null is a rate without limit. */
export function formatRate(bitsPerSecond: number | null): string {
  if (bitsPerSecond === null) return 'unlimited';
  return withUnit(bitsPerSecond, 1000, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s']);
}

export function formatBits(bits: number): string {
  return withUnit(bits, 1000, ['bits', 'kbit', 'Mbit']);
}

/** A power of ten on an axis: 10, 100, 1k. */
export function formatMark(value: number): string {
  if (!Number.isFinite(value)) return dash;
  if (value >= 1e6) return `${value / 1e6}M`;
  return value >= 1e3 ? `${value / 1e3}k` : String(value);
}

function withUnit(value: number, base: number, units: readonly string[]): string {
  if (!Number.isFinite(value)) return dash;
  let unit = 0;
  while (unit < units.length - 1 && Math.abs(value) >= base) {
    value /= base;
    unit += 1;
  }
  const decimals = Math.abs(value) >= 10 || Number.isInteger(value) ? 0 : 1;
  return `${value.toFixed(decimals)} ${units[unit] ?? ''}`;
}
