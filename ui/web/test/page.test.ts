// @vitest-environment happy-dom
import { beforeEach, expect, test } from 'vitest';
import quick from '../../../report/testdata/quick.json';
import type { Findings, Page } from '../src/data';
import { append, h, visible } from '../src/dom';
import { show } from '../src/main';

const page = (change: Partial<Findings> = {}): Page => ({ findings: { ...(quick as unknown as Findings), ...change }, answers: ['Headline.', 'More.'], warnings: [] });

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

test('every section is there, with charts in it', () => {
  show(root, page());
  expect([...root.querySelectorAll('main > section')].map((e) => e.id)).toEqual(['overhead', 'latency', 'cpu', 'memory', 'validity', 'drift', 'findings', 'assertions', 'about', 'study']);
  expect(root.querySelectorAll('svg.plot').length).toBeGreaterThanOrEqual(8);
  expect(root.querySelector('h1')?.textContent).toBe('Headline.');
  expect(new XMLSerializer().serializeToString(root)).not.toMatch(/NaN|undefined|Infinity/);
});

test('null lists, as Go writes empty ones, are no trouble', () => {
  show(root, page({ cells: null, findings: null, noise_floor: null, factors: null, components: null, assertions: null, published: null }));
  expect(root.textContent).toContain('Validity and noise');
});

test('the distribution replaces the percentiles', () => {
  show(root, page());
  const before = root.querySelector('#latency svg.plot')?.getAttribute('aria-label');
  const radio = root.querySelector<HTMLInputElement>('#latency input[value=cdf]');
  if (!radio) throw new Error('no switch');
  radio.checked = true;
  radio.dispatchEvent(new Event('change'));
  expect(root.querySelector('#latency svg.plot')?.getAttribute('aria-label')).not.toBe(before);
});

test('a finding below noise shows no figure of its own', () => {
  show(root, page());
  const row = [...root.querySelectorAll('#overhead table.data tbody tr')].find((r) => r.textContent.includes('below noise'));
  expect(row?.textContent).toMatch(/below noise \([\d.]+\)–below noise/);
});

test('connections and the machine’s state stand in a table', () => {
  const cells = page().findings.cells ?? [];
  const [first, ...rest] = cells;
  if (!first) throw new Error('no cell');
  const pressure = { cpu_some_ratio: 0.05, memory_some_ratio: 0, io_some_ratio: 0, steal_ratio: 0.01, busy_ratio: 0.31 };
  const connection = { established: 17, opened: 0, accepted: 0, retransmitted: 1 };
  show(root, page({ cells: [{ ...first, pressure, connections: { generator: connection } }, ...rest] }));
  const row = root.querySelector('#conditions tbody tr');
  expect([...(row?.querySelectorAll('td') ?? [])].slice(-6).map((cell) => cell.textContent)).toEqual(['17', '–', '1', '31%', '5%', '1%']);
  show(root, page());
  expect(root.querySelector('#conditions')).toBeNull(); // this run recorded neither
});
