// What the proxies of a stated mesh would cost, by cell.

import type { Finding } from '../documents';
import { h } from '../dom';
import { fixed, interval, magnitude } from '../format';
import { key, type Model } from '../model';
import { Live, nothing, section, table, type CellText, type View } from './parts';

const COLUMNS = [
  { name: 'money_cores', head: 'cores' },
  { name: 'money_cpu', head: 'CPU' },
  { name: 'money_memory', head: 'memory' },
  { name: 'money_month', head: 'in all' },
  { name: 'money_month_overhead', head: 'against baseline' },
  { name: 'money_cpu_fit', head: 'CPU, from idle cost and slope' },
] as const;

export function money(model: Model, stated: string): View | null {
  const told = COLUMNS.map((c) => {
    const by = new Map(model.all.filter((f) => f.name === c.name && f.verdict !== 'invalid').map((f) => [key(f.cell ?? {}), f]));
    const one = [...by.values()][0];
    return { ...c, by, head: one && one.unit !== 'cores' ? `${c.head}, ${one.unit}` : c.head };
  }).filter((c) => [...c.by.values()].some((f) => f.estimate !== 0));
  if (told.length === 0) return null;
  const live = new Live((selection) => {
    const shown = model.selected(selection).filter((c) => told.some((t) => t.by.get(key(c.cell ?? {}))));
    if (shown.length === 0) return [nothing()];
    return [table('Monthly cost of the stated mesh, with 95% intervals', [{ head: 'cell' }, ...told.map((t) => ({ head: t.head, number: true }))],
      shown.map((c) => [model.label(c.cell, shown), ...told.map((t): CellText => {
        const f = t.by.get(key(c.cell ?? {})) ?? t.by.get(key(without(c.cell ?? {}, 'rate')));
        return f ? whole(f) : { text: '–', tone: 'dim' };
      })]))];
  });
  return {
    element: section('money', 'Money',
      h('p', { class: 'lead' }, `What the proxies of a mesh with ${stated} would cost. Proxies only: other costs, such as kernel interrupts and the control plane, come on top.`),
      live.element),
    update: live.update,
  };
}

const without = (cell: Readonly<Record<string, string>>, factor: string): Record<string, string> => Object.fromEntries(Object.entries(cell).filter(([name]) => name !== factor));

/** Money and cores, of which fractions say nothing: three figures of the largest. */
function whole(f: Finding): string {
  if (Math.abs(f.estimate) < 100) return interval({ div: 1, unit: '' }, f.estimate, f.low, f.high);
  const unit = 10 ** Math.max(0, magnitude(Math.max(Math.abs(f.low), Math.abs(f.high))) - 2);
  const round = (v: number): string => fixed(Math.round(v / unit) * unit, 0);
  return `${round(f.estimate)} (${round(f.low)}${f.low < 0 ? ' to ' : '–'}${round(f.high)})`;
}
