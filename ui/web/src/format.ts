// How numbers are written. The rules are those of report/format.go; both are
// tested against report/testdata/format.json.

/** How a group of values of one unit is shown: divided by div, named unit. */
export interface Scale {
  readonly div: number;
  readonly unit: string;
}

const TIME: Readonly<Record<string, number>> = { ns: 1e-3, us: 1, ms: 1e3, s: 1e6 };

/**
 * The scale for values of a unit whose largest magnitude is largest: times in
 * µs below 0.2 ms, in ms below 10 s; bytes in kB, MB or GB; ratios in percent;
 * cores of which none is used whole in thousandths.
 */
export function scaleFor(unit: string, largest: number): Scale {
  const slash = unit.indexOf('/');
  const base = slash < 0 ? unit : unit.slice(0, slash);
  const suffix = slash < 0 ? '' : ` per ${unit.slice(slash + 1)}`;
  const us = Object.hasOwn(TIME, base) ? TIME[base] : undefined;
  if (us !== undefined) {
    const magnitude = largest * us;
    if (magnitude < 200) return { div: 1 / us, unit: `µs${suffix}` };
    if (magnitude < 1e7) return { div: 1e3 / us, unit: `ms${suffix}` };
    return { div: 1e6 / us, unit: `s${suffix}` };
  }
  switch (base) {
    case 'bytes':
      if (largest < 1e6) return { div: 1e3, unit: `kB${suffix}` };
      if (largest < 1e10) return { div: 1e6, unit: `MB${suffix}` };
      return { div: 1e9, unit: `GB${suffix}` };
    case 'ratio':
      return { div: 0.01, unit: '%' };
    case 'rps':
      return { div: 1, unit: 'requests/s' };
    case 'cores':
      return largest < 1 ? { div: 1e-3, unit: 'mCPU' } : { div: 1, unit };
  }
  return { div: 1, unit };
}

/** The power of ten of v's first digit; 0 for 0. */
export function magnitude(v: number): number {
  const a = Math.abs(v);
  return a === 0 || !Number.isFinite(a) ? 0 : Math.floor(Math.log10(a));
}

const clamp = (v: number, low: number, high: number): number => Math.max(low, Math.min(v, high));

/** How many digits after the point an estimate and its interval deserve; an end that is not zero is not written as zero where one digit more helps. */
export function decimals(estimate: number, low: number, high: number): number {
  const half = (high - low) / 2;
  let most = 3 - magnitude(estimate);
  if (!(half > 0) || !Number.isFinite(half)) return clamp(most - 1, 0, 6);
  let d = -magnitude(half);
  if (half * 10 ** d < 2) d += 1;
  most = Math.min(most, 3 - magnitude(Math.max(Math.abs(low), Math.abs(high))));
  d = clamp(Math.min(d, most), 0, 6);
  return d < 6 && [low, high].some((end) => zeroAt(end, d) && !zeroAt(end, d + 1)) ? d + 1 : d;
}

/** Whether v is not zero and is written as zero with d digits. */
const zeroAt = (v: number, d: number): boolean => v !== 0 && Number(v.toFixed(d)) === 0;

/** v with d digits after the point, thousands grouped, never "−0". */
export function fixed(v: number, d: number): string {
  if (!Number.isFinite(v)) return '?';
  const text = Math.abs(v).toFixed(d);
  const [whole = '0', fraction] = text.split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  const sign = v < 0 && Number(text) !== 0 ? '−' : '';
  return sign + grouped + (fraction === undefined ? '' : `.${fraction}`);
}

/** A value without interval, with three significant digits, without unit. */
export function plain(scale: Scale, v: number): string {
  const shown = v / scale.div;
  if (counts(scale) && Number.isInteger(shown)) return fixed(shown, 0);
  return shown === 0 ? '0' : fixed(shown, clamp(2 - magnitude(shown), 0, 6));
}

/** Whether values are numbers of things, which need no decimals to show how exact they are. */
const counts = (scale: Scale): boolean => ['pushes', 'missed', 'changes'].includes(scale.unit);

/** plain with its unit. */
export function value(scale: Scale, v: number): string {
  return join(plain(scale, v), scale.unit);
}

/** Whether the ends of an interval are one value but for what arithmetic leaves. */
export const oneValue = (low: number, high: number): boolean => high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high));

function parts(scale: Scale, estimate: number, low: number, high: number): readonly [string, string] {
  const [e, l, u] = [estimate / scale.div, low / scale.div, high / scale.div];
  const d = counts(scale) && l === u && Number.isInteger(e) ? 0 : decimals(e, l, u);
  if (!oneValue(l, u) && fixed(l, d) === fixed(u, d)) { // much narrower than the digits that are told
    const half = Math.max(u - e, e - l);
    return [fixed(e, d), `to within ${fixed(half, clamp(-magnitude(half), 0, 9))}`];
  }
  return [fixed(e, d), fixed(l, d) + (l < 0 ? ' to ' : '–') + fixed(u, d)];
}

/** An estimate with its interval, without unit: "0.31 (0.28–0.34)". */
export function interval(scale: Scale, estimate: number, low: number, high: number): string {
  const [e, span] = parts(scale, estimate, low, high);
  return `${e} (${span})`;
}

/** An estimate with its unit and interval: "0.31 ms (0.28–0.34)". */
export function quantity(scale: Scale, estimate: number, low: number, high: number): string {
  const [e, span] = parts(scale, estimate, low, high);
  return `${join(e, scale.unit)} (${span})`;
}

/** From where to where a limit lies of which an end is not known; '' if both are. */
export function reach(open: string | undefined, low: string, high: string): string {
  switch (open) {
    case 'high': return `${low} or more`;
    case 'low': return `below ${high}`;
    case 'both': return 'not known';
  }
  return '';
}

function join(number: string, unit: string): string {
  if (unit === '') return number;
  return unit === '%' ? `${number}%` : `${number} ${unit}`;
}

/** A whole number with its thousands grouped. */
export const count = (n: number): string => fixed(n, 0);

/** "1 block", "12 blocks". */
export const plural = (n: number, noun: string): string => `${count(n)} ${noun}${n === 1 ? '' : 's'}`;

/** A ratio in whole percent. */
export const percent = (ratio: number): string => (Number.isFinite(ratio) ? `${fixed(100 * ratio, 0)}%` : '?');

/** A percentile by name: "p99.9". */
export function percentileName(p: number): string {
  return `p${String(Number(p.toFixed(4)))}`;
}

/** The names of the percentiles that a document's quantiles have, in order. */
export function percentilesOf<T extends object>(quantiles: T | undefined): Extract<keyof T, `p${number}`>[] {
  return Object.keys(quantiles ?? {}).filter((name) => /^p\d+$/.test(name)) as Extract<keyof T, `p${number}`>[];
}

/** The name of a quantile in tables: p99.9 for p999. */
export function quantileHead(name: string): string {
  return name.length > 3 ? `${name.slice(0, 3)}.${name.slice(3)}` : name;
}

/** How many observations leave one beyond a quantile; 0 for the median and the maximum, which any number has. */
export function observationsFor(name: string): number {
  const share = Number(`0.${name.slice(1)}`);
  return share > 0.5 ? Math.round(1 / (1 - share)) : 0;
}
