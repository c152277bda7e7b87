// A report as a page: its head, the switches that choose cells, and sections of
// charts and tables. What sections there are, the document says.

import { drawn } from './chart/draw';
import type { Chart as Drawn } from './chart/figure';
import type { Cell, Chart, Page, PageFactor, PageSection, Table } from './documents';
import { append, h, uniqueId, type Child } from './dom';

/** Draws a report into root. */
export function show(root: HTMLElement, page: Page): void {
  new Report(root).draw(page);
}

/**
 * A report in root. Drawn again with a newer document it replaces only what has changed, and
 * leaves the reader's choices, open details, focus and place on the page as they are.
 */
export class Report {
  private readonly sections = new Map<string, Section>();
  private readonly main = h('main', { id: 'main', tabindex: -1 });
  private readonly parts = new Map<string, { readonly text: string; readonly element: Node | null }>();
  private selection: Selection | undefined;

  /** What is given as well stands between its head and its sections. */
  constructor(private readonly root: HTMLElement, private readonly between?: HTMLElement) {
    root.replaceChildren();
    append(root, [h('a', { class: 'skip', href: '#main' }, 'Skip to the charts'), between, this.main]);
  }

  draw(page: Page): void {
    keepingPlace(this.root, () => {
      this.redraw(page);
    });
  }

  private redraw(page: Page): void {
    const { sections, study: yaml, footer } = page;
    const top = { ...page, sections: null, study: '', footer: '', live: null };
    this.part('head', top, this.root, this.parts.get('control')?.element ?? this.between ?? this.main, () => head(page));
    this.part('control', [page.factors, page.cells], this.root, this.between ?? this.main, () => {
      this.selection = new Selection(page, this.selection);
      return this.selection.control(() => {
        for (const one of this.sections.values()) if (this.selection) one.draw(this.selection);
      });
    });
    const selection = this.selection ?? new Selection(page);
    const gone = new Set(this.sections.keys());
    let next = this.main.firstChild;
    for (const given of sections ?? []) {
      gone.delete(given.name);
      const old = this.sections.get(given.name);
      const same = old?.is(given, page.cells) ?? false;
      const one = old && same ? old : new Section(given, page.cells, old);
      if (old && !same) {
        if (next === old.element) next = old.element.nextSibling;
        old.end();
      }
      this.sections.set(given.name, one);
      if (next === one.element) next = one.element.nextSibling;
      else this.main.insertBefore(one.element, next);
      if (one !== old) one.draw(selection);
    }
    for (const name of gone) {
      this.sections.get(name)?.end();
      this.sections.delete(name);
    }
    this.part('study', yaml, this.main, null, () => study(yaml));
    this.part('footer', footer, this.root, null, () => h('footer', {}, footer));
  }

  /** Makes a part anew if what it draws has changed, before a sibling or at the end of its parent. */
  private part(name: string, of: unknown, parent: Node, before: Node | null, make: () => HTMLElement | null): void {
    const text = JSON.stringify(of);
    const old = this.parts.get(name);
    if (old?.text === text) return;
    const element = make();
    if (old?.element) parent.removeChild(old.element);
    if (element) parent.insertBefore(element, before);
    this.parts.set(name, { text, element });
  }
}

const PLACES = 'a[href], button, input, select, summary, [tabindex]';

/** The part of the page that an element is in, by the id of its section. */
const within = (root: Element, e: Element): Element => e.closest('section') ?? root;

