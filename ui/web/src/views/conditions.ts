// What the windows of a cell's trials had in common beside latency and cost:
// connections, and the machine's state.

import type { CellSummary } from '../data';
import { h } from '../dom';
import { count, percent } from '../format';
import type { Model } from '../model';
import { folded, Live, nothing, section, table, type CellText, type Column, type View } from './parts';

const NONE: CellText = { text: '–', tone: 'dim' };

export function conditions(model: Model): View | null {
  const pods = model.cells.some((c) => Object.keys(c.connections ?? {}).length > 0);
  const states = model.cells.some((c) => c.pressure);
  if (!pods && !states) return null;
  const columns: Column[] = [{ head: 'cell' }];
  if (pods) columns.push({ head: 'client pod', number: true }, { head: 'server pod', number: true }, { head: 'retransmitted', number: true });
  if (states) columns.push({ head: 'CPUs busy', number: true }, { head: 'tasks waited for one', number: true }, { head: 'stolen', number: true });
  const live = new Live((selection) => {
    const shown = model.selected(selection);
    if (shown.length === 0) return [nothing()];
    const numbers = table('Connections, and the machine’s state, medians of the trials', columns, shown.map((c) => [
      model.label(c.cell, shown), ...(pods ? connections(c) : []), ...(states ? state(c) : []),
    ]));
    return [shown.length > 8 ? folded('Conditions as a table', numbers) : numbers];
  });
  return {
    element: section('conditions', 'Conditions',
      h('p', { class: 'lead' }, 'How many connections each pod held at the end of the window, and how busy the machine was in it.'), live.element),
    update: live.update,
  };
}

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
