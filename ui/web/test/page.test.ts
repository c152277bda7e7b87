// @vitest-environment happy-dom
// Pages draw the values of their documents, whatever these are about.

import { beforeEach, expect, test } from 'vitest';
import { drawn } from '../src/chart/draw';
import type { Chart } from '../src/documents';
import { append, h, visible } from '../src/dom';
import { show } from '../src/page';
import { broken, first, page, press, sections, source, studies } from './fixtures';

let root: HTMLElement;
beforeEach(() => {
  root = h('div');
  document.body.replaceChildren(root);
});

test('text is text', () => {
  append(root, ['<b>bold</b>', h('p', { title: '"><img>' }, '<script>x</script>', 7, null, false, ['nested'])]);
  expect(root.querySelector('b, img, script')).toBeNull();
  expect(root.textContent).toBe('<b>bold</b><script>x</script>7nested');
});

test('what hides or reorders text is spelled out', () => {
  expect(visible('a\u202eb\u001b[31m\u200b')).toBe('a\\u202eb\\x1b[31m\\u200b');
  expect(visible('two\nlines\t·µ–')).toBe('two\nlines\t·µ–');
});

test.each(studies)('%s: every section is drawn in its place, and every table as it was given', (study) => {
  const given = page(study);
  show(root, given);
  const titles = [...root.querySelectorAll('main > section > h2')].map((e) => e.textContent);
  expect(titles.slice(0, sections(study).length)).toEqual(sections(study).map((s) => s.title));
  expect(root.querySelector('h1')?.textContent).toBe(first(given.answers));
  const cells = [...root.querySelectorAll('main table.data[class="data"] tbody tr')].length;
  const rows = sections(study).flatMap((s) => s.tables ?? []).reduce((n, t) => n + (t.rows ?? []).length, 0);
  expect(cells).toBeGreaterThanOrEqual(rows);
  expect(source(root)).not.toMatch(broken);
});

test.each(studies)('%s: every chart draws its marks', (study) => {
  for (const chart of sections(study).flatMap((s) => s.charts ?? [])) {
    const figure = drawn(chart, { has: () => true });
    if (!figure) throw new Error(`nothing drawn: ${chart.name}`);
    expect(figure.element.querySelectorAll('svg path, svg rect').length, chart.name).toBeGreaterThan(0);
    expect(source(figure.element)).not.toMatch(broken);
  }
});

test('a switch shows the charts of its choice', () => {
  show(root, page('data-plane'));
  const before = root.querySelector('#latency svg.plot')?.getAttribute('aria-label');
  press(root, '#latency input[value=distribution]');
  const after = root.querySelector('#latency svg.plot')?.getAttribute('aria-label');
  expect(after).not.toBe(before);
  expect(sections('data-plane').flatMap((s) => s.charts ?? []).find((c) => c.name === after)?.options).toContainEqual({ switch: 'curve', choice: 'distribution' });
});

test('a level that is switched off takes its rows and marks away', () => {
  show(root, page('data-plane'));
  const rows = (): number => root.querySelectorAll('#latency tbody tr').length;
  const before = rows();
  root.querySelector<HTMLInputElement>('.filters input')?.click();
  expect(rows()).toBeLessThan(before);
  for (const input of root.querySelectorAll<HTMLInputElement>('.filters fieldset:first-of-type input')) if (input.checked) input.click();
  expect(root.querySelector('#latency .empty')).not.toBeNull();
});

test('an estimate without a figure has its reason and no mark', () => {
  const row = { label: 'a', look: { color: 'series-1' }, estimate: 3, low: 2, high: 4, noise: 1, text: '3 (2–4)' };
  const chart = (rows: readonly typeof row[]): Chart => ({ name: 'rows', intervals: { x: { title: 'added, ms', scale: 'linear' }, rows } });
  const draw = (c: Chart): Element => drawn(c, { has: () => true })?.element ?? root;
  const both = draw(chart([row, { ...row, label: 'b', estimate: 0, low: 0, high: 900, empty: true, text: 'too few' } as typeof row]));
  const [told, empty] = [...both.querySelectorAll('g.row')];
  expect([...(told?.children ?? [])].map((e) => e.tagName)).toEqual(['rect', 'path', 'path', 'text', 'text']);
  expect([...(empty?.children ?? [])].map((e) => e.tagName)).toEqual(['text', 'text']);
  const ticks = (e: Element): string[] => [...e.querySelectorAll('g.axes text')].map((t) => t.textContent);
  expect(ticks(both)).toEqual(ticks(draw(chart([row]))));
});

test('a heatmap draws a field for each count, the most in full', () => {
  const figure = drawn({ name: 'heat', heatmap: { x: { title: 's', scale: 'linear' }, y: { title: 'ms', scale: 'log' }, x_edges: [0, 1, 2], y_edges: [1, 10, 100], counts: [[1, 0], [7, 90]], what: 'requests', x_texts: ['0 s', '1 s'], y_texts: ['1–10 ms', '10–100 ms'] } }, { has: () => true });
  const fields = [...(figure?.element.querySelectorAll('rect.heat') ?? [])];
  expect(fields.map((f) => f.textContent)).toEqual(['0 s, 1–10 ms: 1 requests', '0 s, 10–100 ms: 7 requests', '1 s, 10–100 ms: 90 requests']);
  expect(fields.at(-1)?.getAttribute('opacity')).toBe('1.000');
});