/** Has a change leave open details, focus and scrolling as they are, by the places of elements in their sections. */
function keepingPlace(root: HTMLElement, change: () => void): void {
  const list = (selector: string): Map<string, Element> => {
    const counted = new Map<Element, number>();
    return new Map([...root.querySelectorAll(selector)].map((e) => {
      const part = within(root, e);
      const n = counted.get(part) ?? 0;
      counted.set(part, n + 1);
      return [`${part === root ? '' : part.id}/${n}`, e];
    }));
  };
  const open = [...list('details')].filter(([, e]) => e instanceof HTMLDetailsElement && e.open).map(([key]) => key);
  const focused = [...list(PLACES)].find(([, e]) => e === document.activeElement)?.[0];
  const anchor = [...root.querySelectorAll('section')].find((e) => e.getBoundingClientRect().bottom > 0);
  const top = anchor?.getBoundingClientRect().top ?? 0;
  const scrolled = window.scrollY > 0;
  change();
  const details = list('details');
  for (const key of open) details.get(key)?.setAttribute('open', '');
  const element = focused === undefined ? undefined : list(PLACES).get(focused);
  if (element instanceof HTMLElement && element !== document.activeElement) element.focus({ preventScroll: true });
  const now = anchor && root.querySelector(`#${CSS.escape(anchor.id)}`);
  if (now && scrolled) window.scrollBy({ top: now.getBoundingClientRect().top - top, behavior: 'instant' });
}

/** Warnings shown before the rest is folded away. */
const MOST = 5;

function head(page: Page): HTMLElement {
  const [headline, ...more] = page.answers ?? [];
  const paragraphs = page.story.split(/\r?\n\s*\n/).map((p) => p.trim()).filter((p) => p !== '');
  const warnings = page.warnings ?? [];
  const list = (some: readonly string[]): HTMLElement => h('ul', {}, some.map((w) => h('li', {}, w)));
  return h(
    'header',
    { class: 'head' },
    h('p', { class: 'brand' }, h('span', { class: 'mark', 'aria-hidden': 'true' }), 'meshtrial',
      h('span', { class: 'study' }, page.title)),
    page.question !== '' && h('p', { class: 'question' }, page.question),
    h('h1', { class: (headline ?? '').length > 100 ? 'long' : null }, headline ?? page.title),
    more.length > 0 && h('ul', { class: 'answers' }, more.map((answer) => h('li', {}, answer))),
    (page.facts ?? []).length > 0 && h('dl', { class: 'facts' }, (page.facts ?? []).map((f) => h('div', {},
      h('dt', {}, f.name), h('dd', {}, f.text)))),
    (page.provisional ?? '') !== '' && h('p', { class: 'callout provisional' }, page.provisional),
    page.failed !== undefined && h('p', { class: 'callout bad' }, page.failed),
    warnings.length > 0 && h('div', { class: 'callout' }, h('p', {}, h('strong', {}, 'Keep in mind')),
      list(warnings.slice(0, MOST)),
      warnings.length > MOST && h('details', {}, h('summary', {}, `${warnings.length - MOST} more`),
        list(warnings.slice(MOST)))),
    paragraphs.length > 0 && h('details', { class: 'story' }, h('summary', {}, 'About this study'),
      paragraphs.map((p) => h('p', {}, p))),
  );
}

function study(yaml: string): HTMLElement | null {
  if (yaml.trim() === '') return null;
  return section('study', 'Study', folded('Resolved study, with all defaults',
    h('pre', { tabindex: 0, 'aria-label': 'Resolved study, YAML' }, h('code', {}, yaml))));
}

/** Which levels of the factors are shown. */
export class Selection {
  private readonly hidden = new Map<string, Set<string>>();
  private readonly factors: readonly PageFactor[];

  /** Levels that were hidden before stay so. */
  constructor(private readonly page: Page, before?: Selection) {
    this.factors = (page.factors ?? []).filter((f) => (f.levels ?? []).length > 1);
    for (const [factor, levels] of before?.hidden ?? []) this.hidden.set(factor, levels);
  }

  has(cell: Cell | null | undefined): boolean {
    return Object.entries(cell ?? {}).every(([factor, level]) => this.shows(factor, level));
  }

  shows(factor: string, level: string): boolean {
    return !this.hidden.get(factor)?.has(level);
  }

