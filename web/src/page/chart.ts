// Geometry of the charts: scales, ticks and paths as numbers and strings. No DOM.
//
// Ours, as SVG: a library such as uPlot draws on a canvas, where themes, forced colours and tests do not reach, and
// would replace this file alone.

import { formatMark } from './format.js';

/** The size of a chart and the margins around its plot, in CSS pixels. */
export interface ChartSize {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** A mark on an axis with its label. */
export interface Tick {
  /** Along the axis, in pixels of the chart. */
  at: number;
  text: string;
}

/** The geometry of a chart. */
export interface LineChart {
  /** One path per series, for the `d` of an SVG path. */
  paths: string[];
  xTicks: Tick[];
  yTicks: Tick[];
}

/** A line per series over the rounds 1, 2, …; a null or NaN is a gap. Without `fromZero` the axis fits the values. */
export function lineChart(
  series: readonly (readonly (number | null)[])[],
  size: ChartSize,
  fromZero: boolean,
): LineChart {
  const rounds = Math.max(0, ...series.map(({ length }) => length));
  const ticks = axis(series.flat().filter(isNumber), fromZero);
  const decimals = decimalsOf((ticks[1] ?? 1) - (ticks[0] ?? 0));
  const points = series.map((line) => line.map((value, index) => ({ at: index + 1, value })));
  const marks = roundTicks(rounds).map((at) => ({ at, text: String(at) }));
  return plot(points, size, [1, Math.max(2, rounds)], marks, ticks, (value) => value.toFixed(decimals));
}

/** A value at a point in time. */
export interface Point {
  ms: number;
  value: number;
}

/** A line per series over the time since the beginning, both axes from zero. */
export function timeChart(series: readonly (readonly Point[])[], size: ChartSize): LineChart {
  const points = series.map((line) => line.map(({ ms, value }) => ({ at: ms / 1000, value })));
  const axisOf = (of: 'at' | 'value') =>
    axis(
      points.flat().map((point) => point[of]),
      true,
    );
  const seconds = axisOf('at');
  const marks = seconds.map((at) => ({ at, text: `${trimmed(at)} s` }));
  return plot(points, size, [0, seconds.at(-1) ?? 1], marks, axisOf('value'), formatMark);
}

/** Scales points, marks and ticks to the size of a chart. */
function plot(
  lines: readonly (readonly { at: number; value: number | null }[])[],
  { width, height, left, right, top, bottom }: ChartSize,
  [first, last]: readonly [number, number],
  marks: readonly Tick[],
  ticks: readonly number[],
  format: (value: number) => string,
): LineChart {
  const [low, high] = [ticks[0] ?? 0, ticks.at(-1) ?? 1];
  const x = (at: number): number => left + ((at - first) / (last - first)) * (width - right - left);
  const y = (value: number): number => height - bottom - ((value - low) / (high - low)) * (height - bottom - top);
  const pathOf = (line: readonly { at: number; value: number | null }[]): string =>
    line
      .map(({ at, value }, index) => {
        if (!isNumber(value)) return '';
        const point = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
        // A line of no length: with round ends a value between two gaps is a dot.
        return isNumber(line[index - 1]?.value ?? null) ? `L${point}` : `M${point}h0`;
      })
      .join('');
  return {
    paths: lines.map(pathOf),
    xTicks: marks.map(({ at, text }) => ({ at: x(at), text })),
    yTicks: ticks.map((value) => ({ at: y(value), text: format(value) })),
  };
}

/** Round numbers from below the values to above them, three to seven, the first and last included. */
export function axis(values: readonly number[], fromZero: boolean): number[] {
  let low = Math.min(...values, fromZero ? 0 : Number.POSITIVE_INFINITY);
  let high = Math.max(...values, fromZero ? 0 : Number.NEGATIVE_INFINITY);
  if (!(low <= high)) [low, high] = [0, 1];
  if (low === high) {
    // One value alone: the axis shows it with some room around it.
    const room = Math.abs(low) / 10 || 1;
    low -= fromZero && low === 0 ? 0 : room;
    high += room;
  }
  const step = roundStep((high - low) / 4);
  const first = Math.floor(low / step + EPSILON);
  const last = Math.ceil(high / step - EPSILON);
  // Multiplied, not added up: binary fractions must not accumulate.
  return Array.from({ length: last - first + 1 }, (_, index) => trimmed((first + index) * step));
}

/** The position of a value on a logarithmic scale, 0 to 1, clamped to its ends; NaN for a value that is not finite. */
export function logShare(value: number, [low, high]: readonly [number, number]): number {
  if (!Number.isFinite(value)) return Number.NaN;
  const share = Math.log10(Math.max(value, Number.MIN_VALUE) / low) / Math.log10(high / low);
  return Math.min(1, Math.max(0, share));
}

/** The powers of ten around the values, at least 10 and 100 000. */
export function decades(values: readonly number[]): number[] {
  const positive = values.filter((value) => isNumber(value) && value > 0);
  const low = Math.floor(Math.log10(Math.min(10, ...positive)));
  const high = Math.ceil(Math.log10(Math.max(100_000, ...positive)));
  return Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
}

const EPSILON = 1e-9;

function isNumber(value: number | null): value is number {
  return value !== null && Number.isFinite(value);
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const mantissa = [1, 2, 5, 10].find((candidate) => candidate * power >= least * (1 - EPSILON)) ?? 10;
  return mantissa * power;
}

/** The number of decimals that a multiple of a {@link roundStep} needs. */
function decimalsOf(step: number): number {
  return Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + EPSILON)));
}

function trimmed(value: number): number {
  return Number(value.toPrecision(12));
}

/** The first round, the last, and round numbers between. */
function roundTicks(rounds: number): number[] {
  if (rounds <= 1) return rounds === 1 ? [1] : [];
  const step = Math.max(1, roundStep(rounds / 4));
  const ticks = [1];
  // The last round is marked; what is too near to it is not.
  for (let round = step; round <= rounds - step / 2; round += step) if (round > 1) ticks.push(round);
  return [...ticks, rounds];
}
