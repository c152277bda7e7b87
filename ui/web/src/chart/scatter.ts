// Points in two measures, each with its intervals along both.

import { s } from '../dom';
import { airy, makeAxis, type AxisKind } from './axis';
import { figure, type Chart } from './figure';
import { grid, marker } from './line';

/** An estimate with its interval. */
export interface Span {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
}

export interface Dot {
  readonly x: Span;
  readonly y: Span;
  readonly color: string;
  readonly shape: number;
  readonly hollow: boolean;
  readonly says: string;
}

export interface ScatterAxis {
  readonly title: string;
  readonly format: (v: number) => string;
}

export interface ScatterOptions {
  readonly name: string;
  readonly x: ScatterAxis;
  readonly y: ScatterAxis;
  readonly dots: readonly Dot[];
}

const HEIGHT = 380;

export function scatter(o: ScatterOptions): Chart {
  return figure({ name: o.name, draw: (width) => draw(o, width) });
}

function draw(o: ScatterOptions, width: number): SVGSVGElement {
  const inner = { width, left: 64, right: width - 14, top: 34, bottom: HEIGHT - 46 };
  const axis = (of: ScatterAxis, spans: readonly Span[], range: readonly [number, number], room: number): ReturnType<typeof makeAxis> => {
    const values = spans.flatMap((v) => [v.estimate, v.low, v.high]);
    const kind: AxisKind = values.every((v) => v > 0) ? 'log' : 'linear';
    return makeAxis({ kind, title: of.title, domain: airy(values, kind), format: of.format }, range, room);
  };
  const x = axis(o.x, o.dots.map((d) => d.x), [inner.left + 6, inner.right - 6], 84);
  const y = axis(o.y, o.dots.map((d) => d.y), [inner.bottom - 6, inner.top + 6], 46);
  const svg = s('svg', { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: 'plot' });
  svg.append(grid(x, y, inner));
  const marks = s('g', { class: 'marks' });
  for (const dot of o.dots) {
    const [cx, cy] = [x.at(dot.x.estimate), y.at(dot.y.estimate)];
    const g = s('g', { class: 'row', style: `color:${dot.color}` }, s('title', {}, dot.says));
    g.append(s('path', { class: 'whisker', d: `M${x.at(dot.x.low)},${cy}H${x.at(dot.x.high)}M${cx},${y.at(dot.y.low)}V${y.at(dot.y.high)}` }));
    g.append(marker(dot.shape, cx, cy, dot.hollow));
    marks.append(g);
  }
  svg.append(marks);
  return svg;
}
