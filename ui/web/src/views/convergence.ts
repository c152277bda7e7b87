// What a control-plane study measured: how long changes took to reach every
// proxy, where that time went, what was sent for it, and what it cost.

import { airy, nines } from '../chart/axis';
import { bars, type BarRow } from '../chart/bars';
import { lineChart, type Series } from '../chart/line';
import type { CellSummary, ControlSummary, Profile, ProfileCost, Stage } from '../data';
import type { Chart } from '../chart/figure';
import { h, type Child } from '../dom';
import { count, fixed, percent, percentileName, plain, scaleFor, value, type Scale } from '../format';
import type { Model } from '../model';
import { tickText } from './overhead';
import { choice, folded, legend, Live, nothing, section, table, toggle, type CellText, type Slice, type View } from './parts';

interface Controlled {
  readonly cell: CellSummary;
  readonly control: ControlSummary;
}

const controlled = (cells: readonly CellSummary[]): Controlled[] => cells.flatMap((cell) => (cell.control && cell.valid > 0 ? [{ cell, control: cell.control }] : []));

/** Convergence by percentile, by share of pairs, and change by change. */
export function convergence(model: Model, slice: Slice): View | null {
  if (!model.controlled) return null;
  let shape = 'percentiles';
  let log = true;
  const live = new Live((selection, chart) => {
    const shown = controlled(slice.cells(selection));
    const cells = shown.map((c) => c.cell);
    if (shown.length === 0) return [nothing()];
    const table = folded('Convergence as a table', convergenceTable(model, controlled(model.selected(selection))));
    if (shape !== 'changes') return [legend(model, cells), chart(curves(model, shown, shape === 'cdf', log)), table];
    return [
      h('div', { class: 'panels two' }, shown.map((c) => h('div', { class: 'panel' }, h('h3', {}, model.label(c.cell.cell, cells)), chart(changes(c.control))))),
      table,
    ];
  });
  const logSwitch = toggle('logarithmic', log, (on) => {
    log = on;
    live.again();
  });
  const controls = h('div', { class: 'controls' },
    choice('picture', [{ id: 'percentiles', text: 'percentiles' }, { id: 'cdf', text: 'distribution' }, { id: 'changes', text: 'change by change' }], shape, (id) => {
      shape = id;
      logSwitch.hidden = id !== 'percentiles';
      live.again();
    }),
    slice.control(live.again),
    logSwitch,
  );
  return {
    element: section('convergence', 'Convergence',
      h('p', { class: 'lead' }, 'From when the API server had committed a change until a proxy had acknowledged it; one for each change and each proxy that needed it.'), controls, live.element),
    update: live.update,
  };
}

/** Percentiles that more than one pair of a change and a proxy stands behind. */
function supported(c: ControlSummary) {
  const last = Math.min(99.999, 100 * (1 - 1 / Math.max(c.pairs, 10)));
  return (c.percentiles ?? []).filter((p) => p.x <= last);
}

function curves(model: Model, shown: readonly Controlled[], share: boolean, log: boolean) {
  const cells = shown.map((c) => c.cell);
  const all: Series[] = shown.map(({ cell, control }) => ({ label: model.label(cell.cell, cells), look: model.look(cell.cell), points: (share ? control.cdf : supported(control)) ?? [] })).filter((one) => one.points.length > 0);
  const times = all.flatMap((one) => one.points.map((p) => (share ? p.x : p.y)));
  const scale = scaleFor('us', Math.max(...times) / 4);
  const time = `convergence, ${scale.unit}`;
  const tick = (v: number): string => tickText(v / scale.div);
  if (share) {
    return lineChart({
      name: 'Share of changes and proxies by convergence, a curve for each cell',
      series: all,
      x: { kind: 'log', title: time, format: tick, domain: airy(times, 'log') },
      y: { kind: 'linear', title: 'share of changes and proxies', format: percent, domain: [0, 1] },
      readX: (us) => value(scaleFor('us', us), us),
      readY: (v) => `${(100 * v).toFixed(1)}%`,
      labels: false,
    });
  }
  return lineChart({
    name: 'Convergence by percentile, a curve for each cell; the axis spreads the slowest',
    series: all,
    x: { kind: 'nines', title: 'percentile of changes and proxies', format: percentileName },
    y: { kind: log ? 'log' : 'linear', title: time, format: tick, fromZero: !log },
    readX: (p) => percentileName(Number(p.toFixed(nines(p) > 2 ? 4 : 2))),
    readY: (us) => plain(scale, us),
  });
}

