// @vitest-environment happy-dom
// The page of a study of the control plane.

import { beforeEach, expect, test } from 'vitest';
import { h } from '../src/dom';
import { show } from '../src/main';
import { broken, cells, controlCells, first, findings, page, press, rows, source, tableOf, texts } from './fixtures';

let root: HTMLElement;
beforeEach(() => {
  root = h('div');
  document.body.replaceChildren(root);
});

const shown = (...changes: Parameters<typeof controlCells>[1][]): void => {
  show(root, page('control-plane', { cells: controlCells('control-plane', ...changes) }));
};

const figures = (selector: string): string[][] => rows(root.querySelector(selector)).map((row) => row.slice(1));

test('it shows convergence, its stages, pushes and cost in place of latency', () => {
  show(root, page('control-plane'));
  expect([...root.querySelectorAll('main > section')].map((e) => e.id)).toEqual(['convergence', 'waterfall', 'overhead', 'published', 'amplification', 'control-cost', 'machine', 'memory', 'validity', 'drift', 'findings', 'about', 'study']);
  press(root, '#convergence input[value=changes]');
  expect(root.querySelector('#convergence svg.plot')?.getAttribute('aria-label')).toContain('first, the median and the last');
  expect(root.querySelector('#waterfall table')?.textContent).toContain('unexplained');
  expect(source(root)).not.toMatch(broken);
});

test('a percentile of istiod’s own that is but the first bucket is told to be so, in how many trials', () => {
  show(root, page('control-plane'));
  expect(texts(root, '#convergence thead th').slice(9, 10)).toEqual(['istiod’s own p99']);
  expect(figures('#convergence table').map((row) => row[8])).toEqual(['99.0 (first bucket)', '297 (first bucket in 1 of 2 trials)', '297 (first bucket in 1 of 2 trials)']);
});

test('percentiles that no acknowledged pair stands behind are not drawn', () => {
  // Of 1,600 pairs 1,568 were acknowledged: one of 1,568 lies beyond p99.936.
  const control = first(cells('control-plane')).control;
  expect(control?.acknowledged_pairs).toBe(1568);
  shown({ acknowledged_pairs: 20 });
  const curve = (): string => source(root.querySelector('#convergence svg.plot')).replaceAll(/clip-\d+/g, '');
  const few = curve();
  show(root, page('control-plane'));
  expect(curve()).not.toBe(few);
  shown({ pairs: 20 }); // counts those that were never acknowledged too
  expect(curve()).not.toBe(few);
});

test('a proxy’s configuration, and how a new one came by it, stand by type', () => {
  show(root, page('control-plane'));
  expect(root.querySelectorAll('#amplification svg.plot')).toHaveLength(2);
  expect(rows(tableOf(root, 'A new proxy’s first configuration'))[0]?.slice(1)).toEqual(['9.40', '117', '117']);
});

test('what is pushed is told for each change, acknowledgements too', () => {
  const pushed = (): string[][] => rows(tableOf(root, 'Pushed for each change')).map((row) => row.slice(-2));
  show(root, page('control-plane'));
  const before = pushed();
  expect(before[0]).toEqual(['50.0', '0']); // 1,600 for 32 changes
  shown({ committed: 64 });
  expect(pushed()[0]).toEqual(['25.0', '0']);
  expect(pushed().slice(2)).toEqual(before.slice(2));
});

test('waterfalls of very different length have axes of their own, and a rest below zero is explained', () => {
  const plots = (): Element[] => [...root.querySelectorAll('#waterfall svg.plot')];
  show(root, page('control-plane'));
  expect(plots()).toHaveLength(1);
  expect([...root.querySelectorAll('#waterfall rect.bar title')].map((t) => t.textContent)).toContain('unexplained: 1.74 ms');
  expect(root.querySelector('#waterfall .key')?.textContent).toMatch(/^None of 1,632 change-proxy pairs/);
  const unexplained = { pairs: 258, beyond: 3, beyond_unlogged: 0, largest_us: 9_000 };
  shown({}, { mean_us: 5_019_000, residual_us: -40_000, unexplained });
  expect(plots().map((svg) => svg.getAttribute('aria-label')?.split(': ')[1])).toEqual(['none, test-1-only', 'test-1-and-system']);
  expect(plots().map((svg) => texts(svg, 'text.figure'))).toEqual([['153 ms, 1% unexplained', '111 ms, 1% unexplained'], ['5,019 ms, −1% unexplained']]);
  expect(root.querySelector('#waterfall .key')?.textContent).toContain('runs past its mark, the unexplained part is negative');
  expect(root.querySelector('#waterfall table')?.textContent).toContain('3 of 258');
});

test('who used the machine stands beside its state', () => {
  show(root, page('control-plane'));
  const head = texts(root, '#machine thead th');
  expect(head.slice(0, 2)).toEqual(['cell', 'istiod']);
  expect(head.slice(-4)).toEqual(['whole machine', 'CPUs busy', 'CPU pressure (PSI some)', 'steal']);
  const all = rows(root.querySelector('#machine table'))[0]?.slice(1, -3).map((text) => Number(text.replaceAll(',', ''))) ?? [];
  const [machine = 0, ...parts] = [...all].reverse();
  expect(parts.reduce((a, b) => a + b, 0)).toBeCloseTo(machine, -1);
  expect(rows(root.querySelector('#machine table'))[0]?.slice(-3)).toEqual(['23%', '4%', '0%']);
  expect(root.querySelector('#conditions')).toBeNull();
});

