// Estimates with intervals, a row each, against a shared axis: what an
// epidemiologist calls a forest plot. The noise floor is a band around zero.

import type { Intervals } from '../documents';
import { s } from '../dom';
import { makeAxis } from './axis';
import { css } from './draw';
import { grid, marker } from './lines';
import { textWidth } from './text';

const ROW = 46;
const LINE = 17;

/** Draws the rows of a value. */
export function intervals(o: Intervals, width: number): SVGSVGElement {
  const all = o.rows ?? [];
  // Where a row's name and figure have no room side by side, they stand on
  // two lines.
  const crowded = all.some((row) => textWidth(row.label, 13) + textWidth(row.text, 13) + 20 > width);
  const step = crowded ? ROW + LINE : ROW;
  const height = 14 + all.length * step + 46;
  const inner = { width, left: 0, right: width - 2, top: 8, bottom: height - 46 };
  const values = all.flatMap((r) => [...(r.empty ? [] : [r.estimate, r.low, r.high]), ...(r.mark === undefined ? [] : [r.mark])]);
  const x = makeAxis({ ...o.x, zero: true }, values, [inner.left + 10, inner.right - 10], 84);
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'plot' });
  svg.append(grid(x, null, inner));
  if (x.domain[0] <= 0 && x.domain[1] >= 0) {
    svg.append(s('line', { class: 'base', x1: x.at(0), x2: x.at(0), y1: inner.top, y2: inner.bottom }));
  }
  const marks = s('g', { class: 'marks' });
  all.forEach((row, i) => {
    const top = inner.top + i * step;
    const y = top + step - 15;
    const g = s('g', { class: 'row', style: `color:${css(row.look.color)}` });
    if (row.noise !== undefined && !row.empty) {
      const [a, b] = [x.at(Math.max(x.domain[0], -row.noise)), x.at(Math.min(x.domain[1], row.noise))];
      g.append(s('rect', { class: 'noise', x: a, width: Math.max(1, b - a), y: y - 10, height: 20 }));
    }
    const [low, high] = [x.at(row.low), x.at(row.high)];
    if (row.high > row.low && !row.empty) g.append(s('path', { class: 'whisker', d: `M${low},${y}H${high}m0,-5v10M${low},${y - 5}v10` }));
    if (!row.empty) g.append(marker(row.look.dash ?? 0, x.at(row.estimate), y, row.hollow ?? false));
    if (row.mark !== undefined) g.append(s('path', { class: 'published', d: `M${x.at(row.mark)},${y - 9}v18` }));
    g.append(s('text', { class: 'name', x: inner.left, y: top + 14 }, row.label));
    g.append(s('text', crowded ? { class: 'figure', x: inner.left, y: top + 14 + LINE } : { class: 'figure', x: inner.right, y: top + 14, 'text-anchor': 'end' }, row.text));
    marks.append(g);
  });
  svg.append(marks);
  return svg;
}