/** When each change of a trial had reached the first, the median and the last proxy. */
function changes(c: ControlSummary) {
  const points = c.changes ?? [];
  const line = (label: string, dash: number, of: (p: (typeof points)[number]) => number): Series => ({
    label, look: { color: `var(--series-${dash + 1})`, dash },
    points: points.filter((p) => of(p) >= 0).map((p) => ({ x: p.at_s, y: of(p), says: `${value(scaleFor('us', of(p)), of(p))} ${p.kind}` })),
  });
  const series = [line('last proxy', 0, (p) => p.last_us), line('median', 1, (p) => p.median_us), line('first', 2, (p) => p.first_us)];
  const times = series.flatMap((one) => one.points.map((p) => p.y));
  const scale = scaleFor('us', Math.max(0, ...times) / 2);
  return lineChart({
    name: 'Each change of one trial: until the first, the median and the last proxy had acknowledged it',
    series,
    x: { kind: 'linear', title: 'seconds after the first change', format: tickText, domain: airy(points.map((p) => p.at_s), 'linear', true) },
    y: { kind: 'linear', title: `convergence, ${scale.unit}`, format: (v) => tickText(v / scale.div), fromZero: true },
    readX: (s) => `${s.toFixed(1)} s`,
    readY: (us) => plain(scale, us),
    markers: true,
    height: 260,
  });
}

function convergenceTable(model: Model, shown: readonly Controlled[]): HTMLElement {
  const cells = shown.map((c) => c.cell);
  const scale = scaleFor('us', Math.max(0, ...shown.map((c) => c.control.convergence_us.p50)));
  const columns = ['p50', 'p90', 'p99', 'max', 'first proxy', 'last proxy', 'istiod’s own p99', 'changes', 'never came', 'valid trials'];
  return table(`Convergence, ${scale.unit}`, [{ head: 'cell' }, ...columns.map((head) => ({ head, number: true }))], shown.map(({ cell, control }): CellText[] => {
    const c = control.convergence_us;
    return [
      model.label(cell.cell, cells),
      ...[c.p50, c.p90, c.p99, c.max, control.first_us, control.last_us].map((v) => plain(scale, v)),
      control.reported_p99_us === undefined ? '–' : plain(scale, control.reported_p99_us) + (control.reported_first_bucket ? ' (first bucket)' : ''),
      count(control.committed),
      { text: count(control.missed), ...(control.missed > 0 ? { tone: 'bad' as const } : {}) },
      { text: `${cell.valid}/${cell.trials}`, ...(cell.valid < cell.trials ? { tone: 'bad' as const } : {}) },
    ];
  }));
}

const STAGES: Readonly<Record<string, string>> = {
  watch: 'API watch', debounce: 'debounce', push_context: 'push context', queue: 'queue', generate: 'generation', wire: 'wire', ack: 'acknowledgement',
};

const stageWords = (name: string): string => (Object.hasOwn(STAGES, name) ? (STAGES[name] ?? name) : name.replaceAll('_', ' '));

const stageOf = (control: ControlSummary, name: string): Stage | undefined => (control.stages ?? []).find((s) => s.name === name);

/** A figure, or a dash for what nobody measured. */
const measured = (scale: Scale, us: number | undefined): string => (us === undefined ? '–' : plain(scale, us));

