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

/** A mark on an axis. */
export interface Tick {
  /** Along the axis, in pixels of the chart. */
  at: number;
  text: string;
}

/** A chart, ready to be drawn. */
export interface LineChart {
  /** One path per series, for the `d` of an SVG path. */
  paths: string[];
  xTicks: Tick[];
  yTicks: Tick[];
}

/**
 * A line per series over the rounds 1, 2, …; what is not a finite number is a gap.
 * @param fromZero whether the vertical axis begins at zero; else it fits the values
 */
export function lineChart(
  series: readonly (readonly (number | null)[])[],
  size: ChartSize,
  fromZero: boolean,
): LineChart {
  const values = series.flat().filter(isNumber);
  const rounds = Math.max(0, ...series.map(({ length }) => length));
  const ticks = axis(values, fromZero);
  const low = ticks[0] ?? 0;
  const high = ticks.at(-1) ?? 1;
  const bottom = size.height - size.bottom;
  const right = size.width - size.right;
  const x = (round: number): number =>
    rounds <= 1 ? size.left : size.left + ((round - 1) / (rounds - 1)) * (right - size.left);
  const y = (value: number): number => bottom - ((value - low) / (high - low)) * (bottom - size.top);
  const decimals = decimalsOf((ticks[1] ?? 1) - low);
  return {
    paths: series.map((line) => pathOf(line, x, y)),
    xTicks: roundTicks(rounds).map((round) => ({ at: x(round), text: String(round) })),
    yTicks: ticks.map((value) => ({ at: y(value), text: value.toFixed(decimals) })),
  };
}

/** A value at a time. */
export interface Point {
  ms: number;
  value: number;
}

/** A line per series over the time since the beginning, both axes from zero. */
export function timeChart(series: readonly (readonly Point[])[], size: ChartSize): LineChart {
  const points = series.flat();
  const seconds = axis(
    points.map(({ ms }) => ms / 1000),
    true,
  );
  const ticks = axis(
    points.map(({ value }) => value),
    true,
  );
  const [end, high] = [seconds.at(-1) ?? 1, ticks.at(-1) ?? 1];
  const [right, bottom] = [size.width - size.right, size.height - size.bottom];
  const x = (s: number): number => size.left + (s / end) * (right - size.left);
  const y = (value: number): number => bottom - (value / high) * (bottom - size.top);
  const at = ({ ms, value }: Point): string => `${x(ms / 1000).toFixed(1)} ${y(value).toFixed(1)}`;
  return {
    paths: series.map((line) => line.map((point, index) => `${index ? 'L' : 'M'}${at(point)}`).join('')),
    xTicks: seconds.map((tick) => ({ at: x(tick), text: `${trimmed(tick)} s` })),
    yTicks: ticks.map((tick) => ({ at: y(tick), text: formatMark(tick) })),
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

/** A share of 0 to 1 on a scale of powers of ten, beyond its ends the ends; NaN for what is not a finite number. */
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

/** How many decimals a multiple of a {@link roundStep} needs. */
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

function pathOf(
  line: readonly (number | null)[],
  x: (round: number) => number,
  y: (value: number) => number,
): string {
  const parts: string[] = [];
  let drawing = false;
  line.forEach((value, index) => {
    if (!isNumber(value)) {
      drawing = false;
      return;
    }
    const point = `${x(index + 1).toFixed(1)} ${y(value).toFixed(1)}`;
    // A line of no length: with round ends a value between two gaps is a dot.
    parts.push(drawing ? `L${point}` : `M${point}h0`);
    drawing = true;
  });
  return parts.join('');
}