test('an unknown number of goroutines is a dash', () => {
  shown({ goroutines: 0 });
  expect(figures('#control-cost table').map((row) => row.at(-1))).toEqual(['–', '640', '640']);
});

test('that istiod’s own percentile hides something is told only where it can be', () => {
  const value = (variant: string, low: number, high: number) => ({ name: 'hidden_convergence_p99', probe: 'convergence', cell: { variant }, estimate: (low + high) / 2, low, high, unit: 'us', blocks: 4, verdict: 'measured' });
  show(root, page('control-plane', { findings: [value('none', 10_000, 20_000), value('test-1-only', -20_000, 50_000)] }));
  expect(figures('#convergence table').map((row) => row[9])).toEqual(['15 (10–20)', '–', '15 (−20 to 50): inconclusive']);
});

test('remarks on differences name their cells, are merged and are few', () => {
  const difference = (name: string, variant: string, warnings: string[], verdict = 'inconclusive') => ({ name: `${name}_overhead`, probe: 'x', cell: { variant }, against: { variant: 'none' }, estimate: 1, low: -1, high: 3, unit: 'us', blocks: 2, verdict, warnings, ...(verdict === 'no_effect' ? { reason: 'within_margin' } : {}) });
  const far = (ms: number) => `the interval reaches ${ms} ms, far beyond the noise floor of 21 ms`;
  const few = 'only 2 blocks';
  const [a, b] = ['test-1-and-system', 'test-1-only'] as const;
  show(root, page('control-plane', { noise_floor: [], findings: [
    difference('convergence_p50', a, [few, far(293)]), difference('convergence_p50', b, [few, far(120)]), difference('convergence_p99', a, [few, 'odd']),
    difference('convergence_p99', b, ['odd']), difference('pushes', a, [few]), difference('pushes', b, ['the whole interval lies within the margin of 3 pushes'], 'no_effect'),
  ] }));
  expect(texts(root, '#overhead .warnings li')).toEqual([
    `${a}: the interval reaches 293 ms, far beyond the noise floor of 21 ms (similar: ${b})`, `${a}, ${b}: odd`, 'only 2 blocks (4 differences of 6)',
  ]);
  expect(texts(root, '#overhead .panel .warnings li')).toHaveLength(2);
});

test('first, median and last proxy stand by percentile, and what too few changes tell is not told', () => {
  show(root, page('control-plane'));
  expect(rows(root.querySelector('#convergence .edges')).filter((row) => row[0] === 'none').map((row) => row.slice(1))).toEqual([
    ['the first', '112', '114', 'too few', 'too few', '114', '32'], ['half', '153', '155', 'too few', 'too few', '155', '32'], ['the last', '193', '196', 'too few', 'too few', '196', '32']]);
  expect(root.querySelector('#convergence .edges')?.textContent).toContain('a percentile needs enough changes');
});

test('when a change was in force in a real Envoy stands beside, where one is there', () => {
  shown({ unacked: 3 });
  expect(texts(root, '#convergence thead th').slice(6, 9)).toEqual(['active in Envoy, p50', 'p99', 'max']);
  expect(figures('#convergence table').map((row) => row.slice(5, 8))).toEqual([['121', 'too few changes', '122'], ['–', '–', '–'], ['–', '–', '–']]);
  expect(figures('#convergence table')[0]?.[12]).toBe('3'); // never acknowledged
});

test('what is not measured has no section; requests to stale endpoints have one', () => {
  show(root, page('phantom'));
  expect([...root.querySelectorAll('main > section')].map((e) => e.id).filter((id) => ['convergence', 'waterfall', 'gone', 'control-cost', 'drift'].includes(id))).toEqual(['gone', 'control-cost']);
  const traffic = first(cells('phantom')).control?.traffic;
  expect(rows(root.querySelector('#gone table'))[0]?.slice(1)).toEqual([
    '28,000', '16', '24', '0.086%', '8', '16', '0', '0', '60.0', '8', '9.00', '0']);
  expect(traffic?.phantom_requests).toBe(24);
  expect(texts(root, '#gone rect.bar title')).toContain('failed for the caller: 0.0286%');
  expect(source(root)).not.toMatch(broken);
  show(root, page('control-plane'));
  expect(root.querySelector('#gone')).toBeNull();
});

test('who brought a configuration, and what metrics do not say', () => {
  show(root, page('control-plane'));
  const owners = rows(tableOf(root, 'Proxy configuration by owner')).filter((row) => row[0] === 'none').map((row) => row.slice(1));
  expect(owners[0]).toEqual(['one of 2 gateways, in test-1', 'all', '10.0', '100%', '2.50', '20']);
  expect(owners).toHaveLength(6);
  expect(owners.at(-1)).toEqual(['one of 2 gateways, in test-1', '2 more owners', '0.500', '5%', '0.125', '4']);
  const said = root.querySelector('#control-cost details')?.textContent;
  expect(said).toContain('pilot_debounce_time');
  expect(said).toContain('zero, or unknown to this version');
  expect(findings('control-plane').cells?.[0]?.control?.missing_metrics).toEqual(['pilot_debounce_time']);
});