/** Where the mean time of a change goes. */
export function waterfall(model: Model, slice: Slice): View | null {
  const names = [...new Set(model.cells.flatMap((c) => (c.control?.stages ?? []).map((s) => s.name)))];
  if (names.length === 0) return null;
  const live = new Live((selection, chart) => {
    const shown = controlled(slice.cells(selection)).filter((c) => (c.control.stages ?? []).length > 0);
    const cells = shown.map((c) => c.cell);
    if (shown.length === 0) return [nothing()];
    const scale = scaleFor('us', Math.max(...shown.map((c) => c.control.mean_us)));
    const rows: BarRow[] = shown.map(({ cell, control }) => ({
      label: model.label(cell.cell, cells),
      says: `${plain(scale, control.mean_us)} ${scale.unit}, ${percent(Math.abs(control.residual_us) / control.mean_us)} unexplained`,
      pieces: pieces(names, (name) => (control.stages ?? []).find((s) => s.name === name)?.mean_us ?? 0, scale, stageWords),
      mark: { value: control.mean_us / scale.div, low: control.mean_us / scale.div, high: control.mean_us / scale.div, says: `measured: ${value(scale, control.mean_us)}` },
    }));
    const missing = [...new Set(shown.flatMap((c) => c.control.missing_stages ?? []))].filter((name) => !names.includes(name));
    const checks = new Map(shown.flatMap((c) => (c.control.stages ?? []).map((s) => [s.name, s.check_source] as const)));
    const checked = names.filter((name) => shown.some((c) => stageOf(c.control, name)?.check_us !== undefined));
    const sources = new Map(shown.flatMap((c) => (c.control.stages ?? []).map((s) => [s.name, s.source] as const)));
    return [
      keys(names, stageWords, 'measured mean'),
      chart(bars({ name: 'Mean time from commit to acknowledgement by cell, stacked by stage', title: `mean, ${scale.unit}`, rows, format: tickText })),
      folded('Stages as a table', table(`Stages, ${scale.unit}`, [{ head: 'stage' }, ...shown.map((c) => ({ head: model.label(c.cell.cell, cells), number: true })), { head: 'read from', prose: true }], [
        ...names.map((name): CellText[] => [stageWords(name), ...shown.map((c) => measured(scale, stageOf(c.control, name)?.mean_us)), sources.get(name) ?? '']),
        ...missing.map((name): CellText[] => [stageWords(name), ...shown.map(() => '–'), 'not measured: it is in the unexplained part']),
        ...checked.map((name): CellText[] => [`${stageWords(name)}, second source`, ...shown.map((c) => measured(scale, stageOf(c.control, name)?.check_us)), checks.get(name) ?? '']),
        ['unexplained', ...shown.map((c) => fixed(c.control.residual_us / scale.div, 2)), 'the measured mean less all stages'],
        ['measured mean', ...shown.map((c) => plain(scale, c.control.mean_us)), 'commit to acknowledgement'],
      ])),
    ];
  });
  return {
    element: section('waterfall', 'Where the time goes', h('p', { class: 'lead' }, 'The mean way of a change, stage by stage. What the stages leave of the measured mean is shown, not hidden.'),
      h('div', { class: 'controls' }, slice.control(live.again)), live.element),
    update: live.update,
  };
}

/** What was sent for the changes, and what a proxy holds. */
export function amplification(model: Model, slice: Slice): View | null {
  if (!model.controlled) return null;
  const live = new Live((selection, chart) => {
    const shown = controlled(slice.cells(selection));
    if (shown.length === 0) return [nothing()];
    const scoped = shown.some((c) => total(c.control.scope_config_bytes) > 0 && total(c.control.scope_config_bytes) !== total(c.control.config_bytes));
    return [
      ...configuration(model, shown, 'Configuration that a proxy holds', (c) => c.config_bytes, chart),
      ...(scoped ? configuration(model, shown, 'Configuration that a proxy holds in the namespace of the Sidecar', (c) => c.scope_config_bytes, chart) : []),
      joinTable(model, shown),
      wireTable(model, shown),
    ];
  });
  return {
    element: section('amplification', 'What is pushed', h('p', { class: 'lead' }, 'A push that brings a proxy what it has already is work for nothing.'), h('div', { class: 'controls' }, slice.control(live.again)), live.element),
    update: live.update,
  };
}

type Sizes = Readonly<Record<string, number>> | null | undefined;

const total = (sizes: Sizes): number => Object.values(sizes ?? {}).reduce((a, b) => a + b, 0);