  /** A row of switches for each factor; nothing if none varies. */
  control(changed: () => void): HTMLElement | null {
    if (this.factors.length === 0) return null;
    const status = h('p', { class: 'status', role: 'status' });
    const cells = this.page.cells ?? [];
    const apply = (): void => {
      status.textContent = `${cells.filter((c) => this.has(c)).length} of ${cells.length} cells shown`;
      changed();
    };
    const inputs: HTMLInputElement[] = [];
    const groups = this.factors.map((factor) => h('fieldset', { class: 'chips' }, h('legend', {}, factor.name),
      (factor.levels ?? []).map((level) => {
      const input = h('input', { type: 'checkbox', checked: this.shows(factor.factor, level) });
      inputs.push(input);
      input.addEventListener('change', () => {
        const hidden = this.hidden.get(factor.factor) ?? new Set();
        this.hidden.set(factor.factor, hidden);
        if (input.checked) hidden.delete(level);
        else hidden.add(level);
        apply();
      });
      return h('label', {}, input, h('span', {}, level));
    })));
    const reset = h('button', { type: 'button' }, 'Show all');
    reset.addEventListener('click', () => {
      for (const input of inputs) input.checked = true;
      this.hidden.clear();
      apply();
    });
    status.textContent = `${cells.filter((c) => this.has(c)).length} of ${cells.length} cells shown`;
    return h('form', { class: 'filters', 'aria-label': 'Cells shown' }, groups,
      h('div', { class: 'summary' }, status, reset));
  }
}

/** Rows above which tables are folded away at first. */
const LONG = 24;

/** A section: its charts, of which switches show some, and its tables. */
class Section {
  readonly element: HTMLElement;
  private readonly body = h('div', { class: 'live' });
  private readonly charts: readonly Chart[];
  /** The choice made at each switch. */
  private readonly chosen = new Map<string, string>();
  private drawings: Drawn[] = [];
  private selection: Selection | undefined;
  private readonly text: string;

  /** Choices that were made in an older one of the name stay, where they are still there. */
  constructor(private readonly given: PageSection, cells: Page['cells'], before?: Section) {
    this.charts = given.charts ?? [];
    this.text = JSON.stringify([given, cells]);
    const offered = new Set(this.charts.flatMap((c) => (c.options ?? []).map((o) => JSON.stringify([o.switch, o.choice]))));
    for (const [name, value] of before?.chosen ?? []) if (offered.has(JSON.stringify([name, value]))) this.chosen.set(name, value);
    const first = this.charts.find((c) => c.initial) ?? this.charts[0];
    for (const { switch: name, choice: value } of [...(first?.options ?? []),
      ...this.charts.flatMap((c) => c.options ?? [])]) {
      if (!this.chosen.has(name)) this.chosen.set(name, value);
    }
    this.element = section(slug(given.name), given.title, (given.lead ?? '') !== '' &&
      h('p', { class: 'lead' }, given.lead), this.controls(), this.body);
  }

  /** Whether it draws these values. */
  is(given: PageSection, cells: Page['cells']): boolean {
    return this.text === JSON.stringify([given, cells]);
  }

  /** Takes it away. */
  end(): void {
    for (const one of this.drawings) one.end();
    this.element.remove();
  }

  draw(selection: Selection): void {
    this.selection = selection;
    for (const one of this.drawings) one.end();
    const shown = this.charts.filter((c) => (c.options ?? []).every((o) => this.chosen.get(o.switch) === o.choice));
    const panels = shown.map((c) => ({ chart: c, figure: drawn(c, selection) }));
    this.drawings = panels.flatMap(({ figure }) => figure?.charts ?? []);
    const tables = (this.given.tables ?? []).map((t) => table(t, selection));
    this.body.replaceChildren();
    append(this.body, [
      this.charts.length > 0 && panels.length === 0 && nothing(),
      h('div', { class: panels.length > 1 &&
        panels.every(({ chart }) => (chart.title ?? '') !== '') ? 'panels two' : 'panels' }, panels.map(({ chart,
        figure }) =>
        h('div', { class: 'panel' }, (chart.title ?? '') !== '' && h('h3', {}, chart.title),
          figure?.element ?? nothing()))),
      tables.length > 0 && (this.charts.length > 0 ||
        tables.some((t) => t.querySelectorAll('tr').length > LONG)) ? folded('As a table', tables) : tables,
    ]);
  }

