// A chart of lines or of points with intervals, with a reading line that
// follows the pointer or the arrow keys.

import { line as pathOf } from 'd3-shape';
import type { Lines, Look, Point, Series } from '../documents';
import { h, s, uniqueId } from '../dom';
import { makeAxis, type Axis } from './axis';
import { css } from './draw';
import { textWidth } from './text';

export const DASHES = ['', '7 4', '2 4', '10 4 2 4', '1 6'];

/** Draws the lines of a value. */
export function lines(o: Lines, width: number): SVGSVGElement {
  const all = o.series ?? [];
  const longest = Math.max(0, ...all.map((series) => textWidth(series.label, 12.5)));
  const labels = all.length > 1 && all.length <= 9 && longest < width * 0.22;
  const margin = { top: 30, right: labels ? longest + 22 : 18, bottom: 44, left: 52 };
  const height = Math.round(Math.min(400, Math.max(260, width * 0.45)));
  const inner = { width, left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
  const points = all.flatMap((series) => series.points ?? []);
  const x = makeAxis(o.x, points.map((p) => p.x), [inner.left, inner.right], 72);
  const y = makeAxis(o.y, points.flatMap((p) => [p.y, p.low ?? p.y, p.high ?? p.y]), [inner.bottom, inner.top], 44);

  const clip = uniqueId('clip');
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'plot' });
  svg.append(s('defs', {}, s('clipPath', { id: clip }, s('rect', { x: inner.left - 6, y: inner.top - 6, width: Math.max(0, inner.right - inner.left + 12), height: inner.bottom - inner.top + 12 }))));
  svg.append(grid(x, y, inner));
  const marks = s('g', { class: 'marks', 'clip-path': `url(#${clip})` });
  all.forEach((series, i) => {
    // Points of several series at one x stand side by side, not on top of one another.
    const aside = o.markers ? (i - (all.length - 1) / 2) * Math.min(7, 24 / all.length) : 0;
    marks.append(drawSeries(series, { ...x, at: (v) => x.at(v) + aside }, y, o.markers ?? false));
  });
  svg.append(marks);
  if (labels) svg.append(endLabels(all, x, y, inner));
  const reading = s('line', { class: 'reading', y1: inner.top, y2: inner.bottom, visibility: 'hidden' });
  svg.append(reading);
  follow(svg, reading, all, x, inner);
  return svg;
}

