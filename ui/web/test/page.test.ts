// @vitest-environment happy-dom
import { beforeEach, expect, test } from 'vitest';
import quick from '../../../report/testdata/quick.json';
import type { ControlSummary, Findings, Page } from '../src/data';
import { append, h, visible } from '../src/dom';
import { show } from '../src/main';
import type { ScenarioSummary, ScenarioWindow } from '../src/scenario';

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
  expect([...(row?.querySelectorAll('td') ?? [])].map((cell) => cell.textContent).slice(0, 10)).toEqual(['120', '240', '360', '480', '600', '99.0 (first bucket)', '261', '20', '2', '0']);
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

const cellsOf = (...controls: Partial<ControlSummary>[]) => {
  const [first] = page().findings.cells ?? [];
  if (!first) throw new Error('no cell');
  return controls.map((one, i) => ({ ...first, cell: { variant: `v${i}` }, label: `v${i}`, percentiles: [], cdf: [], cpu_us_per_request: {}, memory_bytes: {}, control: { ...control, ...one } }));
};

const variants = (n: number) => [{ factor: 'variant', levels: Array.from({ length: n }, (_x, i) => `v${i}`) }];

const texts = (selector: string): (string | null)[] => [...root.querySelectorAll(selector)].map((e) => e.textContent);

test('what is pushed for a change is told for each change, acknowledgements too', () => {
  show(root, page({ cells: cellsOf({}, { committed: 40 }), factors: variants(2), findings: [] }));
  const rows = [...root.querySelectorAll('#amplification table')].find((t) => t.textContent.startsWith('Pushed for each change'))?.querySelectorAll('tbody tr') ?? [];
  expect([...rows].map((row) => [...row.querySelectorAll('td')].map((c) => c.textContent).slice(-2))).toEqual([['6.50', '0'], ['3.25', '0']]);
});

test('waterfalls of very different length have axes of their own, and a rest below zero is explained', () => {
  const long = { mean_us: 5_019_000, residual_us: -40_000, stages: [{ name: 'debounce', mean_us: 5_059_000, source: 'log' }] };
  show(root, page({ cells: cellsOf({}, long, {}), factors: variants(3), findings: [] }));
  const drawn = [...root.querySelectorAll('#waterfall svg.plot')];
  expect(drawn.map((svg) => svg.getAttribute('aria-label')?.split(': ')[1])).toEqual(['v0, v2', 'v1']);
  expect(drawn.map((svg) => [...svg.querySelectorAll('text.figure')].map((t) => t.textContent))).toEqual([['121 ms, 7% unexplained', '121 ms, 7% unexplained'], ['5,019 ms, −1% unexplained']]);
  expect([...(drawn[0]?.querySelectorAll('rect.bar title') ?? [])].map((t) => t.textContent)).toContain('unexplained: 8.00 ms');
  expect(root.querySelector('#waterfall .key')?.textContent).toContain('runs past its mark the rest is negative');
  show(root, page({ cells: cellsOf({ unexplained: { pairs: 258, beyond: 3 } }, {}), factors: variants(2), findings: [] }));
  expect(root.querySelectorAll('#waterfall svg.plot')).toHaveLength(1);
  expect(root.querySelector('#waterfall .key')?.textContent).toBe('3 of 258 pairs of a change and a proxy miss their own stages by more than 5% of their time or 2 ms.');
  expect(root.querySelector('#waterfall table')?.textContent).toContain('3 of 258–');
});

