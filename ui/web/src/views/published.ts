// Figures of the literature beside ours.

import { forest, type ForestRow } from '../chart/forest';
import type { Chart } from '../chart/figure';
import type { Published } from '../documents';
import { h } from '../dom';
import { oneValue, quantity, reach, scaleFor, value, type Scale } from '../format';
import { stands, type Model } from '../model';
import { tickText } from './overhead';
import { section, table } from './parts';

export function published(model: Model): HTMLElement | null {
  const all = model.findings.published ?? [];
  if (all.length === 0) return null;
  const charts = comparable(all).map((group) => compare(group, all, model));
  return section(
    'published',
    'Published vs. measured',
    h('p', { class: 'lead' }, 'Published figures come from other machines: expect directions and ratios to agree, not absolute values.'),
    charts.length > 0 && h('p', { class: 'key' }, h('span', {}, h('span', { class: 'published-key', 'aria-hidden': 'true' }), 'published'), h('span', {}, h('span', { class: 'measured-key', 'aria-hidden': 'true' }), 'measured here, with its 95% interval')),
    charts.map((chart) => chart.element),
    table('Published and measured', [{ head: 'claim' }, { head: 'source' }, { head: 'published', number: true }, { head: 'measured (95% interval)', number: true }, { head: 'in words', prose: true }],
      all.map((p) => [claim(p, all, model), p.source, value(scaleOf([p]), p.figure), p.measured ? measured(p, scaleOf([p])) : { text: 'not measured', tone: 'dim' as const }, p.says])),
  );
}

/** A claim, with what was measured where several findings stand beside it. */
function claim(p: Published, all: readonly Published[], model: Model): string {
  const several = all.some((q) => q.claim === p.claim && q.finding !== p.finding);
  return several ? `${p.claim} (${model.words(p.finding)})` : p.claim;
}

/** One scale for published and measured figures. */
function scaleOf(group: readonly Published[]): Scale {
  return scaleFor(group[0]?.unit ?? '', Math.max(...group.map((p) => Math.max(Math.abs(p.figure), p.measured?.unit === p.unit ? p.measured.high : 0))));
}

function measured(p: Published, scale: Scale): string {
  const m = p.measured;
  if (!m) return '';
  if (m.verdict === 'invalid') return 'not valid';
  const own = m.unit === p.unit ? scale : scaleFor(m.unit, Math.abs(m.high));
  const open = reach(m.open, value(own, m.low), value(own, m.high));
  if (open !== '') return open;
  return oneValue(m.low, m.high) ? `${value(own, m.estimate)} (same)` : quantity(own, m.estimate, m.low, m.high);
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

function compare(group: readonly Published[], all: readonly Published[], model: Model): Chart {
  const scale = scaleOf(group);
  const rows: ForestRow[] = group.flatMap((p) => {
    const m = p.measured;
    if (!m) return [];
    const look = model.look(m.cell);
    return [{
      label: claim(p, all, model),
      color: look.color,
      shape: look.dash,
      estimate: m.estimate,
      low: m.low,
      high: m.high,
      hollow: !stands(m.verdict),
      refused: m.verdict === 'invalid',
      says: `${value(scale, p.figure)} → ${measured(p, scale)}`,
      mark: p.figure,
    }];
  });
  return forest({ name: 'Published figures and measured ones with 95% intervals', title: scale.unit, rows, scale, format: (v) => tickText(v / scale.div) });
}
