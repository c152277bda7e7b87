// Each kind of chart by the function that draws it.

import type { Cell, Chart, Key } from '../documents';
import { h, type Child } from '../dom';
import { profile } from '../flame';
import { bars } from './bars';
import { figure, type Chart as Drawn } from './figure';
import { graph } from './graph';
import { heatmap } from './heatmap';
import { intervals } from './intervals';
import { lines, swatch } from './lines';
import { scatter } from './scatter';
import { timeline } from './timeline';

export interface Figure {
  readonly element: HTMLElement;
  readonly charts: readonly Drawn[];
}

/** Says which cells are shown. */
export interface Shown {
  has: (cell: Cell | null | undefined) => boolean;
}

/** A chart with its legend, without the cells that are not shown; null if nothing is left of it. */
export function drawn(c: Chart, shown: Shown): Figure | null {
  const of = <T extends { readonly cell?: Cell }>(all: readonly T[] | null): T[] => (all ?? []).filter((one) => shown.has(one.cell));
  if (c.flame) return { element: profile(c.flame), charts: [] };
  let draw: ((width: number) => SVGSVGElement) | undefined;
  const keys: Child[] = (c.legend ?? []).map(legendEntry);
  if (c.lines) {
    const { lines: value } = c;
    const series = of(value.series);
    if (series.length > 1) keys.unshift(...series.map((one) => h('li', {}, swatch(one.look, value.markers),
      one.label)));
    if (series.some((one) => (one.points ?? []).length > 0)) draw = (width) => lines({ ...value, series }, width);
  } else if (c.intervals) {
    const value = { ...c.intervals, rows: of(c.intervals.rows) };
    if (value.rows.length > 0) draw = (width) => intervals(value, width);
  } else if (c.bars) {
    const value = { ...c.bars, rows: of(c.bars.rows) };
    if (value.rows.length > 0) draw = (width) => bars(value, width);
  } else if (c.timeline) {
    const value = c.timeline;
    keys.push(...(value.curves ?? []).map((one) => h('li', {}, swatch(one.look), one.label)));
    draw = (width) => timeline(value, width);
  } else if (c.scatter) {
    const value = c.scatter;
    draw = (width) => scatter(value, width);
  } else if (c.heatmap) {
    const value = c.heatmap;
    draw = (width) => heatmap(value, width);
  } else if (c.graph) {
    const value = c.graph;
    draw = (width) => graph(value, width);
  }
  if (!draw) return null;
  const chart = figure({ name: c.name, draw });
  return { element: h('div', {}, keys.length > 0 && h('div', { class: 'legend' }, h('ul', {}, keys)), chart.element),
    charts: [chart] };
}

/** A colour of the style sheet. */
export const css = (color: string): string => `var(--${color})`;

const SHAPES: Readonly<Record<string, string>> = { hatched: 'box kernel', mark: 'tickmark', band: 'noise-key' };

function legendEntry(key: Key): HTMLElement {
  return h('li', {}, h('span', { class: SHAPES[key.shape ?? ''] ?? 'box',
    style: key.color === undefined ? null : `background:${css(key.color)}`, 'aria-hidden': 'true' }), key.text);
}
