// What changes that had not come yet did: proxies that held endpoints already
// gone, and the real requests that met one.

import { bars, type BarRow } from '../chart/bars';
import type { Traffic } from '../documents';
import { h } from '../dom';
import { count, fixed, magnitude, plain, scaleFor, value } from '../format';
import type { Model } from '../model';
import { controlled, keys, pieces, type Controlled } from './control';
import { tickText } from './overhead';
import { Live, notes, nothing, section, table, type CellText, type Slice, type View } from './parts';

/** What became of requests that went to a stale endpoint. */
const FATES: readonly { readonly id: string; readonly words: string; readonly of: (t: Traffic) => number }[] = [
  { id: 'failed', words: 'failed for the caller', of: (t) => t.phantom_failures },
  { id: 'hidden', words: 'saved by a retry', of: (t) => t.phantom_hidden },
  { id: 'served', words: 'served by a terminating pod', of: (t) => t.phantom_served },
  { id: 'open', words: 'unknown outcome', of: (t) => t.phantom_open },
];

const PERCENT = { div: 1, unit: '%' };

/** A share in percent, with two digits that count. */
function share(part: number, of: number): string {
  const v = of > 0 ? (100 * part) / of : 0;
  return `${fixed(v, Math.max(0, Math.min(4, 1 - magnitude(v))))}%`;
}

export function gone(model: Model, slice: Slice): View | null {
  const stale = model.cells.some((c) => (c.control?.stale_proxy_s ?? 0) > 0);
  const asked = model.cells.some((c) => (c.control?.traffic?.requests ?? 0) > 0);
  if (!stale && !asked) return null;
  const live = new Live((selection, chart) => {
    const shown = controlled(slice.cells(selection));
    if (shown.length === 0) return [nothing()];
    const met = shown.flatMap(({ cell, control }) => (control.traffic && control.traffic.requests > 0 ? [{ cell, traffic: control.traffic }] : []));
    const cells = met.map((c) => c.cell);
    const words = new Map(FATES.map((f) => [f.id, f.words]));
    const present = FATES.filter((f) => met.some((c) => f.of(c.traffic) > 0));
    const rows: BarRow[] = met.map(({ cell, traffic }) => ({
      label: model.label(cell.cell, cells),
      says: `${count(traffic.phantom_requests)} of ${count(traffic.requests)} requests`,
      pieces: pieces(present.map((f) => f.id), (id) => (100 * (FATES.find((f) => f.id === id)?.of(traffic) ?? 0)) / traffic.requests, PERCENT, (id) => words.get(id) ?? id),
    }));
    const warnings = model.all.filter((f) => !f.against && (f.name.startsWith('phantom_') || f.name.startsWith('traffic_'))).flatMap((f) => f.warnings ?? []);
    return [
      present.length > 0 && keys(present.map((f) => f.id), (id) => words.get(id) ?? id),
      present.length > 0 && chart(bars({ name: 'Requests sent to stale endpoints, by cell, stacked by outcome', title: 'of all requests, %', rows, format: tickText })),
      met.length > 0 && trafficTable(model, met),
      shown.some((c) => c.control.stale_proxy_s > 0) && staleTable(model, shown),
      notes(warnings),
    ];
  });
  return {
    element: section('gone', 'Stale endpoints', h('p', { class: 'lead' }, 'An endpoint is stale once no EndpointSlice lists it. A proxy that has not been told keeps sending requests there.'),
      h('div', { class: 'controls' }, slice.control(live.again)), live.element),
    update: live.update,
  };
}

function trafficTable(model: Model, met: readonly { readonly cell: Controlled['cell']; readonly traffic: Traffic }[]): HTMLElement {
  const cells = met.map((c) => c.cell);
  const last = scaleFor('us', Math.max(...met.map((c) => c.traffic.last_phantom_us)));
  const p99 = scaleFor('us', Math.max(...met.map((c) => c.traffic.latency_intended_us.p99)));
  const heads = ['requests', 'endpoints removed', 'hit one', 'of all', ...FATES.map((f) => f.words), `last one after, ${last.unit}`, 'all failures', `p99 of answered, ${p99.unit}`, 'unexplained'];
  return table('Requests to stale endpoints, all trials', [{ head: 'cell' }, ...heads.map((head) => ({ head, number: true }))], met.map(({ cell, traffic: t }): CellText[] => {
    const failures = Object.values(t.failed ?? {}).reduce((a, b) => a + b, 0) + t.unfinished;
    return [
      model.label(cell.cell, cells), count(t.requests), count(t.addresses_gone),
      { text: count(t.phantom_requests), ...(t.phantom_requests > 0 ? { tone: 'bad' as const } : {}) }, share(t.phantom_requests, t.requests),
      ...FATES.map((f) => count(f.of(t))), t.phantom_requests > 0 ? plain(last, t.last_phantom_us) : '–', count(failures), failures > 0.01 * t.requests ? { text: 'not reached', tone: 'dim' as const } : plain(p99, t.latency_intended_us.p99), count(t.residual),
    ];
  }));
}

function staleTable(model: Model, shown: readonly Controlled[]): HTMLElement {
  const cells = shown.map((c) => c.cell);
  const each = (c: Controlled): number => (1e6 * c.control.stale_proxy_s) / Math.max(1, c.control.committed);
  return table('How long proxies kept stale endpoints, summed over proxies', [{ head: 'cell' }, { head: 'proxy-seconds in all', number: true }, { head: 'for each change', number: true }],
    shown.map((c): CellText[] => [model.label(c.cell.cell, cells), fixed(c.control.stale_proxy_s, 1), value(scaleFor('us', each(c)), each(c))]));
}
