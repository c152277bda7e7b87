// A timeline: requests that failed by kind, stacked, over the latency of those
// that were answered, with the steps as lines across both.

import type { Event, Timeline } from '../documents';
import { s } from '../dom';
import { makeAxis, type Axis } from './axis';
import { css } from './draw';
import { DASHES } from './lines';
import { textWidth } from './text';

/** Draws a value. */
export function timeline(o: Timeline, width: number): SVGSVGElement {
  const margin = { left: 52, right: 18 };
  const [left, right] = [margin.left, width - margin.right];
  const x = makeAxis(o.x, [], [left, right], 72);
  const labels = eventLabels(o.events ?? [], x, width);
  const top = 14 + labels.rows * 16;
  const [counted, gap, measured] = [150, 46, 190];
  const height = top + counted + gap + measured + 46;
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'plot timeline' });

  const all = o.counts.all ?? [];
  const upper = makeAxis(o.counts.y, [0, ...all], [top + counted, top], 36);
  svg.append(frame(x, upper, left, right, top, top + counted, false));
  const bars = s('g', { class: 'marks' });
  const step = x.at(o.step) - x.at(0);
  all.forEach((n, i) => {
    const at = x.at(i * o.step);
    if (n > 0) bars.append(s('rect', { class: 'due', x: at, width: Math.max(0.5, step), y: upper.at(n), height: Math.max(0, upper.at(0) - upper.at(n)) }));
    let sum = 0;
    for (const kind of o.counts.kinds ?? []) {
      const v = kind.values?.[i] ?? 0;
      if (v === 0) continue;
      const [low, high] = [upper.at(sum), upper.at(sum + v)];
      sum += v;
      bars.append(s('rect', { style: `fill:${css(kind.color)}`, x: at, width: Math.max(1, step), y: high, height: Math.max(1.5, low - high) }, s('title', {}, kind.texts?.[i])));
    }
  });
  svg.append(bars);

  const from = top + counted + gap;
  const curves = o.curves ?? [];
  const lower = makeAxis(o.y, curves.flatMap((c) => (c.values ?? []).filter((v) => v > 0)), [from + measured, from], 40);
  svg.append(frame(x, lower, left, right, from, from + measured, true));
  for (const { values, look, dots } of curves) {
    const dash = look.dash ?? 0;
    if (dots) {
      const marks = s('g', { style: `fill:${css(look.color)}` });
      (values ?? []).forEach((v, i) => { if (v > 0) marks.append(s('circle', { cx: x.at((i + 0.5) * o.step), cy: lower.at(v), r: 1.3 })); });
      svg.append(marks);
    } else {
      svg.append(s('path', { class: dash === 0 ? 'line strong' : 'line', 'stroke-dasharray': DASHES[dash % DASHES.length] ?? '', style: `color:${css(look.color)}`, d: path(values ?? [], o.step, x, lower) }));
    }
  }
  svg.append(labels.draw(top, from + measured));
  return svg;
}

/** A line that is broken where there is no value. */
function path(values: readonly number[], step: number, x: Axis, y: Axis): string {
  let open = false;
  return values.map((v, i) => {
    if (v <= 0) {
      open = false;
      return '';
    }
    const part = `${open ? 'L' : 'M'}${x.at((i + 0.5) * step).toFixed(1)},${y.at(v).toFixed(1)}`;
    open = true;
    return part;
  }).join('');
}

function frame(x: Axis, y: Axis, left: number, right: number, top: number, bottom: number, last: boolean): SVGGElement {
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
  g.append(s('text', { class: 'title', x: 4, y: top - 8 }, y.title));
  if (last) g.append(s('text', { class: 'title', x: right, y: bottom + 36, 'text-anchor': 'end' }, x.title));
  return g;
}

/** Events as bands and lines, their names in as many rows as they need. */
function eventLabels(events: readonly Event[], x: Axis, width: number) {
  const ends: number[] = [];
  const placed = events.map((one) => {
    const long = textWidth(one.name, 12) + 10;
    const from = Math.max(0, Math.min(x.at(one.begin) + 4, width - long));
    let row = ends.findIndex((end) => end <= from);
    if (row < 0) row = ends.length;
    ends[row] = from + long;
    return { one, row, from };
  });
  return {
    rows: Math.max(1, ends.length) + 1,
    draw: (top: number, bottom: number): SVGGElement => {
      const g = s('g', { class: 'steps' });
      for (const { one, row, from } of placed) {
        const begin = x.at(one.begin);
        const y = 12 + row * 16;
        const end = one.end ?? 0;
        if (end > 0) g.append(s('rect', { class: 'band', x: begin, width: Math.max(1, x.at(end) - begin), y: top, height: bottom - top }));
        g.append(s('line', { class: 'step', x1: begin, x2: begin, y1: y - 9, y2: bottom }));
        if (end > 0) g.append(s('line', { class: 'step end', x1: x.at(end), x2: x.at(end), y1: top, y2: bottom }));
        g.append(s('text', { class: one.bad ? 'name bad' : 'name', x: from, y }, one.name, s('title', {}, one.text)));
      }
      return g;
    },
  };
}
