// Counts by two measures as fields of a colour: the more, the stronger.

import type { Heatmap } from '../documents';
import { s } from '../dom';
import { makeAxis } from './axis';
import { grid } from './lines';

const HEIGHT = 300;

/** Draws the fields of a value; what counts nothing stays empty. */
export function heatmap(o: Heatmap, width: number): SVGSVGElement {
  const inner = { width, left: 64, right: width - 14, top: 34, bottom: HEIGHT - 46 };
  const [xs, ys, counts] = [o.x_edges ?? [], o.y_edges ?? [], o.counts ?? []];
  const edge = (edges: readonly number[]): [number, number] => [edges[0] ?? 0, edges.at(-1) ?? 1];
  const x = makeAxis({ ...o.x, range: edge(xs) }, xs, [inner.left, inner.right], 72);
  const y = makeAxis({ ...o.y, range: edge(ys) }, ys, [inner.bottom, inner.top], 40);
  const most = Math.max(1, ...counts.flatMap((row) => row ?? []));
  const svg = s('svg', { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: 'plot heatmap' });
  svg.append(grid(x, y, inner));
  const marks = s('g', { class: 'marks' });
  counts.forEach((row, i) => {
    (row ?? []).forEach((n, j) => {
      if (n === 0) return;
      const [left, right] = [x.at(xs[j] ?? 0), x.at(xs[j + 1] ?? 0)];
      const [bottom, top] = [y.at(ys[i] ?? 0), y.at(ys[i + 1] ?? 0)];
      // Counts spread over orders of magnitude: one request must show beside thousands.
      const strength = (1 + Math.log(n)) / (1 + Math.log(most));
      marks.append(s('rect', { class: 'heat', x: left, width: Math.max(0.5, right - left), y: top,
        height: Math.max(0.5, bottom - top), opacity: strength.toFixed(3) },
        s('title', {}, `${o.x_texts?.[j] ?? ''}, ${o.y_texts?.[i] ?? ''}: ${String(n)} ${o.what}`)));
    });
  });
  svg.append(marks);
  return svg;
}
