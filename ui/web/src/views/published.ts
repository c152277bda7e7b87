// Figures of the literature beside ours.

import { forest, type ForestRow } from '../chart/forest';
import type { Chart } from '../chart/figure';
import type { Published } from '../data';
import { h } from '../dom';
import { quantity, scaleFor, value } from '../format';
import type { Model } from '../model';
import { tickText } from './overhead';
import { section, table } from './parts';

export function published(model: Model): HTMLElement | null {
  const all = model.findings.published ?? [];
  if (all.length === 0) return null;
  const charts = comparable(all).map((group) => compare(group, model));
  return section(
    'published',
    'Published beside measured',
    h('p', { class: 'lead' }, 'Published figures come from other machines: directions and ratios are what should agree.'),
    charts.length > 0 && h('p', { class: 'key' }, h('span', {}, h('span', { class: 'published-key', 'aria-hidden': 'true' }), 'published'), h('span', {}, h('span', { class: 'measured-key', 'aria-hidden': 'true' }), 'measured here, with its 95% interval')),
    charts.map((chart) => chart.element),
    table('Published and measured', [{ head: 'claim' }, { head: 'source' }, { head: 'published', number: true }, { head: 'measured (95% interval)', number: true }, { head: 'in words', prose: true }],
      all.map((p) => [p.claim, p.source, value(scaleFor(p.unit, Math.abs(p.figure)), p.figure), p.measured ? measured(p) : { text: 'not measured', tone: 'dim' as const }, p.says])),
  );
}

function measured(p: Published): string {
  const m = p.measured;
  if (!m) return '';
  if (m.verdict === 'invalid') return 'not valid';
  if (m.verdict === 'below_noise') return 'below noise';
  return quantity(scaleFor(m.unit, Math.max(Math.abs(m.estimate), Math.abs(m.high))), m.estimate, m.low, m.high);
}

/** Claims that have a measured counterpart, by unit. */
function comparable(all: readonly Published[]): Published[][] {
  const groups = new Map<string, Published[]>();
  for (const p of all) {
    if (p.measured?.unit !== p.unit || !(p.figure > 0)) continue;
    groups.set(p.unit, [...(groups.get(p.unit) ?? []), p]);
  }
  return [...groups.values()];
}

function compare(group: readonly Published[], model: Model): Chart {
  const scale = scaleFor(group[0]?.unit ?? '', Math.max(...group.map((p) => Math.max(p.figure, p.measured?.high ?? 0))));
  const rows: ForestRow[] = group.flatMap((p) => {
    const m = p.measured;
    if (!m) return [];
    const look = model.look(m.cell);
    return [{
      label: p.claim,
      color: look.color,
      shape: look.dash,
      estimate: m.estimate,
      low: m.low,
      high: m.high,
      hollow: m.verdict !== 'real',
      says: `${value(scale, p.figure)} → ${measured(p)}`,
      mark: p.figure,
    }];
  });
  return forest({ name: 'Published figures and measured ones with 95% intervals', title: scale.unit, rows, scale, format: (v) => tickText(v / scale.div) });
}
