import { expect, test } from 'vitest';
import { airy, makeAxis, nines } from '../src/chart/axis';

const axis = (kind: 'linear' | 'log' | 'nines', domain: [number, number], width = 600) =>
  makeAxis({ scale: kind, title: '', range: domain }, [], [0, width], 72);

test('nines count nines', () => {
  expect(nines(0)).toBeCloseTo(0);
  expect(nines(90)).toBeCloseTo(1);
  expect(nines(99.9)).toBeCloseTo(3);
  expect(Number.isFinite(nines(100))).toBe(true);
});

test('the tail gets as much room for each nine', () => {
  const a = axis('nines', [0, 99.99]);
  expect(a.at(99) - a.at(90)).toBeCloseTo(a.at(99.9) - a.at(99));
  expect(a.marks.map((m) => m.text)).toContain('p99.9');
});

test.each(['linear', 'log', 'nines'] as const)('a %s axis keeps order, stays in range, and its labels apart', (kind) => {
  for (const width of [240, 600, 1100]) {
    const a = axis(kind, kind === 'nines' ? [5, 99.99] : [0.05, 40], width);
    const values = kind === 'nines' ? [5, 50, 90, 99, 99.99] : [0.05, 0.2, 1, 7, 40];
    const at = values.map(a.at);
    expect([...at].sort((x, y) => x - y)).toEqual(at);
    expect(Math.min(...at)).toBeGreaterThanOrEqual(-1e-6);
    expect(Math.max(...at)).toBeLessThanOrEqual(width + 1e-6);
    const labels = a.marks.filter((m) => !m.minor).map((m) => a.at(m.value));
    expect(labels.length).toBeGreaterThanOrEqual(2);
    for (let i = 1; i < labels.length; i++) expect(Math.abs((labels[i] ?? 0) - (labels[i - 1] ?? 0))).toBeGreaterThan(20);
  }
});

test('log ticks are round numbers, exactly', () => {
  expect(axis('log', [0.08, 30]).marks.filter((m) => !m.minor).map((m) => m.text)).toEqual(['0.1', '0.2', '0.5', '1', '2', '5', '10', '20']);
});

test('domains hold their values, and nothing odd', () => {
  expect(airy([], 'linear')).toEqual([0, 1]);
  expect(airy([3], 'linear', true)[0]).toBe(0);
  expect(airy([-2, 5], 'linear', true)[0]).toBeLessThan(-2);
  expect(airy([0, 10, 1000], 'log')[0]).toBeGreaterThan(0);
  expect(airy([Number.NaN, 5, 6], 'linear').every(Number.isFinite)).toBe(true);
});
