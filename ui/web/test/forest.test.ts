// @vitest-environment happy-dom
import { expect, test } from 'vitest';
import { forest, type ForestRow } from '../src/chart/forest';

const row = (label: string, more: Partial<ForestRow> = {}): ForestRow =>
  ({ label, color: 'black', shape: 0, estimate: 3, low: 2, high: 4, noise: 1, hollow: false, says: '3 (2–4)', ...more });

const draw = (rows: readonly ForestRow[]): Element =>
  forest({ name: 'rows', title: 'added, ms', rows, scale: { div: 1, unit: 'ms' }, format: String }).element;

test('a figure that is refused has no mark, no interval, no noise floor and no say in the axis', () => {
  const with0 = draw([row('a'), row('b', { estimate: 0, low: 0, high: 900, refused: true, says: 'too few' })]);
  const [told, refused] = [...with0.querySelectorAll('g.row')];
  expect([...(told?.children ?? [])].map((e) => e.tagName)).toEqual(['rect', 'path', 'path', 'text', 'text']);
  expect([...(refused?.children ?? [])].map((e) => e.tagName)).toEqual(['text', 'text']);
  expect(refused?.textContent).toBe('btoo few');
  const ticks = (e: Element): string[] => [...e.querySelectorAll('g.axes text')].map((t) => t.textContent);
  expect(ticks(with0)).toEqual(ticks(draw([row('a')])));
});
