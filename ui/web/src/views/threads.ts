// Where the CPU time of proxies goes, thread by thread: on a CPU in user space
// or in the kernel, or ready and waiting for one.

import { bars, type BarRow } from '../chart/bars';
import type { CellSummary, ThreadRow, ThreadsSummary } from '../documents';
import { h } from '../dom';
import { count, fixed } from '../format';
import { partColor, type Model } from '../model';
import { tickText } from './overhead';
import { choice, folded, Live, nothing, section, table, type CellText, type Column, type Slice, type View } from './parts';

const LIMITS: Readonly<Record<string, string>> = {
  concurrency: 'concurrency', cpu_limit: 'CPU limit', imbalance: 'uneven workers', main_thread: 'main thread', machine: 'the machine',
};

/** A share of a CPU's time. */
const share = (ratio: number): string => `${fixed(100 * ratio, ratio < 0.0995 ? 1 : 0)}%`;

const threadsOf = (c: CellSummary, part: string): ThreadsSummary | undefined => new Map(Object.entries(c.threads ?? {})).get(part);

export function threads(model: Model, slice: Slice): View | null {
  const parts = model.parts((c) => c.threads ?? null);
  let part = parts[0];
  if (part === undefined) return null;
  const live = new Live((selection, chart) => {
    const has = (c: CellSummary): boolean => (threadsOf(c, part ?? '')?.rows ?? []).length > 0;
    const shown = slice.cells(selection).filter(has);
    if (shown.length === 0 || part === undefined) return [nothing()];
    const one = part;
    return [
      legend(model, one),
      chart(bars({
        name: `Threads of the ${model.partWords(one)}: on-CPU time share, kernel time hatched, and run-queue wait`,
        title: 'share of one CPU’s time, %',
        rows: shown.flatMap((c) => barRows(model, c, shown, one)),
        format: tickText,
      })),
      limits(model, model.selected(selection).filter((c) => c.threads), parts),
      folded('Threads as a table', threadTable(model, model.selected(selection).filter(has), one)),
    ];
  });
  const control = choice('part', parts.map((p) => ({ id: p, text: model.partWords(p) })), part, (p) => {
    part = p;
    live.again();
  });
  return {
    element: section('threads', 'Threads',
      h('p', { class: 'lead' }, 'Per-thread CPU time from just before the window to just after it, as the kernel accounts it; a thread at 100% is saturated. In every trial the threads add up to their cgroup’s CPU time.'),
      h('div', { class: 'controls' }, control, slice.control(live.again)), live.element),
    update: live.update,
  };
}

function barRows(model: Model, c: CellSummary, shown: readonly CellSummary[], part: string): BarRow[] {
  return (threadsOf(c, part)?.rows ?? []).map((r) => ({
    label: `${model.label(c.cell, shown)} · ${r.name}`,
    says: `${share(r.user_ratio + r.system_ratio)}, waited ${share(r.wait_ratio)}`,
    pieces: [
      { color: partColor(part), value: 100 * r.user_ratio, hatched: false, says: `${r.name}, user: ${share(r.user_ratio)}` },
      { color: partColor(part), value: 100 * r.system_ratio, hatched: true, says: `${r.name}, kernel: ${share(r.system_ratio)}` },
      { color: 'var(--rule)', value: 100 * r.wait_ratio, hatched: false, says: `${r.name}, run-queue wait: ${share(r.wait_ratio)}` },
    ],
  }));
}

function legend(model: Model, part: string): HTMLElement {
  const box = (color: string): HTMLElement => h('span', { class: 'box', style: `background:${color}`, 'aria-hidden': 'true' });
  return h('div', { class: 'legend' }, h('ul', {},
    h('li', {}, box(partColor(part)), model.partWords(part)),
    h('li', {}, h('span', { class: 'box kernel', 'aria-hidden': 'true' }), 'hatched: in the kernel'),
    h('li', {}, box('var(--rule)'), 'run-queue wait'),
  ));
}

/** Proxy bottlenecks, where anything does. */
function limits(model: Model, cells: readonly CellSummary[], parts: readonly string[]): HTMLElement | null {
  const rows = cells.flatMap((c) => parts.flatMap((part): CellText[][] => {
    const t = threadsOf(c, part);
    return t?.limit ? [[model.label(c.cell, cells), model.partWords(part), { text: Object.hasOwn(LIMITS, t.limit) ? (LIMITS[t.limit] ?? t.limit) : t.limit, tone: 'bad' }, t.says ?? '']] : [];
  }));
  if (rows.length === 0) return null;
  return table('Proxy bottlenecks', [{ head: 'cell' }, { head: 'part' }, { head: 'limit' }, { head: 'evidence', prose: true }], rows);
}

function threadTable(model: Model, cells: readonly CellSummary[], part: string): HTMLElement {
  const columns: Column[] = [{ head: 'cell' }, { head: 'thread' },
    ...['user', 'kernel', 'run-queue wait', 'voluntary ctx switches/s', 'involuntary ctx switches/s', 'connections accepted', 'threads'].map((head) => ({ head, number: true }))];
  return table(`Threads of the ${model.partWords(part)}`, columns, cells.flatMap((c) => (threadsOf(c, part)?.rows ?? []).map((r) => [model.label(c.cell, cells), ...numbers(r)])));
}

function numbers(r: ThreadRow): CellText[] {
  const none: CellText = { text: '–', tone: 'dim' };
  return [r.name, share(r.user_ratio), share(r.system_ratio), share(r.wait_ratio), fixed(r.voluntary_per_s, 0), fixed(r.involuntary_per_s, 0),
    r.accepted_connections === undefined ? none : count(r.accepted_connections), count(r.threads)];
}
