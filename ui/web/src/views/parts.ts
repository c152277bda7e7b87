// What views are made of: sections, tables, switches, legends.

import type { Chart } from '../chart/figure';
import { swatch } from '../chart/line';
import type { CellSummary } from '../documents';
import { append, h, uniqueId, type Child } from '../dom';
import { factorWords, level, levelWords, type Model, type Selection } from '../model';

/** A part of the page that follows the selection of cells. */
export interface View {
  readonly element: HTMLElement;
  readonly update: (selection: Selection) => void;
}

/** A section of the page with a heading; what follows is its content. */
export function section(id: string, title: string, ...content: Child[]): HTMLElement {
  return h('section', { id, 'aria-labelledby': `${id}-title` }, h('h2', { id: `${id}-title` }, title), content);
}

/** Content that is built again whenever the selection or a switch changes. */
export class Live {
  readonly element = h('div', { class: 'live' });
  private charts: Chart[] = [];
  private selection: Selection | undefined;

  constructor(private readonly build: (selection: Selection, chart: (c: Chart) => HTMLElement) => Child[]) {}

  readonly update = (selection: Selection): void => {
    this.selection = selection;
    this.again();
  };

  readonly again = (): void => {
    if (!this.selection) return;
    for (const chart of this.charts) chart.end();
    this.charts = [];
    const nodes = this.build(this.selection, (chart) => {
      this.charts.push(chart);
      return chart.element;
    });
    this.element.replaceChildren();
    append(this.element, nodes);
  };
}

export interface Column {
  readonly head: string;
  readonly number?: boolean;
  /** Sentences: the column stays wide enough to read them. */
  readonly prose?: boolean;
}

export type CellText = string | { readonly text: string; readonly tone?: 'dim' | 'bad' | 'good' | 'strong'; readonly note?: string };

/** A table with a caption; rows start with a heading. */
export function table(caption: string, columns: readonly Column[], rows: readonly (readonly CellText[])[]): HTMLElement {
  return h(
    'div',
    { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0 },
    h(
      'table',
      { class: 'data' },
      h('caption', {}, caption),
      h('thead', {}, h('tr', {}, columns.map((c) => h('th', { scope: 'col', class: c.number ? 'number' : null }, c.head)))),
      h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, i) => tableCell(cell, columns[i], i === 0))))),
    ),
  );
}

function tableCell(cell: CellText, column: Column | undefined, first: boolean): HTMLElement {
  const c = typeof cell === 'string' ? { text: cell } : cell;
  const classes = [column?.number ? 'number' : '', column?.prose ? 'prose' : '', c.tone ?? ''].filter(Boolean).join(' ');
  return h(first ? 'th' : 'td', { scope: first ? 'row' : null, class: classes || null }, c.text, c.note !== undefined && h('span', { class: 'note' }, c.note));
}

/** A table behind a chart, folded away until asked for. */
export function folded(summary: string, ...content: Child[]): HTMLElement {
  return h('details', { class: 'numbers' }, h('summary', {}, summary), content);
}

/** One choice of a few, as a row of buttons that are radio buttons. */
export function choice(legend: string, options: readonly { readonly id: string; readonly text: string }[], initial: string, chosen: (id: string) => void): HTMLElement {
  const name = uniqueId('choice');
  return h(
    'fieldset',
    { class: 'choice' },
    h('legend', {}, legend),
    options.map((option) => {
      const input = h('input', { type: 'radio', name, value: option.id, checked: option.id === initial });
      input.addEventListener('change', () => {
        chosen(option.id);
      });
      return h('label', {}, input, h('span', {}, option.text));
    }),
  );
}

/** A single switch. */
export function toggle(text: string, initial: boolean, changed: (on: boolean) => void): HTMLElement {
  const input = h('input', { type: 'checkbox', checked: initial });
  input.addEventListener('change', () => {
    changed(input.checked);
  });
  return h('label', { class: 'toggle' }, input, h('span', {}, text));
}

/** How the levels shown are told apart: colours, then dashes. */
export function legend(model: Model, shown: readonly CellSummary[], markers = false): HTMLElement {
  const group = (factor: Model['colorFactor'], look: (l: string) => { color: string; dash: number }): Child => {
    if (!factor || factor.levels.length < 2) return null;
    const levels = factor.levels.filter((l) => shown.some((c) => level(c.cell, factor.factor) === l));
    return h('ul', {}, levels.map((l) => h('li', {}, swatch(look(l), markers), levelWords(factor, l))));
  };
  const { colorFactor, dashFactor } = model;
  return h(
    'div',
    { class: 'legend' },
    group(colorFactor, (l) => ({ ...model.look(colorFactor ? { [colorFactor.factor]: l } : {}), dash: 0 })),
    group(dashFactor, (l) => ({ color: 'var(--ink-2)', dash: model.look(dashFactor ? { [dashFactor.factor]: l } : {}).dash })),
  );
}

/** Each warning once, as a list; nothing if there are none. */
export function notes(warnings: readonly string[]): HTMLElement | null {
  const once = [...new Set(warnings)];
  return once.length === 0 ? null : h('ul', { class: 'warnings', 'aria-label': 'Warnings' }, once.map((w) => h('li', {}, w)));
}

/** Shared choice of one level of the numeric factor, for charts without an axis for it. */
export class Slice {
  level: string;
  private readonly listeners: (() => void)[] = [];

  constructor(readonly model: Model) {
    const levels = model.numeric?.levels ?? [];
    this.level = levels[Math.floor(levels.length / 2)] ?? '';
  }

  /** A switch for the level; null if there is nothing to choose. */
  control(changed: () => void): HTMLElement | null {
    const numeric = this.model.numeric;
    if (!numeric || numeric.levels.length < 2) return null;
    const element = choice(
      factorWords(numeric.factor),
      numeric.levels.map((l) => ({ id: l, text: l })),
      this.level,
      (l) => {
        this.level = l;
        for (const listener of this.listeners) listener();
      },
    );
    this.listeners.push(() => {
      for (const input of element.querySelectorAll('input')) input.checked = input.value === this.level;
      changed();
    });
    return element;
  }

  /** The selected cells at this level. */
  cells(selection: Selection): CellSummary[] {
    const numeric = this.model.numeric;
    const all = this.model.selected(selection);
    if (!numeric || numeric.levels.length < 2) return all;
    return all.filter((c) => level(c.cell, numeric.factor) === this.level);
  }
}

export const nothing = (): HTMLElement => h('p', { class: 'empty' }, 'No selected cell has these figures.');