test('who used the machine stands beside its state', () => {
  const pressure = { cpu_some_ratio: 0.05, memory_some_ratio: 0, io_some_ratio: 0, steal_ratio: 0.01, busy_ratio: 0.62 };
  const cells = cellsOf({ cores_by_part: { control: 0.0229, server_proxy: 0.51, apiserver: 0.1, rest: 0.6, machine: 1.233 } }, {}).map((c) => ({ ...c, pressure }));
  show(root, page({ cells, factors: variants(2), findings: [] }));
  expect(texts('#machine thead th')).toEqual(['cell', 'istiod', 'real sidecars', 'API server', 'rest of the machine', 'whole machine', 'CPUs busy', 'tasks waited for one', 'stolen']);
  expect(texts('#machine tbody td')).toEqual(['23', '510', '100', '600', '1,233', '62%', '5%', '1%']);
  expect(root.querySelector('#conditions')).toBeNull();
  expect(texts('#control-cost tbody td')).toContain('10.0 mCPU'); // istiod's idle use
});

test('that istiod’s own percentile hides something is told only where it can be', () => {
  const value = (i: number, low: number, high: number) => ({ name: 'hidden_convergence_p99', probe: 'convergence', cell: { variant: `v${i}` }, estimate: (low + high) / 2, low, high, unit: 'us', blocks: 4, verdict: 'measured' });
  show(root, page({ cells: cellsOf({}, {}, {}), factors: variants(3), findings: [value(0, 10_000, 20_000), value(1, -20_000, 50_000)] }));
  expect([...root.querySelectorAll('#convergence tbody tr')].slice(0, 3).map((row) => row.querySelectorAll('td')[6]?.textContent)).toEqual(['15 (10–20)', '15 (−20 to 50): cannot be told', '261']);
});

test('remarks on differences name their cells, are merged and are few', () => {
  const difference = (name: string, i: number, warnings: string[], verdict = 'inconclusive') => ({ name: `${name}_overhead`, probe: 'x', cell: { variant: `v${i}` }, against: { variant: 'v0' }, estimate: 1, low: -1, high: 3, unit: 'us', blocks: 2, verdict, warnings });
  const far = (ms: number) => `the interval reaches ${ms} ms, far beyond the noise floor of 21 ms`;
  const few = 'only 2 blocks';
  show(root, page({ cells: cellsOf({}, {}, {}), factors: variants(3), noise_floor: [], findings: [
    difference('convergence_p50', 1, [few, far(293)]), difference('convergence_p50', 2, [few, far(120)]), difference('convergence_p99', 1, [few, 'odd']),
    difference('convergence_p99', 2, ['odd']), difference('pushes', 1, [few]), difference('pushes', 2, ['identical baselines differ by up to 3 pushes'], 'below_noise'),
  ] }));
  expect(texts('#overhead .warnings li')).toEqual([
    'v1: the interval reaches 293 ms, far beyond the noise floor of 21 ms (much the same: v2)', 'v1, v2: odd', 'only 2 blocks (4 differences of 6)',
  ]);
  expect(texts('#overhead .panel .warnings li')).toHaveLength(2);
});

test('first, median and last proxy stand by percentile, and what too few changes tell is not told', () => {
  const quantiles = (p50: number) => ({ p50, p90: 2 * p50, p99: null, p999: null, max: 3 * p50 });
  const edges = { changes: 20, lacking: 0, first_us: quantiles(110_000), median_us: quantiles(120_000), last_us: quantiles(150_000) };
  const real = { ...control, unacked: 3, edges, applied_us: times(130_000) };
  show(root, page({ cells: (page().findings.cells ?? []).slice(0, 1).map((c) => ({ ...c, control: real })), findings: [] }));
  const rows = [...root.querySelectorAll('#convergence .edges tbody tr')].map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent));
  expect(rows).toEqual([['the first', '110', '220', 'not reached', 'not reached', '330', '20'], ['half', '120', '240', 'not reached', 'not reached', '360', '20'], ['the last', '150', '300', 'not reached', 'not reached', '450', '20']]);
  expect(root.querySelector('#convergence .edges')?.textContent).toContain('a percentile takes as many changes');
  const first = [...(root.querySelector('#convergence tbody tr')?.querySelectorAll('td') ?? [])].map((cell) => cell.textContent);
  expect(first.slice(5, 8)).toEqual(['130', '390', '650']); // in force in Envoy
  expect(first[12]).toBe('3'); // never acknowledged
});

