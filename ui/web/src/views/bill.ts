// The bill: what each part of a sidecar costs by itself, what all cost
// together, and what is saved without each.

import type { Bill, BillPart, Priced } from '../documents';
import { forest, type ForestRow } from '../chart/forest';
import { h, type Child } from '../dom';
import { fixed, interval, percent, scaleFor, type Scale } from '../format';
import { factorWords, stands, verdictWords, type Model } from '../model';
import { tickText } from './overhead';
import { choice, folded, Live, section, table, type CellText, type View } from './parts';

interface Figure { readonly id: string; readonly text: string; readonly title: string }

const figuresOf = (model: Model): readonly Figure[] => [
  { id: 'cpu', text: 'CPU', title: 'CPU of the proxies per request' },
  ...model.proxies.map((p) => ({ id: `cpu_${p.part}`, text: model.partWords(p.part), title: `CPU of the ${model.partWords(p.part)} per request` })),
  { id: 'latency_p50', text: 'p50', title: 'median latency' },
  { id: 'latency_p99', text: 'p99', title: '99th percentile of latency' },
  { id: 'memory', text: 'idle memory', title: 'idle memory of the proxies' },
  { id: 'money', text: 'money', title: 'cost per month' },
];

const figureOf = (p: BillPart, id: string): Priced | undefined => new Map(Object.entries(p.figures ?? {})).get(id);

export function bill(model: Model, bills: readonly Bill[]): View | null {
  const parts = bills.flatMap((b) => [...(b.parts ?? []), ...(b.removed ?? [])]);
  if (parts.length === 0) return null;
  const figures = figuresOf(model).filter((f) => parts.some((p) => figureOf(p, f.id)));
  let figure = 'cpu';
  const live = new Live((_selection, chart) => bills.flatMap((b): Child[] => {
    const of = model.factors.flatMap((f) => (b.cell && Object.hasOwn(b.cell, f.factor) ? [`${factorWords(f.factor)} ${b.cell[f.factor] ?? ''}`] : [])).join(', ');
    const title = figuresOf(model).find((f) => f.id === figure)?.title ?? figure;
    const list = (heading: string, name: string, shown: readonly BillPart[], sums: readonly (readonly [string, Priced])[]): Child => {
      const scale = common([...shown.flatMap((p) => figureOf(p, figure) ?? []), ...sums.map(([, p]) => p)]);
      const rows = [
        ...shown.flatMap((p) => row(`${places(p)}  ${p.name}`, figureOf(p, figure), scale, 'var(--series-1)', 0)),
        ...sums.flatMap(([label, p]) => row(label, p, scale, 'var(--series-2)', 1)),
      ];
      return rows.length === 0 ? null : h('div', { class: 'panel' }, h('h3', {}, heading),
        chart(forest({ name: `${name}: ${title}, with intervals`, title: `${title}, ${scale.unit}`, rows, scale, format: (v) => tickText(v / scale.div) })));
    };
    const t = b.together;
    const sums: readonly (readonly [string, Priced])[] = t && figure === 'cpu' ? [['sum of the parts', t.sum], ['all together', t.together], ['beyond the sum', t.interaction]] : [];
    return [
      of === '' ? null : h('h3', {}, `At ${of}`),
      h('div', { class: 'panels two' },
        list('Cost of each part', 'Parts over the base', b.parts ?? [], sums),
        list('Savings from removing each part', 'Parts taken away', b.removed ?? [], [])),
      t ? h('p', {}, t.says) : null,
      folded('The bill as a table', billTable(model, b, figures.map((f) => f.id))),
    ];
  }));
  const control = choice('figure', figures.map(({ id, text }) => ({ id, text })), figure, (id) => {
    figure = id;
    live.again();
  });
  return {
    element: section('bill', 'The bill',
      h('p', { class: 'lead' }, 'A part’s cost is the within-block difference to the same pods without it. The 95% intervals of a figure hold simultaneously for all parts of a list; those of the sums are 95% each. The number before each name is its rank by CPU; parts that cannot be ranked share one. Hollow marks are not significant.'),
      h('div', { class: 'controls' }, control), live.element),
    update: live.update,
  };
}

/** The places that a part may have by CPU. */
function places(p: BillPart): string {
  if (p.rank_low === 0) return '–';
  return p.rank_low === p.rank_high ? `${p.rank_low}` : `${p.rank_low}–${p.rank_high}`;
}

/** One scale for all figures of a list. */
function common(all: readonly Priced[]): Scale {
  const valid = all.filter((p) => p.verdict !== 'invalid');
  const unit = all[0]?.unit ?? 'us/request';
  const [money, month] = unit.split('/');
  if (month === 'month') return { div: 1, unit: `${money ?? ''} per month` };
  if (unit === 'us/request') return { div: 1, unit: 'µs per request' };
  return scaleFor(unit, Math.max(0, ...valid.map((p) => Math.abs(p.estimate))));
}

function says(p: Priced, scale: Scale): string {
  if (p.verdict === 'invalid') return 'too few';
  if (p.unit.endsWith('/month') && Math.abs(p.estimate) >= 100) return `${fixed(p.estimate, 0)} (${fixed(p.low, 0)} to ${fixed(p.high, 0)})`;
  return interval(scale, p.estimate, p.low, p.high);
}

function row(label: string, p: Priced | undefined, scale: Scale, color: string, shape: number): ForestRow[] {
  if (!p || p.verdict === 'invalid') return [];
  return [{ label, color, shape, estimate: p.estimate, low: p.low, high: p.high, hollow: !stands(p.verdict), says: says(p, scale) }];
}

function billTable(model: Model, b: Bill, figures: readonly string[]): HTMLElement {
  const rows = [...(b.parts ?? []).map((p) => ({ p, what: 'added' })), ...(b.removed ?? []).map((p) => ({ p, what: 'saved without it' }))];
  const scales = new Map(figures.map((id) => [id, common(rows.flatMap(({ p }) => figureOf(p, id) ?? []))]));
  const head = (id: string): string => `${figuresOf(model).find((f) => f.id === id)?.text ?? id}, ${(scales.get(id)?.unit ?? '').replace(' per request', '')}`;
  return table('The bill', [{ head: 'part' }, { head: 'direction' }, { head: 'place', number: true }, ...figures.map((id) => ({ head: head(id), number: true })), { head: 'share of the proxies’ CPU', number: true }, { head: 'verdict' }],
    rows.map(({ p, what }): CellText[] => [p.name, what, places(p),
      ...figures.map((id): CellText => {
        const f = figureOf(p, id);
        const scale = scales.get(id);
        if (!f || !scale) return { text: '–', tone: 'dim' };
        return { text: says(f, scale), ...(f.verdict === 'real' ? {} : { tone: 'dim' as const }) };
      }),
      percent(figureOf(p, 'share')?.estimate ?? NaN),
      verdictWords(figureOf(p, 'cpu')?.verdict ?? '')]));
}