/** The rectangle that a chart draws its data in, and the width around it. */
interface Inner {
  readonly width: number;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** Grid lines, ticks and titles of both axes. */
export function grid(x: Axis, y: Axis | null, inner: Inner): SVGGElement {
  const g = s('g', { class: 'axes' });
  for (const tick of y?.marks ?? []) {
    const at = y?.at(tick.value) ?? 0;
    g.append(s('line', { class: tick.minor ? 'grid minor' : tick.value === 0 ? 'grid zero' : 'grid', x1: inner.left, x2: inner.right, y1: at, y2: at }));
    if (!tick.minor) g.append(s('text', { class: 'tick', x: inner.left - 8, y: at, dy: '0.32em', 'text-anchor': 'end' }, tick.text));
  }
  for (const tick of x.marks) {
    const at = x.at(tick.value);
    g.append(s('line', { class: tick.minor ? 'grid minor' : 'grid', x1: at, x2: at, y1: inner.top, y2: inner.bottom }));
    if (!tick.minor) {
      const half = textWidth(tick.text, 12) / 2;
      g.append(s('text', { class: 'tick', x: Math.max(half, Math.min(at, inner.width - half)), y: inner.bottom + 17, 'text-anchor': 'middle' }, tick.text));
    }
  }
  g.append(s('line', { class: 'base', x1: inner.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }));
  g.append(s('text', { class: 'title', x: inner.right, y: inner.bottom + 36, 'text-anchor': 'end' }, x.title));
  if (y) g.append(s('text', { class: 'title', x: 4, y: inner.top - 16 }, y.title));
  return g;
}

function drawSeries(series: Series, x: Axis, y: Axis, markers: boolean): SVGGElement {
  const g = s('g', { class: 'series', style: `color:${css(series.look.color)}` });
  const points = (series.points ?? []).filter((p) => y.scale !== 'log' || p.y > 0);
  const path = pathOf<Point>((p) => x.at(p.x), (p) => y.at(p.y));
  const floor = y.domain[0];
  for (const p of points) {
    if (p.low === undefined || p.high === undefined) continue;
    const [low, high] = [y.at(y.scale === 'log' ? Math.max(p.low, floor) : p.low), y.at(p.high)];
    g.append(s('path', { class: 'whisker', d: `M${x.at(p.x)},${low}V${high}m-4,0h8M${x.at(p.x) - 4},${low}h8` }));
  }
  g.append(s('path', { class: dashOf(series.look) === 0 ? 'line strong' : 'line', d: path(points) ?? '', 'stroke-dasharray': DASHES[dashOf(series.look) % DASHES.length] ?? '' }));
  if (markers) for (const p of points) g.append(marker(dashOf(series.look), x.at(p.x), y.at(p.y), p.hollow ?? false));
  return g;
}

/** A marker: circle, square, triangle or diamond. */
export function marker(shape: number, x: number, y: number, hollow: boolean): SVGPathElement {
  const r = 4;
  const shapes = [
    `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`,
    `M${x - r + 0.5},${y - r + 0.5}h${2 * r - 1}v${2 * r - 1}h${1 - 2 * r}Z`,
    `M${x},${y - r - 0.5}L${x + r + 0.5},${y + r - 0.5}H${x - r - 0.5}Z`,
    `M${x},${y - r - 1}L${x + r + 1},${y}L${x},${y + r + 1}L${x - r - 1},${y}Z`,
  ];
  return s('path', { class: hollow ? 'marker hollow' : 'marker', d: shapes[shape % shapes.length] ?? '' });
}

/** Names at the right end of the lines, moved apart where they would touch. */
function endLabels(series: readonly Series[], x: Axis, y: Axis, inner: Inner): SVGGElement {
  const g = s('g', { class: 'labels', 'aria-hidden': 'true' });
  const ends = series
    .flatMap((one) => {
      const last = (one.points ?? []).at(-1);
      return last && Number.isFinite(y.at(last.y)) ? [{ one, from: [x.at(last.x), y.at(last.y)] as const, at: y.at(last.y) }] : [];
    })
    .sort((a, b) => a.at - b.at);
  const gap = 15;
  for (let i = 1; i < ends.length; i++) {
    const [above, below] = [ends[i - 1], ends[i]];
    if (above && below && below.at < above.at + gap) below.at = above.at + gap;
  }
  const last = ends.at(-1);
  if (last && last.at > inner.bottom) {
    last.at = inner.bottom;
    for (let i = ends.length - 2; i >= 0; i--) {
      const [above, below] = [ends[i], ends[i + 1]];
      if (above && below && above.at > below.at - gap) above.at = below.at - gap;
    }
  }
  for (const end of ends) {
    const left = inner.right + 14;
    if (Math.abs(end.at - end.from[1]) > 3) g.append(s('path', { class: 'leader', style: `color:${css(end.one.look.color)}`, d: `M${end.from[0] + 5},${end.from[1]}L${left - 3},${end.at}` }));
    g.append(s('text', { class: 'end', style: `fill:${css(end.one.look.color)}`, x: left, y: end.at, dy: '0.32em' }, end.one.label));
  }
  return g;
}

/** Shows the values at the x that the pointer or the arrow keys are nearest to. */
function follow(svg: SVGSVGElement, reading: SVGLineElement, all: readonly Series[], x: Axis, inner: Inner): void {
  const stops = [...new Set(all.flatMap((series) => (series.points ?? []).map((p) => p.x)))].sort((a, b) => a - b);
  if (stops.length === 0) return;
  const box = h('div', { class: 'readout', hidden: true });
  let at = -1;
  const show = (i: number): void => {
    const stop = stops[i];
    if (stop === undefined) return;
    at = i;
    const px = x.at(stop);
    reading.setAttribute('x1', String(px));
    reading.setAttribute('x2', String(px));
    reading.setAttribute('visibility', 'visible');
    const rows = all.flatMap((series) => {
      const p = (series.points ?? []).find((one) => one.x === stop);
      return p ? [{ series, p }] : [];
    }).sort((a, b) => b.p.y - a.p.y);
    box.replaceChildren(
      h('strong', {}, rows[0]?.p.at),
      h('table', {}, h('tbody', {}, rows.map(({ series, p }) =>
        h('tr', {}, h('td', {}, swatch(series.look)), h('th', { scope: 'row' }, series.label), h('td', { class: 'number' }, p.text))))),
    );
    const host = svg.parentElement;
    if (host && box.parentElement !== host) host.append(box);
    box.hidden = false;
    const scale = svg.getBoundingClientRect().width / Number(svg.getAttribute('width')) || 1;
    const room = host?.clientWidth ?? 0;
    const place = px * scale;
    const flip = place + box.offsetWidth + 24 > room;
    box.style.left = `${Math.max(0, flip ? place - box.offsetWidth - 14 : place + 14)}px`;
    box.style.top = `${inner.top}px`;
  };
  const hide = (): void => {
    at = -1;
    reading.setAttribute('visibility', 'hidden');
    box.hidden = true;
  };
  svg.addEventListener('pointermove', (event) => {
    const rect = svg.getBoundingClientRect();
    const px = ((event.clientX - rect.left) / rect.width) * Number(svg.getAttribute('width'));
    let best = 0;
    stops.forEach((stop, i) => {
      if (Math.abs(x.at(stop) - px) < Math.abs(x.at(stops[best] ?? 0) - px)) best = i;
    });
    show(best);
  });
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('reading-key', (event) => {
    const move = (event as CustomEvent<string>).detail;
    if (move === 'Escape') hide();
    else if (move === 'Home') show(0);
    else if (move === 'End') show(stops.length - 1);
    else if (move === 'ArrowRight') show(Math.min(stops.length - 1, at + 1));
    else show(at < 0 ? stops.length - 1 : Math.max(0, at - 1));
  });
}

const dashOf = (look: Look): number => look.dash ?? 0;

/** A short piece of a line as charts draw it, for legends. */
export function swatch(look: Look, withMarker = false): SVGSVGElement {
  return s(
    'svg',
    { class: 'swatch', width: 26, height: 10, viewBox: '0 0 26 10', 'aria-hidden': 'true', style: `color:${css(look.color)}` },
    s('path', { class: dashOf(look) === 0 ? 'line strong' : 'line', d: 'M1,5H25', 'stroke-dasharray': DASHES[dashOf(look) % DASHES.length] ?? '' }),
    withMarker && marker(dashOf(look), 13, 5, false),
  );
}