const traffic = {
  requests: 14_000, failed: { 'status-503': 4, timeout: 1 }, unfinished: 0, latency_intended_us: times(3_000), addresses_gone: 8,
  phantom_requests: 12, phantom_served: 0, phantom_hidden: 8, phantom_failures: 4, phantom_open: 0, hidden_max_us: 40_000, last_phantom_us: 60_000, residual: 1,
};

test('what is not measured has no section; requests at endpoints already gone have one', () => {
  const none = { ...control, percentiles: [], cdf: [], changes: [], stages: [], convergence_us: times(0), wire: {}, pushes: {}, config_bytes: {}, stale_proxy_s: 7, traffic };
  const cells = (page().findings.cells ?? []).slice(0, 1).map((c) => ({ ...c, percentiles: [], cdf: [], cpu_us_per_request: {}, memory_bytes: {}, block_p50_us: [], control: none }));
  const warned = { name: 'phantom_hidden', probe: 'staleness', cell: {}, estimate: 8, low: 7, high: 9, unit: 'requests', blocks: 4, verdict: 'measured', warnings: ['a retry hid them'] };
  show(root, page({ cells, findings: [warned], noise_floor: [] }));
  expect([...root.querySelectorAll('main > section')].map((e) => e.id).filter((id) => ['convergence', 'waterfall', 'amplification', 'gone', 'control-cost', 'drift'].includes(id))).toEqual(['gone', 'control-cost']);
  const [requests, stale] = [...root.querySelectorAll('#gone table')].map((t) => [...(t.querySelector('tbody tr')?.querySelectorAll('td') ?? [])].map((cell) => cell.textContent));
  expect(requests).toEqual(['14,000', '8', '12', '0.086%', '4', '8', '0', '0', '60.0', '5', '9.00', '1']);
  expect(stale).toEqual(['7.0', '350 ms']);
  expect([...root.querySelectorAll('#gone rect.bar title')].map((t) => t.textContent)).toEqual(['failed for the caller: 0.0286%', 'saved by a retry: 0.0571%']);
  expect(root.querySelector('#gone')?.textContent).toContain('a retry hid them');
  show(root, page({ cells: cells.map((c) => ({ ...c, control: { ...none, stale_proxy_s: 0, traffic: null } })), findings: [] }));
  expect(root.querySelector('#gone')).toBeNull();
});

test('who brought a configuration, and what metrics do not say', () => {
  const part = (owner: string, dump_bytes: number) => ({ owner, dump_bytes, wire_bytes: dump_bytes / 4, resources: 2 });
  const held = { proxy: 'a.b', namespace: 'b', type: 'router', proxies: 2, dump_bytes: 10_000, wire_bytes: 2_500, resources: 20, owners: [4, 3, 2, 0.5, 0.3].map((n, i) => part(`Service b/s-${i}`, 1000 * n)), others: part('', 200), other_owners: 1 };
  const cells = (page().findings.cells ?? []).slice(0, 1).map((c) => ({ ...c, control: { ...control, holdings: [held], missing_metrics: ['pilot_x'], uncounted_metrics: ['pilot_y'] } }));
  show(root, page({ cells, findings: [] }));
  const owners = [...root.querySelectorAll('#amplification details tbody tr')].map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent));
  expect(owners[0]).toEqual(['one of 2 gateways, in b', 'all', '10.0', '100%', '2.50', '20']);
  expect(owners).toHaveLength(6);
  expect(owners.at(-1)).toEqual(['one of 2 gateways, in b', '2 more owners', '0.500', '5%', '0.125', '4']);
  const said = root.querySelector('#control-cost details')?.textContent;
  expect(said).toContain('pilot_x');
  expect(said).toContain('zero, or unknown to this version');
});

