// Axes: scales from values to pixels, their ticks, and the words on them.

import { scaleLinear, scaleLog } from 'd3-scale';
import type { Axis as Given } from '../documents';

export interface Tick {
  readonly value: number;
  readonly text: string;
  /** A line without a number. */
  readonly minor?: boolean;
}

export interface Axis {
  readonly title: string;
  readonly scale: string;
  readonly domain: readonly [number, number];
  readonly at: (v: number) => number;
  readonly marks: readonly Tick[];
}

/** Room in pixels that a label of a factor's level needs. */
const FIXED = 34;

/** The number of nines of a percentile: 0 for p0, 1 for p90, 3 for p99.9. */
export function nines(percentile: number): number {
  return -Math.log10(Math.max(1e-9, 1 - percentile / 100));
}

const PERCENTILES = [0, 50, 75, 90, 99, 99.9, 99.99, 99.999];

/** Makes an axis for values, on a range of pixels whose labels need some room each. */
export function makeAxis(given: Given, values: readonly number[], range: readonly [number, number], room: number): Axis {
  const { title, scale } = given;
  const many = Math.max(2, Math.floor(Math.abs(range[1] - range[0]) / room));
  let [low, high] = given.range ?? (scale === 'nines' ? [Math.min(...values), Math.max(...values)] : airy(values, scale, given.zero));
  if (scale === 'nines') {
    const [n0, n1] = [nines(low), nines(high)];
    const at = (v: number): number => range[0] + ((nines(v) - n0) / (n1 - n0 || 1)) * (range[1] - range[0]);
    const marks = PERCENTILES.filter((p) => p >= low && p <= high + 1e-9).map((p) => ({ value: p, text: `p${p}` }));
    return { title, scale, domain: [low, high], at, marks: spaced(marks, at, room * 0.6) };
  }
  if (scale === 'log') {
    low = Math.max(low, 1e-12);
    if (high <= low) high = low * 10;
    const at = scaleLog([low, high], [...range]);
    return { title, scale, domain: [low, high], at, marks: given.ticks ? spaced(given.ticks, at, FIXED) : logTicks(low, high, many, at, room) };
  }
  if (high <= low) high = low + 1;
  const at = scaleLinear([low, high], [...range]);
  const text = at.tickFormat(many);
  return { title, scale, domain: [low, high], at, marks: given.ticks ? spaced(given.ticks, at, FIXED) : at.ticks(many).map((v) => ({ value: v, text: text(v) })) };
}

/** Ticks at 1, 2 and 5 times powers of ten where there is room for them. */
function logTicks(low: number, high: number, many: number, at: (v: number) => number, room: number): Tick[] {
  const steps = Math.log10(high / low) * 3 <= many * 1.5 ? [1, 2, 5] : [1];
  const labelled: Tick[] = [];
  const minor: Tick[] = [];
  for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.log10(high) + 1; power++) {
    for (let digit = 1; digit <= 9; digit++) {
      const v = Number(`${digit}e${power}`);
      if (v < low * 0.9999 || v > high * 1.0001) continue;
      if (steps.includes(digit)) labelled.push({ value: v, text: v.toLocaleString('en', { maximumFractionDigits: 12 }) });
      else minor.push({ value: v, text: '', minor: true });
    }
  }
  return [...spaced(labelled, at, room * 0.6), ...minor];
}

/** Leaves out ticks that would stand closer than room pixels. */
export function spaced(ticks: readonly Tick[], at: (v: number) => number, room: number): Tick[] {
  const out: Tick[] = [];
  for (const tick of ticks) {
    const before = out.at(-1);
    if (!before || Math.abs(at(tick.value) - at(before.value)) >= room) out.push(tick);
  }
  return out;
}

/** A domain with air around it. */
export function airy(values: readonly number[], scale: string, fromZero = false): [number, number] {
  const usable = values.filter((v) => Number.isFinite(v) && (scale !== 'log' || v > 0));
  if (usable.length === 0) return scale === 'log' ? [1, 10] : [0, 1];
  let low = Math.min(...usable);
  let high = Math.max(...usable);
  if (scale === 'log') return [low / 1.15, high * 1.15];
  if (fromZero) {
    low = Math.min(0, low);
    high = Math.max(0, high);
  }
  const air = (high - low || Math.abs(high) || 1) * 0.06;
  return [low === 0 ? 0 : low - air, high === 0 ? 0 : high + air];
}
