// How the numbers of profiles are written, which are sums over what a reader
// chose to see: the only numbers that the page works out itself.

/** v with d digits after the point, thousands grouped, never "−0". */
export function fixed(v: number, d: number): string {
  const text = Math.abs(v).toLocaleString('en', { minimumFractionDigits: d, maximumFractionDigits: d });
  return v < 0 && /[1-9]/.test(text) ? `−${text}` : text;
}

/** A whole number with its thousands grouped. */
export const count = (n: number): string => fixed(n, 0);

/** "1 sample", "12 samples". */
export const plural = (n: number, noun: string): string => `${count(n)} ${noun}${n === 1 ? '' : 's'}`;

const UNITS: Readonly<Record<string, readonly (readonly [number, string])[]>> = {
  nanoseconds: [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']],
  bytes: [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [1, 'bytes']],
};

/** A weight in the unit of its profile, in three digits. */
export function amount(v: number, unit: string): string {
  const of = UNITS[unit]?.find(([by]) => Math.abs(v) >= by) ?? UNITS[unit]?.at(-1);
  if (!of) return `${count(v)} ${unit}`;
  const shown = v / of[0];
  return `${shown.toLocaleString('en', { maximumSignificantDigits: 3 })} ${of[1]}`;
}
