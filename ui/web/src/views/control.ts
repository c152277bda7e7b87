// What the views of a control-plane study share: the cells that have its
// figures, and how stacked bars are coloured and explained.

import type { Piece } from '../chart/bars';
import type { CellSummary, ControlSummary } from '../documents';
import { h } from '../dom';
import { value, type Scale } from '../format';

export interface Controlled {
  readonly cell: CellSummary;
  readonly control: ControlSummary;
}

export const controlled = (cells: readonly CellSummary[]): Controlled[] => cells.flatMap((cell) => (cell.control && cell.valid > 0 ? [{ cell, control: cell.control }] : []));

/** The pieces of a bar, one for each name that has something. */
export function pieces(names: readonly string[], of: (name: string) => number, scale: Scale, words: (name: string) => string): Piece[] {
  return names.map((name, i) => ({ color: color(i), value: Math.max(0, of(name)) / scale.div, hatched: false, says: `${words(name)}: ${value(scale, of(name))}` })).filter((p) => p.value > 0);
}

/** Series 6 is much like series 1, and comes last. */
const ORDER = [0, 1, 2, 3, 4, 5, 7, 8, 6];

const color = (i: number): string => `var(--series-${ORDER[i % ORDER.length] ?? 0})`;

/** What the colours of stacked bars mean, and what is hatched, if anything. */
export function keys(names: readonly string[], words: (name: string) => string, mark?: string, hatched?: string): HTMLElement {
  return h('div', { class: 'legend' }, h('ul', {},
    names.map((name, i) => h('li', {}, h('span', { class: 'box', style: `background:${color(i)}`, 'aria-hidden': 'true' }), words(name))),
    hatched !== undefined && h('li', {}, h('span', { class: 'box kernel', 'aria-hidden': 'true' }), hatched),
    mark !== undefined && h('li', {}, h('span', { class: 'tickmark', 'aria-hidden': 'true' }), mark),
  ));
}