/** Bars of what proxies hold, by type. */
function configuration(model: Model, shown: readonly Controlled[], title: string, of: (c: ControlSummary) => Sizes, chart: (c: Chart) => HTMLElement): Child[] {
  const cells = shown.map((c) => c.cell);
  const types = sizedTypes(shown, of);
  const scale = scaleFor('bytes', Math.max(...shown.map((c) => total(of(c.control)))));
  const rows: BarRow[] = shown.map(({ cell, control }) => ({
    label: model.label(cell.cell, cells), says: value(scale, total(of(control))),
    pieces: pieces(types, (t) => of(control)?.[t] ?? 0, scale, (t) => t.toUpperCase()),
  }));
  return [
    h('h3', {}, title),
    keys(types, (t) => t.toUpperCase()),
    chart(bars({ name: `${title}, by cell, stacked by type`, title: `bytes on the wire, ${scale.unit}`, rows, format: tickText })),
  ];
}

/** Types that any cell has bytes of. */
const sizedTypes = (shown: readonly Controlled[], of: (c: ControlSummary) => Sizes): string[] => [...new Set(shown.flatMap((c) => Object.entries(of(c.control) ?? {}).filter(([, bytes]) => bytes > 0).map(([type]) => type)))].sort();

/** What a new proxy's first configuration took; nothing where none joined. */
function joinTable(model: Model, shown: readonly Controlled[]): HTMLElement | null {
  const joined = shown.filter((c) => (c.control.join_us ?? 0) > 0);
  if (joined.length === 0) return null;
  const cells = joined.map((c) => c.cell);
  const types = sizedTypes(joined, (c) => c.join_bytes);
  const time = scaleFor('us', Math.max(...joined.map((c) => c.control.join_us ?? 0)));
  const size = scaleFor('bytes', Math.max(...joined.map((c) => total(c.control.join_bytes))));
  return table(`A new proxy’s first configuration: time, and ${size.unit} by type`, [{ head: 'cell' }, { head: `from first request to last push, ${time.unit}`, number: true }, ...types.map((t) => ({ head: t.toUpperCase(), number: true })), { head: 'all', number: true }],
    joined.map(({ cell, control }): CellText[] => [
      model.label(cell.cell, cells), plain(time, control.join_us ?? 0), ...types.map((t) => plain(size, control.join_bytes?.[t] ?? 0)), plain(size, total(control.join_bytes)),
    ]));
}

function wireTable(model: Model, shown: readonly Controlled[]): HTMLElement {
  const cells = shown.map((c) => c.cell);
  return table('Pushed for each change committed', [{ head: 'cell' }, { head: 'type' }, ...['pushes', 'bytes', 'resources', 'the same already', 'acknowledged', 'rejected'].map((head) => ({ head, number: true }))],
    shown.flatMap(({ cell, control }) => {
      const each = Math.max(1, control.committed);
      const types = Object.keys(control.wire ?? {}).sort();
      return types.flatMap((type): CellText[][] => {
        const w = control.wire?.[type];
        if (!w || w.responses === 0) return [];
        return [[
          model.label(cell.cell, cells), type.toUpperCase(), plain({ div: 1, unit: '' }, w.responses / each), value(scaleFor('bytes', w.bytes / each), w.bytes / each),
          plain({ div: 1, unit: '' }, w.resources / each), percent(w.resources > 0 ? w.identical / w.resources : 0), count(w.acks), { text: count(w.nacks), ...(w.nacks > 0 ? { tone: 'bad' as const } : {}) },
        ]];
      });
    }));
}

