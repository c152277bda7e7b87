// Stacked horizontal bars, a row a cell. The second half of a part (kernel
// time) is hatched, so that parts keep their colour.

import type { Bars } from '../documents';
import { s, uniqueId } from '../dom';
import { makeAxis } from './axis';
import { css } from './draw';
import { grid } from './lines';

/** Draws the stacks of a value. */
export function bars(o: Bars, width: number): SVGSVGElement {
  const rows = o.rows ?? [];
  const dense = rows.length > 14;
  const step = dense ? 34 : 48;
  const thick = dense ? 12 : 20;
  const height = 12 + rows.length * step + 46;
  const inner = { width, left: 0, right: width - 14, top: 6, bottom: height - 46 };
  const totals = rows.map((row) => (row.pieces ?? []).reduce((sum, p) => sum + p.value, 0));
  const x = makeAxis({ ...o.x, zero: true }, [0, ...totals, ...rows.map((r) => r.mark?.high ?? 0)], [inner.left + 1, inner.right], 84);
  const hatch = uniqueId('hatch');
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'plot' });
  svg.append(s('defs', {}, s('pattern', { id: hatch, width: 5, height: 5, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, s('rect', { class: 'hatch', width: 2, height: 5 }))));
  svg.append(grid(x, null, inner));
  const marks = s('g', { class: 'marks' });
  rows.forEach((row, i) => {
    const top = inner.top + i * step;
    const y = top + 19;
    let sum = 0;
    for (const piece of row.pieces ?? []) {
      const [from, to] = [x.at(sum), x.at(sum + piece.value)];
      sum += piece.value;
      const bar = s('rect', { class: 'bar', style: `fill:${css(piece.color)}`, x: from, width: Math.max(0, to - from), y, height: thick }, s('title', {}, piece.text));
      marks.append(bar);
      if (piece.hatched) marks.append(s('rect', { fill: `url(#${hatch})`, x: from, width: Math.max(0, to - from), y, height: thick, 'pointer-events': 'none' }));
    }
    if (row.mark) {
      const at = x.at(row.mark.value);
      const middle = y + thick / 2;
      marks.append(s('path', { class: 'machine', d: `M${at},${y - 2}v${thick + 4}M${x.at(row.mark.low)},${middle}H${x.at(row.mark.high)}` }, s('title', {}, row.mark.text)));
    }
    marks.append(s('text', { class: 'name', x: inner.left, y: top + 13 }, row.label));
    marks.append(s('text', { class: 'figure', x: inner.right, y: top + 13, 'text-anchor': 'end' }, row.text));
  });
  svg.append(marks);
  return svg;
}
