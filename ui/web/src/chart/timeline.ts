// A timeline: requests that failed by kind, stacked, over the latency of those
// that were answered, with the steps as lines across both.

import { s } from '../dom';
import { fixed, magnitude, plain, scaleFor } from '../format';
import type { ScenarioSummary } from '../documents';
import { airy, makeAxis, type Axis } from './axis';
import { figure, type Chart } from './figure';
import { textWidth } from './text';

const KIND_COLORS = ['var(--series-3)', 'var(--series-4)', 'var(--series-5)', 'var(--series-7)', 'var(--series-1)', 'var(--series-8)', 'var(--series-6)', 'var(--series-0)'];

/** The kinds of failure of a timeline, most first, each with its colour. */
export function kinds(data: ScenarioSummary): { readonly name: string; readonly color: string; readonly counts: readonly number[]; readonly total: number }[] {
  return Object.entries(data.series.failed ?? {})
    .map(([name, counts]) => ({ name, counts: counts ?? [] }))
    .map(({ name, counts }) => ({ name, counts, total: counts.reduce((a, b) => a + b, 0) }))
    .sort((a, b) => b.total - a.total)
    .map((kind, i) => ({ ...kind, color: KIND_COLORS[i % KIND_COLORS.length] ?? '' }));
}

const short = (v: number): string => (v === 0 ? '0' : fixed(v, Math.max(0, Math.min(6, -magnitude(v)))));

export function timeline(name: string, data: ScenarioSummary): Chart {
  return figure({ name, draw: (width) => draw(data, width) });
}

function draw(data: ScenarioSummary, width: number): SVGSVGElement {
  const { bin_s: bin } = data.series;
  const margin = { left: 52, right: 18 };
  const labels = stepLabels(data, width, margin);
  const top = 14 + labels.rows * 16;
  const [errors, gap, latency] = [150, 46, 190];
  const height = top + errors + gap + latency + 46;
  const [left, right] = [margin.left, width - margin.right];
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'plot timeline' });
  const x = makeAxis({ kind: 'linear', title: 'seconds after the first request', domain: [0, data.s], format: short }, [left, right], 72);

  const requests = data.series.requests ?? [];
  const upper = makeAxis({ kind: 'linear', title: '', domain: airy([0, ...requests.map((n) => n / bin)], 'linear', true), format: short }, [top + errors, top], 36);
  svg.append(frame(x, upper, left, right, top, top + errors, 'requests per second, those that failed in colour', false));
  const bars = s('g', { class: 'marks' });
  const step = (right - left) * (bin / data.s);
  requests.forEach((n, i) => {
    const at = x.at(i * bin);
    if (n > 0) bars.append(s('rect', { class: 'due', x: at, width: Math.max(0.5, step), y: upper.at(n / bin), height: Math.max(0, upper.at(0) - upper.at(n / bin)) }));
    let sum = 0;
    for (const kind of kinds(data)) {
      const failed = kind.counts[i] ?? 0;
      if (failed === 0) continue;
      const [low, high] = [upper.at(sum / bin), upper.at((sum + failed) / bin)];
      sum += failed;
      bars.append(s('rect', { style: `fill:${kind.color}`, x: at, width: Math.max(1, step), y: high, height: Math.max(1.5, low - high) },
        s('title', {}, `${(i * bin).toFixed(1)} s: ${failed} of ${n} failed, ${kind.name}`)));
    }
  });
  svg.append(bars);

  const times = [data.series.p50_us, data.series.p99_us, data.series.max_us].flatMap((v) => (v ?? []).filter((us) => us > 0));
  const scale = scaleFor('us', Math.max(0, ...times) / 2);
  const from = top + errors + gap;
  const lower = makeAxis({ kind: 'log', title: '', domain: airy(times.length > 0 ? times : [1, 10], 'log'), format: (v) => plain(scale, v) }, [from + latency, from], 40);
  svg.append(frame(x, lower, left, right, from, from + latency, `latency of answered requests, ${scale.unit}: median, p99 and largest of each ${fixed(bin * 1000, 0)} ms`, true));
  for (const [values, color, style] of [[data.series.max_us, 'var(--series-0)', 'dots'], [data.series.p99_us, 'var(--series-2)', 'line'], [data.series.p50_us, 'var(--series-1)', 'line strong']] as const) {
    if (style === 'dots') {
      const marks = s('g', { style: `fill:${color}` });
      (values ?? []).forEach((us, i) => { if (us > 0) marks.append(s('circle', { cx: x.at((i + 0.5) * bin), cy: lower.at(us), r: 1.3 })); });
      svg.append(marks);
    } else {
      svg.append(s('path', { class: style, 'stroke-dasharray': style === 'line' ? '7 4' : '', style: `color:${color}`, d: path(values ?? [], bin, x, lower) }));
    }
  }
  svg.append(labels.draw(x, top, from + latency));
  return svg;
}

