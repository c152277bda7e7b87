import { expect, test } from 'vitest';
import cases from '../../../report/testdata/format.json';
import { decimals, fixed, magnitude, percentileName, plural, quantity, reach, scaleFor, value } from '../src/format';

// The same file is the test of report/format.go; there a minus is a hyphen.
test.each(cases)('$estimate $unit of at most $largest', (c) => {
  const scale = scaleFor(c.unit, c.largest);
  expect(value(scale, c.estimate).replaceAll('−', '-')).toBe(c.plain);
  expect(quantity(scale, c.estimate, c.low, c.high).replaceAll('−', '-')).toBe(c.quantity);
});

test('numbers that are none', () => {
  expect(fixed(Number.NaN, 2)).toBe('?');
  expect(fixed(Number.POSITIVE_INFINITY, 2)).toBe('?');
  expect(fixed(-0.001, 2)).toBe('0.00');
  expect(fixed(1234567.891, 1)).toBe('1,234,567.9');
  expect(magnitude(0)).toBe(0);
  expect(decimals(0, 0, 0)).toBe(2);
});

test('units that look like members of objects stay units', () => {
  expect(scaleFor('constructor', 5)).toEqual({ div: 1, unit: 'constructor' });
  expect(scaleFor('__proto__', 5)).toEqual({ div: 1, unit: '__proto__' });
});

test('a limit of which an end is not known', () => {
  expect(reach(undefined, '1', '2')).toBe('');
  expect(reach('high', '4', '4')).toBe('4 or more');
  expect(reach('low', '0', '2')).toBe('below 2');
  expect(reach('both', '0', '0')).toBe('not known');
});

test('words around numbers', () => {
  expect(percentileName(99.9)).toBe('p99.9');
  expect(percentileName(50)).toBe('p50');
  expect(plural(1, 'block')).toBe('1 block');
  expect(plural(1200, 'block')).toBe('1,200 blocks');
});
