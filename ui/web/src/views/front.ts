// What a tuning tried, in two of its measures at a time: the settings that no
// other one beats, the one in use and the one that is recommended.

import { scatter, type Dot } from '../chart/scatter';
import type { TunedCell, Tuning } from '../documents';
import { h } from '../dom';
import { quantity, scaleFor, type Scale } from '../format';
import type { Model } from '../model';
import { tickText } from './overhead';
import { choice, Live, section, type View } from './parts';

interface Measure {
  readonly id: string;
  readonly text: string;
  readonly index: number;
  readonly scale: Scale;
}

export function front(model: Model, tuning: Tuning | undefined): View | null {
  const cells = tuning?.cells ?? [];
  const measures = (tuning?.measures ?? []).flatMap((m, index): Measure[] => {
    const values = cells.flatMap((c) => c.values?.[index] ?? []).filter((v) => v.known);
    if (!m.axis || values.length === 0) return [];
    return [{ id: m.finding, text: model.words(m.finding), index, scale: scaleFor(m.unit, Math.max(...values.map((v) => Math.abs(v.estimate)))) }];
  });
  const [first, second] = measures;
  if (!first || !second) return null;
  let [x, y] = [second, first];
  const live = new Live((_selection, chart) => [
    chart(scatter({
      name: `Settings that were tried: ${y.text} against ${x.text}, with 95% intervals`,
      x: axis(x), y: axis(y), dots: cells.flatMap((c) => dot(c, x, y)),
    })),
  ]);
  const pick = (legend: string, initial: Measure, chosen: (m: Measure) => void): HTMLElement => choice(legend, measures, initial.id, (id) => {
    const found = measures.find((m) => m.id === id);
    if (!found) return;
    chosen(found);
    live.again();
  });
  return {
    element: section('front', 'Pareto front of what was tried',
      h('p', { class: 'lead' }, 'Each mark is a setting that the search tried. A filled one is on the front: no other setting tried is as good in every measure and better in one. The square is in use, the diamond is recommended. Less is better: the best corner is at the lower left.'),
      h('div', { class: 'controls' }, pick('across', x, (m) => { x = m; }), pick('up', y, (m) => { y = m; })), live.element),
    update: live.update,
  };
}

const axis = (m: Measure): { readonly title: string; readonly format: (v: number) => string } => ({ title: `${m.text}, ${m.scale.unit}`, format: (v) => tickText(v / m.scale.div) });

function dot(c: TunedCell, x: Measure, y: Measure): Dot[] {
  const [across, up] = [c.values?.[x.index], c.values?.[y.index]];
  if (!across?.known || !up?.known) return [];
  const marked = c.recommended ? { shape: 3, color: 'var(--series-1)' } : c.present ? { shape: 1, color: 'var(--series-2)' } : { shape: 0, color: c.front ? 'var(--series-3)' : 'var(--ink-3)' };
  const says = [x, y].map((m, i) => {
    const v = i === 0 ? across : up;
    return `${m.text} ${quantity(m.scale, v.estimate, v.low, v.high)}`;
  });
  return [{ x: across, y: up, hollow: !c.front, ...marked, says: `${c.label}: ${says.join(', ')}` }];
}
