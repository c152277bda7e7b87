// Latency as each cell shows it: percentile curves and distributions, from
// the time each request should have left.

import { airy, nines } from '../chart/axis';
import { lineChart, type Series } from '../chart/line';
import type { CellSummary, CurvePoint } from '../documents';
import { h } from '../dom';
import { count, percent, percentileName, percentilesOf, plain, quantileHead, scaleFor, value } from '../format';
import type { Model } from '../model';
import { tickText } from './overhead';
import { choice, folded, legend, Live, nothing, section, table, toggle, type Slice, type View } from './parts';

export function latency(model: Model, slice: Slice): View {
  let shape = 'percentiles';
  let log = logByDefault(model.cells);
  const live = new Live((selection, chart) => {
    const shown = slice.cells(selection).filter((c) => c.valid > 0);
    if (shown.length === 0) return [nothing()];
    return [
      legend(model, shown),
      chart(shape === 'cdf' ? cdf(model, shown) : percentiles(model, shown, log)),
      folded('Latency as a table', latencyTable(model, model.selected(selection))),
    ];
  });
  const logSwitch = toggle('logarithmic', log, (on) => {
    log = on;
    live.again();
  });
  const controls = h('div', { class: 'controls' },
    choice('curve', [{ id: 'percentiles', text: 'percentiles' }, { id: 'cdf', text: 'distribution' }], shape, (id) => {
      shape = id;
      logSwitch.hidden = id === 'cdf';
      live.again();
    }),
    slice.control(live.again),
    logSwitch,
  );
  return {
    element: section('latency', 'Latency', h('p', { class: 'lead' }, 'From intended send time, so a stall counts against every request it delays.'), controls, live.element),
    update: live.update,
  };
}

function logByDefault(cells: readonly CellSummary[]): boolean {
  const ys = cells.flatMap((c) => (c.percentiles ?? []).map((p) => p.y)).filter((y) => y > 0);
  return ys.length > 0 && Math.max(...ys) / Math.min(...ys) > 20;
}

function series(model: Model, cells: readonly CellSummary[], of: (c: CellSummary) => readonly CurvePoint[] | null): Series[] {
  return cells.map((c) => ({ label: model.label(c.cell, cells), look: model.look(c.cell), points: of(c) ?? [] })).filter((one) => one.points.length > 0);
}

/** Percentiles that more than one request stands behind. */
export function supported(c: CellSummary): readonly CurvePoint[] {
  const last = Math.min(99.999, 100 * (1 - 1 / Math.max(c.requests, 10)));
  return (c.percentiles ?? []).filter((p) => p.x <= last);
}

function percentiles(model: Model, cells: readonly CellSummary[], log: boolean) {
  const all = series(model, cells, supported);
  const scale = scaleFor('us', Math.max(...all.flatMap((one) => one.points.map((p) => p.y))) / 4);
  return lineChart({
    name: 'Latency by percentile, a curve for each cell; the axis spreads the slowest requests',
    series: all,
    x: { kind: 'nines', title: 'percentile', format: percentileName },
    y: { kind: log ? 'log' : 'linear', title: `latency, ${scale.unit}`, format: (v) => tickText(v / scale.div), fromZero: !log },
    readX: (p) => percentileName(Number(p.toFixed(nines(p) > 2 ? 4 : 2))),
    readY: (us) => plain(scale, us),
  });
}

function cdf(model: Model, cells: readonly CellSummary[]) {
  const all = series(model, cells, (c) => c.cdf);
  const xs = all.flatMap((one) => one.points.map((p) => p.x));
  const scale = scaleFor('us', Math.max(...xs) / 4);
  return lineChart({
    name: 'Share of requests by latency, a curve for each cell',
    series: all,
    x: { kind: 'log', title: `latency, ${scale.unit}`, format: (v) => tickText(v / scale.div), domain: airy(xs, 'log') },
    y: { kind: 'linear', title: 'share of requests', format: (v) => percent(v), domain: [0, 1] },
    readX: (us) => value(scaleFor('us', us), us),
    readY: (share) => `${(100 * share).toFixed(1)}%`,
    labels: false,
  });
}

function latencyTable(model: Model, cells: readonly CellSummary[]): HTMLElement {
  const scale = scaleFor('us', Math.max(0, ...cells.filter((c) => c.valid > 0).map((c) => c.latency_intended_us.p50)));
  const names = percentilesOf(cells[0]?.latency_intended_us);
  const columns = [{ head: 'cell' }, ...[...names.map(quantileHead), 'max', 'p50 from send', 'lag p99, µs', 'requests', 'failed', 'valid trials'].map((name) => ({ head: name, number: true }))];
  return table(`Latency, ${scale.unit}`, columns, cells.map((c) => {
    const l = c.latency_intended_us;
    const numbers = c.valid > 0
      ? [...names.map((name) => (c.not_reached?.includes(name) ? 'not reached' : l[name] > 0 ? plain(scale, l[name]) : '–')),
        ...[l.max, c.latency_send_us.p50].map((v) => (v > 0 ? plain(scale, v) : '–')), plain({ div: 1, unit: 'µs' }, c.schedule_lag_p99_us)]
      : Array.from({ length: names.length + 3 }, () => '–');
    return [model.label(c.cell, cells), ...numbers, count(c.requests), { text: count(c.failed), ...(c.failed > 0 ? { tone: 'bad' as const } : {}) },
      { text: `${c.valid}/${c.trials}`, ...(c.valid < c.trials ? { tone: 'bad' as const } : {}) }];
  }));
}
