// Stacked horizontal bars, a row a cell. The second half of a part (kernel
// time) is hatched, so that parts keep their colour.

import { s, uniqueId } from '../dom';
import { airy, makeAxis } from './axis';
import { figure, type Chart } from './figure';
import { grid } from './line';

export interface Piece {
  readonly color: string;
  readonly value: number;
  readonly hatched: boolean;
  readonly says: string;
}

export interface BarRow {
  readonly label: string;
  readonly says: string;
  readonly pieces: readonly Piece[];
  /** A mark beyond the stack, with its interval: the whole machine. */
  readonly mark?: { readonly value: number; readonly low: number; readonly high: number; readonly says: string };
}

export interface BarOptions {
  readonly name: string;
  readonly title: string;
  readonly rows: readonly BarRow[];
  readonly format: (v: number) => string;
}

export function bars(o: BarOptions): Chart {
  return figure({ name: o.name, draw: (width) => draw(o, width) });
}

function draw(o: BarOptions, width: number): SVGSVGElement {
  const dense = o.rows.length > 14;
  const step = dense ? 34 : 48;
  const thick = dense ? 12 : 20;
  const height = 12 + o.rows.length * step + 46;
  const inner = { width, left: 0, right: width - 14, top: 6, bottom: height - 46 };
  const totals = o.rows.map((row) => row.pieces.reduce((sum, p) => sum + p.value, 0));
  const x = makeAxis({ kind: 'linear', title: o.title, domain: airy([0, ...totals, ...o.rows.map((r) => r.mark?.high ?? 0)], 'linear', true), format: o.format }, [inner.left + 1, inner.right], 84);
  const hatch = uniqueId('hatch');
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'plot' });
  svg.append(s('defs', {}, s('pattern', { id: hatch, width: 5, height: 5, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, s('rect', { class: 'hatch', width: 2, height: 5 }))));
  svg.append(grid(x, null, inner));
  const marks = s('g', { class: 'marks' });
  o.rows.forEach((row, i) => {
    const top = inner.top + i * step;
    const y = top + 19;
    let sum = 0;
    for (const piece of row.pieces) {
      const [from, to] = [x.at(sum), x.at(sum + piece.value)];
      sum += piece.value;
      const bar = s('rect', { class: 'bar', style: `fill:${piece.color}`, x: from, width: Math.max(0, to - from), y, height: thick }, s('title', {}, piece.says));
      marks.append(bar);
      if (piece.hatched) marks.append(s('rect', { fill: `url(#${hatch})`, x: from, width: Math.max(0, to - from), y, height: thick, 'pointer-events': 'none' }));
    }
    if (row.mark) {
      const at = x.at(row.mark.value);
      const middle = y + thick / 2;
      marks.append(s('path', { class: 'machine', d: `M${at},${y - 2}v${thick + 4}M${x.at(row.mark.low)},${middle}H${x.at(row.mark.high)}` }, s('title', {}, row.mark.says)));
    }
    marks.append(s('text', { class: 'name', x: inner.left, y: top + 13 }, row.label));
    marks.append(s('text', { class: 'figure', x: inner.right, y: top + 13, 'text-anchor': 'end' }, row.says));
  });
  svg.append(marks);
  return svg;
}
