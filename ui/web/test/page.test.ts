// @vitest-environment happy-dom
import { beforeEach, expect, test } from 'vitest';
import quick from '../../../report/testdata/quick.json';
import type { ControlSummary, Findings, Page } from '../src/data';
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

const times = (p50: number) => ({ min: 1, p50, p90: 2 * p50, p99: 3 * p50, p999: 4 * p50, max: 5 * p50, mean: p50 });

const control: ControlSummary = {
  proxies: 11, gateways: 2, real_proxies: 0, committed: 20, failed: 0, pairs: 258, unacked: 0, superseded: 0, missed: 2,
  convergence_us: times(120_000), received_us: times(119_000),
  percentiles: [{ x: 50, y: 120_000 }, { x: 99, y: 360_000 }], cdf: [{ x: 100_000, y: 0.1 }, { x: 360_000, y: 0.99 }],
  first_us: 110_000, median_us: 120_000, last_us: 150_000,
  changes: [{ at_s: 0, kind: 'service', proxies: 13, first_us: 110_000, median_us: 120_000, last_us: 150_000 }, { at_s: 2.5, kind: 'service', proxies: 0, first_us: -1, median_us: -1, last_us: -1 }],
  stages: [{ name: 'debounce', mean_us: 101_000, source: 'log' }, { name: 'generate', mean_us: 12_000, source: 'pilot_xds_push_time' }], mean_us: 121_000, residual_us: 8_000,
  reported_p99_us: 99_000, reported_first_bucket: true, pushes: { cds: 130 },
  wire: { cds: { responses: 130, bytes: 1_300_000, resources: 2_600, identical: 2_340, acks: 130, nacks: 0 } }, config_bytes: { cds: 900_000, lds: 80_000 },
  window_s: 30, istiod_cpu: { user_s: 1, system_s: 0.2 }, simulator_cpu: { user_s: 0.1, system_s: 0.05 }, idle_cores: 0.01, stale_proxy_s: 0, heap_bytes: 60_000_000, alloc_bytes: 500_000_000,
};

test('a study of the control plane shows convergence, its stages, pushes and cost in place of latency', () => {
  const cells = (page().findings.cells ?? []).map((c) => ({ ...c, percentiles: [], cdf: [], cpu_us_per_request: {}, memory_bytes: {}, control }));
  show(root, page({ cells, findings: [] }));
  expect([...root.querySelectorAll('main > section')].map((e) => e.id)).toEqual(['convergence', 'waterfall', 'amplification', 'control-cost', 'memory', 'validity', 'drift', 'findings', 'assertions', 'about', 'study'].filter((id) => root.querySelector(`#${id}`)));
  expect(root.querySelector('#latency')).toBeNull();
  const row = root.querySelector('#convergence table tbody tr');
  expect([...(row?.querySelectorAll('td') ?? [])].map((cell) => cell.textContent).slice(0, 9)).toEqual(['120', '240', '360', '600', '110', '150', '99.0 (first bucket)', '20', '2']);
  const radio = root.querySelector<HTMLInputElement>('#convergence input[value=changes]');
  if (!radio) throw new Error('no switch');
  radio.checked = true;
  radio.dispatchEvent(new Event('change'));
  expect(root.querySelector('#convergence svg.plot')?.getAttribute('aria-label')).toContain('first, the median and the last');
  expect(root.querySelector('#waterfall table')?.textContent).toContain('unexplained');
  expect(root.querySelector('#amplification table')?.textContent).toContain('90%');
  show(root, page({ cells: cells.map((c) => ({ ...c, control: { ...control, scope_config_bytes: { cds: 4_000 }, join_us: 9_400, join_bytes: { cds: 117_000, ecds: 0 } } })), findings: [] }));
  expect(root.querySelectorAll('#amplification svg.plot')).toHaveLength(2);
  expect([...(root.querySelector('#amplification table tbody tr')?.querySelectorAll('td') ?? [])].map((cell) => cell.textContent)).toEqual(['9.40', '117', '117']);
  expect(new XMLSerializer().serializeToString(root)).not.toMatch(/NaN|undefined|Infinity/);
});