const span = (name: string, from_s: number, to_s: number, failed: number): ScenarioWindow => ({
  name, from_s, to_s, requests: 100, answered: 100 - failed, failed, failed_by: { status: failed }, error_share: failed / 100, rate_rps: 100, latency_us: times(9_000), longest_failing_run_us: failed * 10_000,
  attempts: 1.2, hidden: 3, phantom: 0, ready: { bar: failed > 0 ? 0 : 2 }, ejected: {},
  edges: [{ from: 'clients', to: 'bar', requests: 100, attempts: 120, failed, p50_us: 9_000, p99_us: 27_000 }],
  expected: { demand_rps: 100, service: 'bar', replicas: 2, capacity_rps: 400, error_share: 0, attempts: 3 }, surprises: failed > 0 ? [`${name}: failed <b>all</b>`] : [],
});

const scenario: ScenarioSummary = {
  verdict: 'fail', expected: 'pass', as_expected: false, shown: 'b000-t00', s: 2,
  trials: [{ trial: 'b000-t00', verdict: 'fail', assertions: [{ expr: 'error_share < 0.1', time: 'after gone', outcome: 'fail', detail: 'false at 1.20 s' }] }],
  windows: [span('start', 0, 1, 0), span('gone', 1, 2, 40)], total: span('whole', 0, 2, 40),
  steps: [{ name: 'gone', op: 'remove', object: 'bar-1', begin_s: 1, applied_s: 1.004, proven_s: 1.1, late_us: 120, proof: 'one endpoint is left', failed: 40, detect_us: 9_000, recover_us: 400_000, longest_failing_run_us: 400_000 }],
  ledger: { requests: 200, reconciled: false, equations: [{ name: 'attempts to bar', left: 240, arrived: 200, lost: { UF: 39 }, missing: 1, holds: false }], faults: [{ hop: 'network', service: 'bar', flag: 'UF', count: 40, meaning: 'no connection', cause: 'gone' }],
    unreconciled: [{ id: 'mm-1', at_s: 1.2, outcome: 'status', lacks: ['a line'] }] },
  series: { bin_s: 0.1, requests: Array.from({ length: 20 }, () => 10), failed: { status: Array.from({ length: 20 }, (_, i) => (i < 10 ? 0 : 4)) }, p50_us: Array.from({ length: 20 }, (_, i) => (i === 12 ? 0 : 9_000)), p99_us: [], max_us: null },
  graph: { entry: 'bar', clients: 2, width: 1, height: 1, nodes: [{ service: 'bar', replicas: 2, x: 0.5, y: 0.5 }], lines: null }, retries: 'two',
};

test('a scenario shows verdicts, timeline, graph and ledger', () => {
  const [first, ...rest] = page().findings.cells ?? [];
  if (!first) throw new Error('no cell');
  show(root, page({ story: 'Once.', cells: [{ ...first, scenario }, ...rest] }));
  expect([...root.querySelectorAll('main > section')].map((e) => e.id).slice(0, 3)).toEqual(['verdicts', 'timeline', 'ledger']);
  expect(root.querySelector('#verdicts tbody tr')?.textContent).toContain('error_share < 0.1 after gone: false at 1.20 s');
  expect(root.querySelector('.services .hurt')?.textContent).toContain('0 of 2 ready');
  expect(root.querySelector('.services .edge.failing')).not.toBeNull();
  expect(root.querySelector('#timeline .warnings')?.textContent).toContain('failed <b>all</b>');
  expect(root.querySelector('#ledger')?.textContent).toContain('1 request does not reconcile');
  const start = root.querySelector<HTMLInputElement>('#timeline input[value=start]');
  if (!start) throw new Error('no window to choose');
  start.checked = true;
  start.dispatchEvent(new Event('change'));
  expect(root.querySelector('.services .hurt')).toBeNull();
  expect(new XMLSerializer().serializeToString(root)).not.toMatch(/NaN|undefined|Infinity/);
});
