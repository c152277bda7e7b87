// What a request's way through two sidecars is made of: each part with its
// interval, the residual, and the whole that they add up to.

import type { HopTerm, Hops, Priced } from '../documents';
import { forest, type ForestRow } from '../chart/forest';
import { h, type Child } from '../dom';
import { interval, scaleFor, type Scale } from '../format';
import { factorWords, type Model } from '../model';
import { tickText } from './overhead';
import { choice, folded, Live, section, table, type CellText, type View } from './parts';

const FIGURES: readonly { readonly id: string; readonly text: string; readonly title: string }[] = [
  { id: 'latency_p50', text: 'p50', title: 'median latency' },
  { id: 'latency_p99', text: 'p99', title: '99th percentile of latency' },
  { id: 'cpu_pods', text: 'CPU of all pods', title: 'CPU of all pods per request' },
  { id: 'cpu_kernel', text: 'of it in the kernel', title: 'CPU of all pods in the kernel per request' },
  { id: 'cpu_machine', text: 'CPU of the machine', title: 'CPU of the whole machine per request' },
];

const figureOf = (t: HopTerm, id: string): Priced | undefined => new Map(Object.entries(t.figures ?? {})).get(id);

const WORDS: Readonly<Record<string, string>> = { path: 'path without sidecars', tls: 'TLS', total: 'in all' };

const words = (t: HopTerm): string => (Object.hasOwn(WORDS, t.name) ? (WORDS[t.name] ?? t.name) : t.name.replaceAll('_', ' '));

export function hops(model: Model, all: readonly Hops[]): View | null {
  const figures = FIGURES.filter((f) => all.some((one) => (one.terms ?? []).some((t) => figureOf(t, f.id))));
  if (figures.length === 0) return null;
  let figure = figures[0]?.id ?? '';
  const live = new Live((_selection, chart) => all.flatMap((one): Child[] => {
    const of = model.factors.flatMap((f) => (one.cell && Object.hasOwn(one.cell, f.factor) ? [`${factorWords(f.factor)} ${one.cell[f.factor] ?? ''}`] : [])).join(', ');
    const title = FIGURES.find((f) => f.id === figure)?.title ?? figure;
    const scale = scaleOf(one, figure);
    const rows = (one.terms ?? []).flatMap((t, i): ForestRow[] => {
      const p = figureOf(t, figure);
      if (!p || p.verdict === 'invalid') return [];
      const kind = t.name === 'total' ? 2 : t.name === 'residual' ? 1 : 0;
      return [{ label: words(t), color: `var(--series-${kind === 0 ? (i % 5) + 1 : kind === 1 ? 6 : 0})`, shape: kind, estimate: p.estimate, low: p.low, high: p.high,
        hollow: p.verdict === 'inconclusive', says: interval(scale, p.estimate, p.low, p.high) }];
    });
    return [
      of === '' ? null : h('h3', {}, `At ${of}`),
      chart(forest({ name: `Cost breakdown of the request path: ${title}, with 95% intervals`, title: `${title}, ${scale.unit}`, rows, scale, format: (v) => tickText(v / scale.div) })),
      h('ul', {}, (one.says ?? []).map((s) => h('li', {}, s))),
      folded('The parts as a table', termTable(one, figures.map((f) => f.id))),
    ];
  }));
  const control = choice('figure', figures.map(({ id, text }) => ({ id, text })), figure, (id) => {
    figure = id;
    live.again();
  });
  return {
    element: section('hops', 'Cost breakdown of the request path',
      h('p', { class: 'lead' }, 'Each part is the within-block difference between cells with and without it, with its 95% interval. In every block, the parts and the residual add up to the total. Hollow marks are not significant.'),
      h('div', { class: 'controls' }, control), live.element),
    update: live.update,
  };
}

function scaleOf(one: Hops, id: string): Scale {
  const all = (one.terms ?? []).flatMap((t) => figureOf(t, id) ?? []).filter((p) => p.verdict !== 'invalid');
  const unit = all[0]?.unit ?? 'us';
  return unit === 'us/request' ? { div: 1, unit: 'µs' } : scaleFor(unit, Math.max(0, ...all.map((p) => Math.abs(p.estimate))));
}

function termTable(one: Hops, figures: readonly string[]): HTMLElement {
  const scales = new Map(figures.map((id) => [id, scaleOf(one, id)]));
  return table('Cost breakdown of the request path', [{ head: 'part' }, ...figures.map((id) => ({ head: `${FIGURES.find((f) => f.id === id)?.text ?? id}, ${scales.get(id)?.unit ?? ''}`, number: true })), { head: 'what it is', prose: true }],
    (one.terms ?? []).map((t): CellText[] => [words(t),
      ...figures.map((id): CellText => {
        const p = figureOf(t, id);
        const scale = scales.get(id);
        return !p || !scale || p.verdict === 'invalid' ? { text: 'not valid', tone: 'dim' } : interval(scale, p.estimate, p.low, p.high);
      }),
      t.doc]));
}
