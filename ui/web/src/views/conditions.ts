// What the windows of a cell's trials had in common beside latency and cost:
// connections, the machine's state, and who used its CPUs.

import type { CellSummary } from '../documents';
import { h } from '../dom';
import { count, fixed, percent } from '../format';
import type { Model } from '../model';
import { folded, Live, nothing, section, table, type CellText, type Column, type View } from './parts';

const NONE: CellText = { text: '–', tone: 'dim' };

export function conditions(model: Model): View | null {
  const pods = model.cells.some((c) => Object.keys(c.connections ?? {}).length > 0);
  const states = model.cells.some((c) => c.pressure);
  if (!pods && (!states || model.cells.some((c) => Object.keys(c.control?.cores_by_part ?? {}).length > 0))) return null; // machine has them
  const columns: Column[] = [{ head: 'cell' }];
  if (pods) columns.push({ head: 'client pod', number: true }, { head: 'server pod', number: true }, { head: 'retransmitted', number: true });
  if (states) columns.push(...STATES.map((head) => ({ head, number: true })));
  const live = new Live((selection) => {
    const shown = model.selected(selection);
    if (shown.length === 0) return [nothing()];
    const numbers = table('Connections and machine state, medians over trials', columns, shown.map((c) => [
      model.label(c.cell, shown), ...(pods ? connections(c) : []), ...(states ? state(c) : []),
    ]));
    return [shown.length > 8 ? folded('Conditions as a table', numbers) : numbers];
  });
  return {
    element: section('conditions', 'Conditions',
      h('p', { class: 'lead' }, 'Connections per pod at the end of the window, and how busy the machine was during it.'), live.element),
    update: live.update,
  };
}

const PARTS: readonly (readonly [string, string])[] = [
  ['control', 'istiod'], ['simulator', 'simulated sidecars'], ['server_proxy', 'real sidecars'], ['apiserver', 'API server'],
  ['client_proxy', 'callers’ sidecars'], ['worker', 'workers'], ['generator', 'load generators'], ['rest', 'rest of the machine'], ['machine', 'whole machine'],
];

/** Who used the machine in a control-plane study's windows, beside its state. */
export function machine(model: Model): View | null {
  const cores = (c: CellSummary): Readonly<Record<string, number>> => c.control?.cores_by_part ?? {};
  const parts = PARTS.filter(([part]) => model.cells.some((c) => Object.hasOwn(cores(c), part)));
  if (parts.length === 0) return null;
  const states = model.cells.some((c) => c.pressure);
  const all = model.cells.flatMap((c) => Object.values(cores(c)));
  const unit = Math.max(...all) < 100 ? MILLI : { div: 1, unit: 'cores' };
  const columns: Column[] = [{ head: 'cell' }, ...[...parts.map(([, words]) => words), ...(states ? STATES : [])].map((head) => ({ head, number: true }))];
  const live = new Live((selection) => {
    const shown = model.selected(selection).filter((c) => Object.keys(cores(c)).length > 0);
    if (shown.length === 0) return [nothing()];
    return [table(`CPU in the windows, mean ${unit.unit}${states ? ', and machine state' : ''}`, columns, shown.map((c) => [
      model.label(c.cell, shown),
      ...parts.map(([part]): CellText => (Object.hasOwn(cores(c), part) ? fixed((cores(c)[part] ?? 0) / unit.div, (cores(c)[part] ?? 0) / unit.div < 9.95 ? 1 : 0) : NONE)),
      ...(states ? state(c) : []),
    ]))];
  });
  return {
    element: section('machine', 'CPU by component',
      h('p', { class: 'lead' }, 'The rest is everything these counters miss: kubelet, etcd, controllers, containerd, meshtrial itself and the kernel. CPUs busy is the share of all CPU time; CPU pressure, the share of the time in which a runnable task waited for a CPU.'), live.element),
    update: live.update,
  };
}

const MILLI = { div: 1e-3, unit: 'mCPU' };

const STATES = ['CPUs busy', 'CPU pressure (PSI some)', 'steal'];

function connections(c: CellSummary): CellText[] {
  const pod = new Map(Object.entries(c.connections ?? {}));
  const client = pod.get('generator');
  const server = pod.get('worker');
  return [
    client ? count(client.established) : NONE,
    server ? count(server.established) : NONE,
    client || server ? count((client?.retransmitted ?? 0) + (server?.retransmitted ?? 0)) : NONE,
  ];
}

function state(c: CellSummary): CellText[] {
  const p = c.pressure;
  return p ? [percent(p.busy_ratio), percent(p.cpu_some_ratio), percent(p.steal_ratio)] : [NONE, NONE, NONE];
}