  /** A choice for each switch that has several positions. */
  private controls(): HTMLElement | null {
    const names = [...this.chosen.keys()];
    const choices = names.map((name) => ({ name,
      values: [...new Set(this.charts.flatMap((c) => (c.options ?? []).filter((o) => o.switch === name).map((o) => o.choice)))] })).filter((c) => c.values.length > 1);
    if (choices.length === 0) return null;
    return h('div', { class: 'controls' }, choices.map(({ name, values }) => choice(name,
      values.map((v) => ({ id: v, text: v })), this.chosen.get(name) ?? '', (value) => {
      this.chosen.set(name, value);
      if (this.selection) this.draw(this.selection);
    })));
  }
}

const slug = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');

export const nothing = (): HTMLElement => h('p', { class: 'empty' }, 'No selected cell has these figures.');

/** A part of the page with a heading; what follows is its content. */
export function section(id: string, title: string, ...content: Child[]): HTMLElement {
  return h('section', { id, 'aria-labelledby': `${id}-title` }, h('h2', { id: `${id}-title` }, title), content);
}

/** Content that is folded away until asked for. */
export function folded(summary: string, ...content: Child[]): HTMLElement {
  return h('details', { class: 'numbers' }, h('summary', {}, summary), content);
}

/** Choices above which a list is shown in place of buttons. */
const BUTTONS = 8;

/** One choice of a few, as a row of buttons that are radio buttons; of many, as a list. */
export function choice(legend: string, options: readonly { readonly id: string; readonly text: string }[],
  initial: string, chosen: (id: string) => void): HTMLElement {
  if (options.length > BUTTONS) {
    const select = h('select', { id: uniqueId('choice') }, options.map((o) => h('option',
      { value: o.id, selected: o.id === initial }, o.text)));
    select.addEventListener('change', () => {
      chosen(select.value);
    });
    return h('label', { class: 'field', for: select.id }, h('span', {}, legend), select);
  }
  const name = uniqueId('choice');
  return h('fieldset', { class: 'choice' }, h('legend', {}, legend), options.map((option) => {
    const input = h('input', { type: 'radio', name, value: option.id, checked: option.id === initial });
    input.addEventListener('change', () => {
      chosen(option.id);
    });
    return h('label', {}, input, h('span', {}, option.text));
  }));
}

/** Letters from which on a column of texts stays wide enough to read them. */
const PROSE = 40;

/** A table without the rows of cells that are not shown. A factor's level that is left out is that of the row above. */
function table(given: Table, selection: Selection): HTMLElement {
  const columns = given.columns ?? [];
  let last = true;
  const rows = (given.rows ?? []).map((row) => row ?? []).filter((row) => {
    const levels = columns.flatMap((c, i) => (c.factor === undefined ? [] : [[c.factor,
      row[i]?.text ?? ''] as const]));
    if (levels.every(([, text]) => text === '')) return last;
    last = levels.every(([factor, text]) => selection.shows(factor, text));
    return last;
  });
  if (rows.length === 0) return nothing();
  const prose = columns.map((c, i) => !c.right && rows.some((row) => (row[i]?.text ?? '').length > PROSE));
  const classes = (i: number, style = ''): string | null => [columns[i]?.right ? 'number' : '',
    prose[i] ? 'prose' : '', style].filter(Boolean).join(' ') || null;
  return h('div', {},
    h('div', { class: 'scroll', role: 'region', 'aria-label': `Table: ${given.title}`, tabindex: 0 },
      h('table', { class: 'data' },
      h('caption', {}, given.title),
      h('thead', {}, h('tr', {}, columns.map((c, i) => (c.head === '' ? h('td') : h('th', { scope: 'col', class: classes(i) }, c.head))))),
      h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, i) => (i === 0 && cell.text !== ''
        ? h('th', { scope: 'row', class: classes(i, cell.style) }, cell.text)
        : h('td', { class: classes(i, cell.style) }, cell.text)))))))),
    (given.notes ?? []).map((note) => h('p', { class: 'key' }, note)),
    (given.texts ?? []).map((text) => [h('p', {}, text.name),
      h('pre', { tabindex: 0, 'aria-label': text.name }, h('code', {}, text.text))]));
}
