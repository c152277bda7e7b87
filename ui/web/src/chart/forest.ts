// Estimates with intervals, a row each, against a shared axis: what an
// epidemiologist calls a forest plot. The noise floor is a band around zero.

import { s } from '../dom';
import type { Scale } from '../format';
import { airy, makeAxis } from './axis';
import { figure, type Chart } from './figure';
import { grid, marker } from './line';
import { textWidth } from './text';

export interface ForestRow {
  readonly label: string;
  readonly color: string;
  readonly shape: number;
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
  /** Half width of the noise band in this row. */
  readonly noise?: number;
  /** Drawn hollow, with says in place of its figure. */
  readonly hollow: boolean;
  readonly says: string;
  /** No figure is told, so nothing is drawn: says stands alone. */
  readonly refused?: boolean;
  /** A second mark: a published figure. */
  readonly mark?: number;
}

export interface ForestOptions {
  readonly name: string;
  readonly title: string;
  readonly rows: readonly ForestRow[];
  readonly scale: Scale;
  readonly format: (v: number) => string;
  readonly kind?: 'linear' | 'log';
}

const ROW = 46;
const LINE = 17;

export function forest(o: ForestOptions): Chart {
  return figure({ name: o.name, draw: (width) => draw(o, width) });
}

function draw(o: ForestOptions, width: number): SVGSVGElement {
  // Where a row's name and figure have no room side by side, they stand on
  // two lines.
  const crowded = o.rows.some((row) => textWidth(row.label, 13) + textWidth(row.says, 13) + 20 > width);
  const step = crowded ? ROW + LINE : ROW;
  const height = 14 + o.rows.length * step + 46;
  const inner = { width, left: 0, right: width - 2, top: 8, bottom: height - 46 };
  const kind = o.kind ?? 'linear';
  const values = o.rows.flatMap((r) => [...(r.refused ? [] : [r.estimate, r.low, r.high]), ...(r.mark === undefined ? [] : [r.mark])]);
  const x = makeAxis({ kind, title: o.title, domain: airy(values, kind, true), format: o.format }, [inner.left + 10, inner.right - 10], 84);
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'plot' });
  svg.append(grid(x, null, inner));
  if (kind === 'linear' && x.domain[0] <= 0 && x.domain[1] >= 0) {
    svg.append(s('line', { class: 'base', x1: x.at(0), x2: x.at(0), y1: inner.top, y2: inner.bottom }));
  }
  const marks = s('g', { class: 'marks' });
  o.rows.forEach((row, i) => {
    const top = inner.top + i * step;
    const y = top + step - 15;
    const g = s('g', { class: 'row', style: `color:${row.color}` });
    if (row.noise !== undefined && kind === 'linear' && !row.refused) {
      const [a, b] = [x.at(Math.max(x.domain[0], -row.noise)), x.at(Math.min(x.domain[1], row.noise))];
      g.append(s('rect', { class: 'noise', x: a, width: Math.max(1, b - a), y: y - 10, height: 20 }));
    }
    const floor = x.domain[0];
    const [low, high] = [x.at(kind === 'log' ? Math.max(row.low, floor) : row.low), x.at(row.high)];
    if (row.high > row.low && !row.refused) g.append(s('path', { class: 'whisker', d: `M${low},${y}H${high}m0,-5v10M${low},${y - 5}v10` }));
    if (!row.refused) g.append(marker(row.shape, x.at(kind === 'log' ? Math.max(row.estimate, floor) : row.estimate), y, row.hollow));
    if (row.mark !== undefined) g.append(s('path', { class: 'published', d: `M${x.at(row.mark)},${y - 9}v18` }));
    g.append(s('text', { class: 'name', x: inner.left, y: top + 14 }, row.label));
    g.append(s('text', crowded ? { class: 'figure', x: inner.left, y: top + 14 + LINE } : { class: 'figure', x: inner.right, y: top + 14, 'text-anchor': 'end' }, row.says));
    marks.append(g);
  });
  svg.append(marks);
  return svg;
}