/** What changes cost the control plane. */
export function controlCost(model: Model, slice: Slice): View | null {
  if (!model.controlled) return null;
  const live = new Live((selection) => {
    const shown = controlled(slice.cells(selection));
    const cells = shown.map((c) => c.cell);
    if (shown.length === 0) return [nothing()];
    const seconds = (cpu: { user_s: number; system_s: number }): number => cpu.user_s + cpu.system_s;
    const each = (c: ControlSummary, s: number): string => value(scaleFor('us', (s * 1e6) / Math.max(1, c.committed)), (s * 1e6) / Math.max(1, c.committed));
    // Less than idle is noise, and no saving.
    const net = (c: ControlSummary, s: number): CellText => (s > 0 ? each(c, s) : { text: 'noise', tone: 'dim' });
    return [
      table('Cost of a change', [{ head: 'cell' }, ...['istiod CPU', 'kube-apiserver CPU', 'simulated proxies’ CPU', 'istiod idle, of a core', 'istiod heap', 'allocated', 'allocated a second', 'goroutines', 'stale, proxy-seconds'].map((head) => ({ head, number: true }))],
        shown.map(({ cell, control: c }): CellText[] => [
          model.label(cell.cell, cells), net(c, seconds(c.istiod_cpu) - c.idle_cores * c.window_s),
          c.apiserver_cpu ? net(c, seconds(c.apiserver_cpu) - (c.apiserver_idle_cores ?? 0) * (c.apiserver_s ?? 0)) : '–',
          each(c, seconds(c.simulator_cpu)), percent(c.idle_cores), value(scaleFor('bytes', c.heap_bytes), c.heap_bytes),
          value(scaleFor('bytes', c.alloc_bytes / Math.max(1, c.committed)), c.alloc_bytes / Math.max(1, c.committed)),
          value(scaleFor('bytes', c.alloc_bytes / Math.max(1, c.window_s)), c.alloc_bytes / Math.max(1, c.window_s)),
          c.goroutines === undefined ? '–' : count(c.goroutines), plain({ div: 1, unit: '' }, c.stale_proxy_s),
        ])),
      ...shown.flatMap(({ cell, control }) => profiles(model.label(cell.cell, cells), control.profiles ?? [])),
    ];
  });
  return {
    element: section('control-cost', 'What a change costs', h('p', { class: 'lead' }, 'CPU time in the window for each change committed, less what is used idle, and memory at its end.'), h('div', { class: 'controls' }, slice.control(live.again)), live.element),
    update: live.update,
  };
}

const PROFILES: Readonly<Record<string, string>> = { cpu: 'CPU', mutex: 'waiting for locks', block: 'blocked', heap: 'memory in use' };

/** The dearest functions of a cell's profiles. */
function profiles(label: string, all: readonly Profile[]): Child[] {
  return all.filter((p) => p.total > 0).map((p) => {
    const what = `istiod ${String(p.replica)}, ${Object.hasOwn(PROFILES, p.kind) ? (PROFILES[p.kind] ?? p.kind) : p.kind}: ${label}`;
    const rows = (costs: readonly ProfileCost[] | null): CellText[][] => (costs ?? []).slice(0, 12).map((c) => [c.function, `${fixed((100 * c.flat) / p.total, 1)}%`, `${fixed((100 * c.cumulative) / p.total, 1)}%`]);
    const columns = [{ head: 'function', prose: true }, { head: 'itself', number: true }, { head: 'with all it calls', number: true }];
    return folded(`Profile: ${what}`, table(`${what}: functions that cost most themselves`, columns, rows(p.flat)), table(`${what}: functions that cost most with all they call`, columns, rows(p.cumulative)),
      p.flame === undefined ? null : h('p', {}, `Flame graph: profiles/${p.flame} in the run's directory.`));
  });
}

function pieces(names: readonly string[], of: (name: string) => number, scale: Scale, words: (name: string) => string) {
  return names.map((name, i) => ({ color: color(i), value: Math.max(0, of(name)) / scale.div, hatched: false, says: `${words(name)}: ${value(scale, of(name))}` })).filter((p) => p.value > 0);
}

const color = (i: number): string => `var(--series-${i % 9})`;

function keys(names: readonly string[], words: (name: string) => string, mark?: string): HTMLElement {
  return h('div', { class: 'legend' }, h('ul', {},
    names.map((name, i) => h('li', {}, h('span', { class: 'box', style: `background:${color(i)}`, 'aria-hidden': 'true' }), words(name))),
    mark !== undefined && h('li', {}, h('span', { class: 'tickmark', 'aria-hidden': 'true' }), mark),
  ));
}
