// Numbers as people read them. Every function gives a dash for what is not a finite number.

const dash = '–';

/** Fixed decimals, fewer as the number grows: 0.412, 3.14, 38.2, 512. */
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
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`;
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
