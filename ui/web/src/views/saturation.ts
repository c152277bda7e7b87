// How latency grows with the rate, for studies that search for the highest
// one: the curve with its knee.

import { lineChart, type Series } from '../chart/line';
import { h } from '../dom';
import { plain, scaleFor, value } from '../format';
import { key, level, levelWords, pick, type Model } from '../model';
import { groupBy, tickText } from './overhead';
import { choice, legend, Live, nothing, section, type View } from './parts';

const QUANTILES = { p50: 'median', p90: 'p90', p99: 'p99' } as const;
type Quantile = keyof typeof QUANTILES;

export function saturation(model: Model, searched: boolean): View | null {
  const rate = model.factors.find((f) => f.factor === 'rate');
  if (!searched || !rate) return null;
  let quantile: Quantile = 'p99';
  const others = model.factors.filter((f) => f !== rate);
  const live = new Live((selection, chart) => {
    const shown = model.selected(selection).filter((c) => c.valid > 0 && Number(level(c.cell, 'rate')) > 0);
    if (shown.length === 0) return [nothing()];
    const scale = scaleFor('us', Math.max(...shown.map((c) => c.latency_intended_us[quantile])));
    const series: Series[] = groupBy(shown, (c) => key(pick(c.cell, others.map((f) => f.factor)))).map((group) => ({
      label: others.filter((f) => f.levels.length > 1).map((f) => levelWords(f, level(group[0]?.cell, f.factor))).join(' · ') || 'all',
      look: model.look(group[0]?.cell ?? null),
      points: group.map((c) => {
        const y = c.latency_intended_us[quantile];
        return { x: Number(level(c.cell, 'rate')), y, low: y, high: y, says: value(scale, y) };
      }).sort((a, b) => a.x - b.x),
    }));
    const levels = [...new Set(shown.map((c) => Number(level(c.cell, 'rate'))))].sort((a, b) => a - b);
    return [
      legend(model, shown, true),
      chart(lineChart({
        name: `Latency (${QUANTILES[quantile]}) against the rate`,
        series,
        x: { kind: 'log', title: 'requests per second', format: String, ticks: levels.map((v) => ({ value: v, text: v.toLocaleString('en') })) },
        y: { kind: 'log', title: `${QUANTILES[quantile]} latency, µs`, format: tickText },
        readX: (x) => `${x.toLocaleString('en')} requests per second`,
        readY: (v) => `${plain(scale, v)} ${scale.unit}`,
        markers: true,
        height: 300,
      })),
    ];
  });
  const control = choice('percentile', Object.entries(QUANTILES).map(([id, text]) => ({ id, text })), quantile, (id) => {
    quantile = id as Quantile;
    live.again();
  });
  return {
    element: section('saturation', 'Latency against the rate',
      h('p', { class: 'lead' }, 'Over all valid trials at each rate measured. Where a curve turns up, queueing starts to dominate.'),
      h('div', { class: 'controls' }, control), live.element),
    update: live.update,
  };
}
