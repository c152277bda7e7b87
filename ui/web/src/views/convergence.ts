// How long the changes of a control-plane study took to reach every proxy,
// and where that time went.

import { airy, nines } from '../chart/axis';
import { bars, type BarRow } from '../chart/bars';
import { lineChart, type Series } from '../chart/line';
import type { CellSummary, ControlSummary, Stage } from '../documents';
import { h } from '../dom';
import { count, fixed, interval, observationsFor, percent, percentileName, percentilesOf, plain, plural, quantileHead, scaleFor, value, type Scale } from '../format';
import type { Model } from '../model';
import { controlled, keys, pieces, type Controlled } from './control';
import { tickText } from './overhead';
import { choice, folded, legend, Live, nothing, section, table, toggle, type CellText, type Slice, type View } from './parts';

/** Convergence by percentile, by share of pairs, and change by change. */
export function convergence(model: Model, slice: Slice): View | null {
  if (!model.cells.some((c) => timed(c.control))) return null;
  let shape = 'percentiles';
  let log = true;
  const live = new Live((selection, chart) => {
    const shown = controlled(slice.cells(selection)).filter((c) => timed(c.control));
    const cells = shown.map((c) => c.cell);
    if (shown.length === 0) return [nothing()];
    const all = controlled(model.selected(selection)).filter((c) => timed(c.control));
    const tables = [folded('Convergence as a table', convergenceTable(model, all)), edgesTable(model, all)];
    if (shape !== 'changes') return [legend(model, cells), chart(curves(model, shown, shape === 'cdf', log)), ...tables];
    return [
      h('div', { class: 'panels two' }, shown.map((c) => h('div', { class: 'panel' }, h('h3', {}, model.label(c.cell.cell, cells)), chart(changes(c.control))))),
      ...tables,
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
      h('p', { class: 'lead' }, 'From the API server’s commit of a change to the proxy’s ACK; one sample per change and proxy that needed it.'), controls, live.element),
    update: live.update,
  };
}

/** Whether the study measured how long changes took. */
const timed = (c: ControlSummary | null | undefined): boolean => (c?.percentiles ?? []).length > 0 || (c?.applied_us?.p50 ?? 0) > 0;

/** Percentiles that more than one acknowledged change-proxy pair stands behind. */
function supported(c: ControlSummary) {
  const last = Math.min(99.999, 100 * (1 - 1 / Math.max(c.acknowledged_pairs, 10)));
  return (c.percentiles ?? []).filter((p) => p.x <= last);
}

function curves(model: Model, shown: readonly Controlled[], share: boolean, log: boolean) {
  const cells = shown.map((c) => c.cell);
  const all: Series[] = shown.map(({ cell, control }) => ({ label: model.label(cell.cell, cells), look: model.look(cell.cell), points: (share ? control.cdf : supported(control)) ?? [] })).filter((one) => one.points.length > 0);
  const times = all.flatMap((one) => one.points.map((p) => (share ? p.x : p.y)));
  const scale = scaleFor('us', Math.max(0, ...times) / 4);
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
  const scale = scaleFor('us', Math.max(0, ...shown.map((c) => Math.max(c.control.convergence_us.p50, c.control.applied_us?.p50 ?? 0))));
  const real = shown.some((c) => c.control.applied_us);
  const names = percentilesOf(shown[0]?.control.convergence_us);
  const columns = [...names.map(quantileHead), 'max', ...(real ? ['active in Envoy, p50', 'p99', 'max'] : []), 'istiod’s own p99', 'hidden by it', 'changes', 'never came', 'never acknowledged', 'valid trials'];
  return table(`Convergence, ${scale.unit}`, [{ head: 'cell' }, ...columns.map((head) => ({ head, number: true }))], shown.map(({ cell, control }): CellText[] => {
    const [c, applied, reported] = [control.convergence_us, control.applied_us, control.reported_p99_us];
    return [
      model.label(cell.cell, cells),
      ...[...names.map((name) => c[name]), c.max].map((v): CellText => (v > 0 || c.max === 0 ? plain(scale, v) : TOO_FEW_CHANGES)),
      ...(real ? [applied?.p50, applied?.p99, applied?.max].map((v): CellText => (v === 0 && (applied?.max ?? 0) > 0 ? TOO_FEW_CHANGES : measured(scale, v))) : []),
      reported === undefined ? '–' : plain(scale, reported) + firstBucket(control),
      hidden(model, cell, scale, reported === undefined || c.p99 === 0 ? undefined : c.p99 - reported),
      count(control.committed),
      ...[control.missed, control.unacked].map((n) => ({ text: count(n), ...(n > 0 ? { tone: 'bad' as const } : {}) })),
      { text: `${cell.valid}/${cell.trials}`, ...(cell.valid < cell.trials ? { tone: 'bad' as const } : {}) },
    ];
  }));
}

/** In how many trials istiod’s own percentile says no more than that it lies in its histogram’s first bucket. */
function firstBucket({ reported_first_bucket_trials: first = 0, reported_trials: all = 0 }: ControlSummary): string {
  if (first === 0) return '';
  return first >= all ? ' (first bucket)' : ` (first bucket in ${count(first)} of ${plural(all, 'trial')})`;
}

/** What istiod's own percentile hides, where that can be told from nothing; without an interval what it is in all. */
function hidden(model: Model, cell: CellSummary, scale: Scale, all: number | undefined): CellText {
  const f = model.value('hidden_convergence_p99', cell.cell);
  if (!f || f.verdict !== 'measured') return measured(scale, all);
  const text = interval(scale, f.estimate, f.low, f.high);
  return f.low <= 0 && f.high >= 0 ? { text: `${text}: inconclusive`, tone: 'dim' } : text;
}

/** How long changes took to the first, the median and the last proxy; nothing where none was acknowledged. */
function edgesTable(model: Model, shown: readonly Controlled[]): HTMLElement | null {
  const acknowledged = shown.flatMap(({ cell, control }) => (control.edges ? [{ cell, edges: control.edges }] : []));
  if (acknowledged.length === 0) return null;
  const cells = acknowledged.map((c) => c.cell);
  const scale = scaleFor('us', Math.max(0, ...acknowledged.map(({ edges }) => edges.last_us.max ?? edges.last_us.p50 ?? 0)));
  const names = percentilesOf(acknowledged[0]?.edges.last_us);
  const rows = acknowledged.flatMap(({ cell, edges }) => [['the first', edges.first_us] as const, ['half', edges.median_us] as const, ['the last', edges.last_us] as const].map(([name, q]): CellText[] => [
    model.label(cell.cell, cells), name,
    ...[...names, 'max' as const].map((quantile) => {
      const v = q[quantile];
      return v !== null ? plain(scale, v) : edges.changes < observationsFor(quantile) ? TOO_FEW : NOT_REACHED;
    }),
    count(edges.changes),
  ]));
  const columns = [{ head: 'cell' }, { head: 'acknowledged by' }, ...[...names.map(quantileHead), 'max', 'changes'].map((head) => ({ head, number: true }))];
  return h('div', { class: 'edges' },
    table(`First, median and last proxy to ACK a change, over changes, ${scale.unit}`, columns, rows),
    rows.some((row) => row.includes(TOO_FEW)) && h('p', { class: 'key' }, `Too few: a percentile needs enough changes to leave one beyond it (${names.filter((name) => observationsFor(name) > 0).map((name) => `${count(observationsFor(name))} for ${quantileHead(name)}`).join(', ')}).`),
    rows.some((row) => row.includes(NOT_REACHED)) && h('p', { class: 'key' }, 'Not reached: a change that some proxy never acknowledged ranks slowest for the last; one that no proxy did ranks slowest everywhere.'));
}

/** For a percentile without a figure: more changes give it one, or it lies among those that never arrived. */
const TOO_FEW: CellText = { text: 'too few', tone: 'dim' };
const TOO_FEW_CHANGES: CellText = { text: 'too few changes', tone: 'dim' };
const NOT_REACHED: CellText = { text: 'not reached', tone: 'dim' };

const STAGES: Readonly<Record<string, string>> = {
  watch: 'API watch', debounce: 'debounce', push_context: 'push context', queue: 'queue', generate: 'generation', wire: 'wire', ack: 'acknowledgement',
};

const stageWords = (name: string): string => (Object.hasOwn(STAGES, name) ? (STAGES[name] ?? name) : name.replaceAll('_', ' '));

const stageOf = (control: ControlSummary, name: string): Stage | undefined => (control.stages ?? []).find((s) => s.name === name);

/** A figure, or a dash for what nobody measured. */
const measured = (scale: Scale, us: number | undefined): string => (us === undefined ? '–' : plain(scale, us));

/** Cells whose longest way is more than this many times their shortest share no axis. */
const APART = 5;

/** Cells in groups of much the same length, each in its first cell's place. */
function alike(shown: readonly Controlled[]): Controlled[][] {
  const groups: Controlled[][] = [];
  for (const one of [...shown].sort((a, b) => a.control.mean_us - b.control.mean_us)) {
    const group = groups.at(-1);
    if (group && one.control.mean_us <= APART * (group[0]?.control.mean_us ?? 0)) group.push(one);
    else groups.push([one]);
  }
  const place = (one: Controlled | undefined): number => (one ? shown.indexOf(one) : 0);
  for (const group of groups) group.sort((a, b) => place(a) - place(b));
  return groups.sort((a, b) => place(a[0]) - place(b[0]));
}

/** The waterfalls of some cells on one axis. */
function stacked(model: Model, group: readonly Controlled[], cells: readonly CellSummary[], names: readonly string[], named: boolean) {
  const scale = scaleFor('us', Math.max(...group.map((c) => c.control.mean_us)));
  const rows: BarRow[] = group.map(({ cell, control }) => {
    const rest = control.residual_us / scale.div;
    const stages = pieces(names, (name) => stageOf(control, name)?.mean_us ?? 0, scale, stageWords);
    return {
      label: model.label(cell.cell, cells),
      says: `${plain(scale, control.mean_us)} ${scale.unit}, ${percent(control.residual_us / control.mean_us)} unexplained`,
      pieces: rest > 0 ? [...stages, { color: 'var(--ink-3)', value: rest, hatched: true, says: `unexplained: ${value(scale, control.residual_us)}` }] : stages,
      mark: { value: control.mean_us / scale.div, low: control.mean_us / scale.div, high: control.mean_us / scale.div, says: `measured: ${value(scale, control.mean_us)}` },
    };
  });
  const of = named ? `: ${group.map((c) => model.label(c.cell.cell, cells)).join(', ')}` : '';
  return bars({ name: `Mean time from commit to ACK by cell, stacked by stage${of}`, title: `mean, ${scale.unit}`, rows, format: tickText });
}

/** How many single pairs their own stages miss, which means may hide. */
function pairsOff(shown: readonly Controlled[]): string {
  const all = shown.flatMap(({ control }) => control.unexplained ?? []);
  const [pairs, beyond] = [all.reduce((n, u) => n + u.pairs, 0), all.reduce((n, u) => n + u.beyond, 0)];
  return pairs === 0 ? '' : `${beyond === 0 ? 'None' : count(beyond)} of ${plural(pairs, 'change-proxy pair')} ${beyond === 1 ? 'differs' : 'differ'} from the sum of their stages by more than 5% of their time or 2 ms.`;
}

/** Where the mean time of a change goes. */
export function waterfall(model: Model, slice: Slice): View | null {
  const names = [...new Set(model.cells.flatMap((c) => (c.control?.stages ?? []).map((s) => s.name)))];
  if (names.length === 0) return null;
  const live = new Live((selection, chart) => {
    const shown = controlled(slice.cells(selection)).filter((c) => (c.control.stages ?? []).length > 0);
    const cells = shown.map((c) => c.cell);
    if (shown.length === 0) return [nothing()];
    const scale = scaleFor('us', Math.max(...shown.map((c) => c.control.mean_us)));
    const groups = alike(shown);
    const missing = [...new Set(shown.flatMap((c) => c.control.missing_stages ?? []))].filter((name) => !names.includes(name));
    const checks = new Map(shown.flatMap((c) => (c.control.stages ?? []).map((s) => [s.name, s.check_source] as const)));
    const checked = names.filter((name) => shown.some((c) => stageOf(c.control, name)?.check_us !== undefined));
    const sources = new Map(shown.flatMap((c) => (c.control.stages ?? []).map((s) => [s.name, s.source] as const)));
    return [
      keys(names, stageWords, 'measured mean', shown.some((c) => c.control.residual_us > 0) ? 'unexplained' : undefined),
      ...groups.map((group) => chart(stacked(model, group, cells, names, groups.length > 1))),
      h('p', { class: 'key' }, [
        ...(groups.length > 1 ? ['Cells of very different length have separate axes.'] : []),
        ...(shown.some(({ control: c }) => c.residual_us < 0) ? ['Where a bar runs past its mark, the unexplained part is negative: the stages, measured independently, add up to more than the total.'] : []),
        ...(shown.some(({ control: c }) => (c.stages ?? []).some((s) => s.mean_us < 0)) ? ['A negative stage, such as a watch that istiod beat, is not drawn; the others run past the mark by that much.'] : []),
        pairsOff(shown),
      ].filter(Boolean).join(' ')),
      folded('Stages as a table', table(`Stages, ${scale.unit}`, [{ head: 'stage' }, ...shown.map((c) => ({ head: model.label(c.cell.cell, cells), number: true })), { head: 'read from', prose: true }], [
        ...names.map((name): CellText[] => [stageWords(name), ...shown.map((c) => measured(scale, stageOf(c.control, name)?.mean_us)), sources.get(name) ?? '']),
        ...missing.map((name): CellText[] => [stageWords(name), ...shown.map(() => '–'), 'not measured; included in unexplained']),
        ...checked.map((name): CellText[] => [`${stageWords(name)}, second source`, ...shown.map((c) => measured(scale, stageOf(c.control, name)?.check_us)), checks.get(name) ?? '']),
        ['unexplained', ...shown.map((c) => fixed(c.control.residual_us / scale.div, 2)), 'the measured mean less all stages'],
        ...(shown.some((c) => c.control.unexplained) ? [['pairs off by more than 5% or 2 ms', ...shown.map(({ control }) => (control.unexplained ? `${count(control.unexplained.beyond)} of ${count(control.unexplained.pairs)}` : '–')), 'change-proxy pairs that differ from the sum of their stages']] : []),
        ['measured mean', ...shown.map((c) => plain(scale, c.control.mean_us)), 'commit to ACK'],
      ])),
    ];
  });
  return {
    element: section('waterfall', 'Where the time goes', h('p', { class: 'lead' }, 'The average path of a change, stage by stage. What the stages do not account for is shown as unexplained.'),
      h('div', { class: 'controls' }, slice.control(live.again)), live.element),
    update: live.update,
  };
}
