// @vitest-environment happy-dom
// The page of a study of resilience.

import { beforeEach, expect, test } from 'vitest';
import { h } from '../src/dom';
import { show } from '../src/main';
import { broken, cells, page, press, rows, source, texts } from './fixtures';

let root: HTMLElement;
beforeEach(() => {
  root = h('div');
  document.body.replaceChildren(root);
});

test('a scenario shows verdicts, timeline, graph and ledger', () => {
  show(root, page('resilience'));
  expect([...root.querySelectorAll('main > section')].map((e) => e.id).slice(0, 3)).toEqual(['verdicts', 'timeline', 'ledger']);
  expect(root.querySelectorAll('.services .box, .services rect').length).toBeGreaterThanOrEqual(3);
  expect(source(root)).not.toMatch(broken);
});

test('a section without a picture is there as its tables', () => {
  const given = page('resilience');
  const use = (given.sections ?? []).find((s) => s.name === 'CPU and memory');
  const [numbers] = use?.tables ?? [];
  if (!numbers) throw new Error('no table');
  show(root, given);
  const section = root.querySelector('#cpu-and-memory');
  expect(section?.querySelector('h2')?.textContent).toBe('CPU and memory');
  expect(section?.querySelector('caption')?.textContent).toBe(numbers.title);
  expect(texts(root, '#cpu-and-memory thead th')).toEqual((numbers.columns ?? []).map((c) => c.head));
  expect(rows(section)).toEqual(numbers.rows);
  expect(root.querySelectorAll('#windows, #steps')).toHaveLength(0); // the timeline has them
});

test('an assertion that does not hold is told with its moment, a step without proof with its reason', () => {
  show(root, page('resilience'));
  const verdicts = texts(root, '#verdicts tbody tr').join('\n');
  expect(verdicts).toContain('error_share < 0.02');
  expect(verdicts).toMatch(/fail/);
  expect(root.querySelector('#verdicts')?.textContent).toContain('not proven: the EndpointSlices of stock still have 10 endpoints');
});

test('a window shows the services as they were in it', () => {
  show(root, page('resilience'));
  const windows = (cells('resilience')[0]?.scenario?.windows ?? []).map((w) => w.name);
  expect(windows.length).toBeGreaterThan(3);
  const pictures = windows.map((name) => {
    press(root, `#timeline input[value="${name}"]`);
    return source(root.querySelector('.services'));
  });
  expect(new Set(pictures).size).toBe(windows.length);
});

test('text of a study stays text', () => {
  const surprising = cells('resilience').map((cell) => {
    if (!cell.scenario) throw new Error('no scenario');
    return { ...cell, scenario: { ...cell.scenario, windows: (cell.scenario.windows ?? []).map((w) => ({ ...w, surprises: ['failed <b>all</b>'] })) } };
  });
  show(root, page('resilience', { story: '<i>Once.</i>\nIt\n\nhappened.\n', cells: surprising }));
  expect([...root.querySelectorAll('.story p')].map((p) => p.textContent)).toEqual(['<i>Once.</i>\nIt', 'happened.']);
  expect(root.querySelector('#timeline .warnings')?.textContent).toContain('failed <b>all</b>');
  expect(root.querySelector('b, i')).toBeNull();
});