/** A line that is broken where there is no value. */
function path(values: readonly number[], bin: number, x: Axis, y: Axis): string {
  let open = false;
  return values.map((us, i) => {
    if (us <= 0) {
      open = false;
      return '';
    }
    const part = `${open ? 'L' : 'M'}${x.at((i + 0.5) * bin).toFixed(1)},${y.at(us).toFixed(1)}`;
    open = true;
    return part;
  }).join('');
}

function frame(x: Axis, y: Axis, left: number, right: number, top: number, bottom: number, title: string, last: boolean): SVGGElement {
  const g = s('g', { class: 'axes' });
  for (const tick of y.marks) {
    const at = y.at(tick.value);
    g.append(s('line', { class: tick.minor ? 'grid minor' : 'grid', x1: left, x2: right, y1: at, y2: at }));
    if (!tick.minor) g.append(s('text', { class: 'tick', x: left - 8, y: at, dy: '0.32em', 'text-anchor': 'end' }, tick.text));
  }
  for (const tick of x.marks) {
    g.append(s('line', { class: 'grid', x1: x.at(tick.value), x2: x.at(tick.value), y1: top, y2: bottom }));
    if (last) g.append(s('text', { class: 'tick', x: x.at(tick.value), y: bottom + 17, 'text-anchor': 'middle' }, tick.text));
  }
  g.append(s('line', { class: 'base', x1: left, x2: right, y1: bottom, y2: bottom }));
  g.append(s('text', { class: 'title', x: 4, y: bottom + 20 - (last ? bottom - top + 28 : bottom - top + 28) }, title));
  if (last) g.append(s('text', { class: 'title', x: right, y: bottom + 36, 'text-anchor': 'end' }, x.title));
  return g;
}

/** Steps as bands and lines, their names in as many rows as they need. */
function stepLabels(data: ScenarioSummary, width: number, margin: { left: number; right: number }) {
  const at = (seconds: number): number => margin.left + (seconds / data.s) * (width - margin.left - margin.right);
  const ends: number[] = [];
  const placed = (data.steps ?? []).filter((one) => one.begin_s > 0 || one.applied_s > 0).map((one) => {
    const long = textWidth(one.name, 12) + 10;
    const from = Math.max(0, Math.min(at(one.begin_s) + 4, width - long));
    let row = ends.findIndex((end) => end <= from);
    if (row < 0) row = ends.length;
    ends[row] = from + long;
    return { one, row, from };
  });
  const rows = Math.max(1, ends.length);
  return {
    rows: rows + 1,
    draw: (x: Axis, top: number, bottom: number): SVGGElement => {
      const g = s('g', { class: 'steps' });
      for (const { one, row, from } of placed) {
        const begin = x.at(one.begin_s);
        const y = 12 + row * 16;
        const end = one.end_s ?? 0;
        if (end > 0) g.append(s('rect', { class: 'band', x: begin, width: Math.max(1, x.at(end) - begin), y: top, height: bottom - top }));
        g.append(s('line', { class: 'step', x1: begin, x2: begin, y1: y - 9, y2: bottom }));
        if (end > 0) g.append(s('line', { class: 'step end', x1: x.at(end), x2: x.at(end), y1: top, y2: bottom }));
        g.append(s('text', { class: one.error ? 'name bad' : 'name', x: from, y }, one.name, s('title', {}, `${one.op} ${one.object} at ${one.begin_s.toFixed(2)} s${one.proof ? `: ${one.proof}` : ''}${one.error ? `: ${one.error}` : ''}`)));
      }
      return g;
    },
  };
}
