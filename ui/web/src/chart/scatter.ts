// Points in two measures, each with its intervals along both.

import type { Scatter } from '../documents';
import { s } from '../dom';
import { makeAxis } from './axis';
import { css } from './draw';
import { grid, marker } from './lines';

const HEIGHT = 380;

/** Draws the dots of a value. */
export function scatter(o: Scatter, width: number): SVGSVGElement {
  const inner = { width, left: 64, right: width - 14, top: 34, bottom: HEIGHT - 46 };
  const dots = o.dots ?? [];
  const x = makeAxis(o.x, dots.flatMap((d) => d.x), [inner.left + 6, inner.right - 6], 84);
  const y = makeAxis(o.y, dots.flatMap((d) => d.y), [inner.bottom - 6, inner.top + 6], 46);
  const svg = s('svg', { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: 'plot' });
  svg.append(grid(x, y, inner));
  const marks = s('g', { class: 'marks' });
  for (const dot of dots) {
    const [across, left, right] = dot.x.map(x.at);
    const [up, low, high] = dot.y.map(y.at);
    const g = s('g', { class: 'row', style: `color:${css(dot.look.color)}` }, s('title', {}, dot.text));
    g.append(s('path', { class: 'whisker', d: `M${left},${up}H${right}M${across},${low}V${high}` }));
    g.append(marker(dot.look.dash ?? 0, across ?? 0, up ?? 0, dot.hollow ?? false));
    marks.append(g);
  }
  svg.append(marks);
  return svg;
}
