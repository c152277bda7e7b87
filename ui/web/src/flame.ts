// A profile: its flame graph or icicle, and the tables beside it.

import { flame, THIN } from './chart/flame';
import { append, h, uniqueId, type Child } from './dom';
import { amount as weightText, count, fixed, plural } from './format';
import type { CentreCost, View } from './documents';
import { changes, found, frameModule, frameName, layout, matcher, tree, treeBefore, type Box, type Call, type Change, type Space } from './profile';
import { choice, folded, section } from './page';

const percent = (v: number): string => `${fixed(100 * v, v !== 0 && Math.abs(v) < 0.0995 ? 1 : 0)}%`;

/** A weight in the profile's unit. */
const amount = (view: View, weight: number): string => weightText(weight, view.unit);

const span = (share: number, low: number, high: number): string => `${fixed(100 * share, 1)}% (${fixed(100 * low, 1)}–${fixed(100 * high, 1)})`;

const points = (v: number): string => `${v > 0 ? '+' : ''}${fixed(100 * v, 1)}`;

/** All of a profile, as a section. */
export function profile(view: View, id: string): HTMLElement {
  return section(id, view.title,
    h('p', { class: 'lead' }, `${view.unit === 'samples' ? '' : `${amount(view, view.total)} in `}${plural(view.samples, 'sample')}.`,
      view.against ? ` Compared with ${view.against.title}: red grew, blue shrank, grey is not significant.` : ''),
    !view.enough && h('div', { class: 'callout' },
      h('p', {}, h('strong', {}, 'Symbols are missing. '), `Only ${percent(view.trust)} of user-space time has a function name, so the graph shows modules and kernel functions.`),
      h('ul', {}, (view.advice ?? []).map((a) => h('li', {}, a)))),
    picture(view),
    view.costs && view.kind === 'cpu' ? centres(view) : null,
    filters(view),
    changed(view),
    binaries(view),
    notes([...(view.notes ?? []), ...(view.against?.warnings ?? [])]));
}

/** The picture with its switches. */
function picture(view: View): HTMLElement {
  const state = { shape: 'flame', thread: -1, space: 'all' as Space, search: '', before: false };
  let zoom: Call[] = [];
  const all: ReadonlyMap<number, Change> | undefined = view.against ? changes(view.against) : undefined;
  const canvas = h('div', { class: 'flamebox', tabindex: 0 });
  const detail = h('p', { class: 'flamedetail', 'aria-live': 'polite' });
  const hits = h('span', { class: 'status', role: 'status' });
  const reset = h('button', { type: 'button', hidden: true }, 'show all again');

  const describe = (box: Box): string => {
    const c = box.call;
    const module = frameModule(view, c.frame);
    const change = c.path >= 0 ? all?.get(c.path) : undefined;
    const delta = change ? ` · ${percent(change.before)} before, ${percent(change.after)} after: ${points(change.after - change.before)} points (${points(change.low)} to ${points(change.high)})${change.after === 0 ? ', vanished' : change.before === 0 ? ', new' : ''}` : '';
    return `${frameName(view, c.frame)}${module === '' ? '' : ` (${module})`} · ${percent(c.total / view.total)} of all, ${percent(c.self / view.total)} itself · ${amount(view, c.total)}${delta}`;
  };
  const tell = (box: Box | undefined): void => {
    detail.textContent = box ? describe(box) : 'Point at a box to read it; click to zoom.';
  };
  const draw = (): void => {
    const top = zoom[zoom.length - 1];
    const match = matcher(state.search);
    canvas.replaceChildren();
    if (!top || top.total <= 0) {
      append(canvas, [h('p', { class: 'empty' }, 'No samples of this kind.')]);
    } else {
      append(canvas, [flame({
        view, boxes: layout(view, zoom, THIN), upwards: state.shape === 'flame', match, changes: state.shape === 'inverted' ? undefined : all,
        label: `${state.shape === 'flame' ? 'Flame graph' : 'Icicle graph'} of ${view.title}`, tell, title: describe,
        choose: (box) => {
          zoom = pathTo(zoom[0], box.call) ?? zoom;
          draw();
        },
      })]);
    }
    reset.hidden = zoom.length < 2;
    hits.textContent = match && zoom[0] ? `${percent(found(view, zoom[0], match) / Math.max(1, zoom[0].total))} of what is shown` : '';
    tell(undefined);
  };
  const rebuild = (): void => {
    zoom = [state.before && view.against ? treeBefore(view, view.against) : tree(view, { thread: state.thread, space: state.space, inverted: state.shape === 'inverted' })];
    draw();
  };
  reset.addEventListener('click', () => {
    zoom = zoom.slice(0, 1);
    draw();
  });
  canvas.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && zoom.length > 1) {
      zoom = zoom.slice(0, -1);
      draw();
    }
  });
  const search = h('input', { type: 'search', id: uniqueId('search'), placeholder: 'text, or /pattern/', spellcheck: 'false' });
  search.addEventListener('input', () => {
    state.search = search.value.trim();
    draw();
  });
  const threads = view.threads ?? [];
  const thread = h('select', { id: uniqueId('thread') }, h('option', { value: -1 }, 'all threads'), threads.map((name, i) => h('option', { value: i }, name === '' ? '(no name)' : name)));
  thread.addEventListener('change', () => {
    state.thread = Number(thread.value);
    rebuild();
  });
  const controls: Child[] = [
    choice('shape', [{ id: 'flame', text: 'flame graph' }, { id: 'icicle', text: 'icicle' }, { id: 'inverted', text: 'innermost first' }], state.shape, (shape) => {
      state.shape = shape;
      rebuild();
    }),
    choice('where', [{ id: 'all', text: 'all' }, { id: 'user', text: 'user' }, { id: 'kernel', text: 'kernel' }], state.space, (space) => {
      state.space = space as Space;
      rebuild();
    }),
    threads.length > 1 && h('label', { class: 'field', for: thread.id }, h('span', {}, 'thread'), thread),
    view.against && choice('as wide as', [{ id: 'after', text: 'after' }, { id: 'before', text: 'before, with what vanished' }], 'after', (side) => {
      state.before = side === 'before';
      rebuild();
    }),
    h('label', { class: 'field', for: search.id }, h('span', {}, 'search'), search), hits, reset,
  ];
  rebuild();
  return h('div', { class: 'profile' }, h('div', { class: 'flamebar' }, controls), detail, canvas);
}

/** The calls from the root to one, both included. */
function pathTo(root: Call | undefined, wanted: Call): Call[] | undefined {
  if (!root) return undefined;
  if (root === wanted) return [root];
  for (const c of root.calls.values()) {
    const rest = pathTo(c, wanted);
    if (rest) return [root, ...rest];
  }
  return undefined;
}

/** Where the time went, by cost centre. */
function centres(view: View): HTMLElement | null {
  const costs = view.costs;
  const all = (costs?.centres ?? []).filter((c) => c.weight > 0 || (c.kernel ?? 0) > 0);
  if (!costs || all.length === 0) return null;
  const most = Math.max(...all.map((c) => c.high));
  const row = (c: CentreCost): HTMLElement => h('tr', {},
    h('th', { scope: 'row' }, c.name, h('span', { class: 'note' }, c.group)),
    h('td', { class: 'number' }, span(c.share, c.low, c.high)),
    h('td', { class: 'barcell' }, h('div', {}, h('span', { class: 'bar', style: `width:${((100 * c.share) / most).toFixed(2)}%` }), h('span', { class: 'whisker', style: `left:${((100 * c.low) / most).toFixed(2)}%;width:${((100 * (c.high - c.low)) / most).toFixed(2)}%` }))),
    h('td', { class: 'number' }, (c.kernel ?? 0) > 0 ? percent((c.kernel ?? 0) / costs.total) : '–'),
    h('td', { class: 'number' }, percent(c.within / costs.total)));
  const head = h('thead', {}, h('tr', {}, ['centre', 'of all (95% interval)', '', 'in the kernel for it', 'in its stacks'].map((t, i) => h('th', { scope: 'col', class: i === 1 || i > 2 ? 'number' : null }, t))));
  const small = all.filter((c) => c.share < 0.005 && (c.kernel ?? 0) / costs.total < 0.005);
  const large = all.filter((c) => !small.includes(c));
  return h('div', {}, h('h3', {}, 'Cost centres'),
    h('div', { class: 'scroll', role: 'region', 'aria-label': 'Cost centres', tabindex: 0 }, h('table', { class: 'data centres' }, head, h('tbody', {}, large.map(row)))),
    small.length > 0 && folded(`${plural(small.length, 'centre')} below half a percent`, h('table', { class: 'data centres' }, h('tbody', {}, small.map(row)))),
    h('p', { class: 'note' }, `Each sample counts towards one centre: that of the innermost known function, or the kernel’s. Intervals: ${costs.method}.`));
}

/** The filters of the configuration, with those never seen. */
function filters(view: View): HTMLElement | null {
  const all = view.costs?.filters ?? [];
  if (all.length === 0) return null;
  const rows = all.map((f): CellText[] => [
    { text: f.plugin !== undefined && f.plugin !== '' && f.plugin !== f.name ? `${f.name} (${f.plugin})` : f.name, note: f.group },
    !view.enough ? { text: 'no names', tone: 'dim' } : f.seen ? `${span(f.share, f.low, f.high)}${f.shared ? ' *' : ''}` : { text: 'never seen', tone: 'dim' },
    view.enough && f.seen ? percent(f.within) : '', count(f.places),
  ]);
  return h('div', {}, table('Filters of the configuration', [{ head: 'filter' }, { head: 'of all (95% interval)', number: true }, { head: 'in its stacks', number: true }, { head: 'chains', number: true }], rows),
    all.some((f) => f.shared) && h('p', { class: 'note' }, '* all filters of this kind together: they share functions.'));
}

/** The paths that changed most. */
function changed(view: View): HTMLElement | null {
  const against = view.against;
  if (!against) return null;
  const real = [...changes(against)].filter(([, c]) => c.low > 0 || c.high < 0).sort((a, b) => Math.abs(b[1].after - b[1].before) - Math.abs(a[1].after - a[1].before));
  const rows = real.slice(0, 40).map(([path, c]): CellText[] => [
    { text: frameName(view, view.frame?.[path] ?? 0), note: callers(view, path) },
    { text: `${points(c.after - c.before)} (${points(c.low)} to ${points(c.high)})`, tone: c.after < c.before ? 'good' : 'bad' },
    percent(c.before), percent(c.after), c.after === 0 ? 'vanished' : c.before === 0 ? 'new' : '',
  ]);
  return h('div', {},
    rows.length === 0 ? h('p', { class: 'empty' }, 'No significant change.')
      : table('Largest changes (cumulative), in percentage points', [{ head: 'function' }, { head: 'change (95% interval)', number: true }, { head: 'before', number: true }, { head: 'after', number: true }, { head: '' }], rows),
    h('p', { class: 'note' }, `${plural(against.before.samples, 'sample')} before, ${plural(against.after.samples, 'sample')} after. ${against.method}; per path, so about 5 in 100 unchanged paths will appear to change.`));
}

/** The two callers of a path, the nearer first. */
function callers(view: View, path: number): string {
  const out: string[] = [];
  for (let at = view.parent?.[path] ?? 0; at > 0 && out.length < 2; at = view.parent?.[at] ?? 0) out.push(frameName(view, view.frame?.[at] ?? 0));
  return out.length === 0 ? '' : `called by ${out.join(', by ')}`;
}

function binaries(view: View): HTMLElement | null {
  const all = view.binaries ?? [];
  if (all.length === 0) return null;
  const rows = all.map((b): CellText[] => [
    b.why === undefined || b.why === '' ? b.path : { text: b.path, note: b.why }, percent(b.weight / Math.max(1, view.total)),
    { text: percent(b.resolved), ...(b.resolved < 0.5 ? { tone: 'bad' as const } : {}) }, b.type === undefined || b.type === '' ? '?' : b.type, b.build_id === undefined || b.build_id === '' ? '–' : b.build_id.slice(0, 16),
  ]);
  return folded('Symbol coverage', table('Binaries', [{ head: 'binary' }, { head: 'of all', number: true }, { head: 'named', number: true }, { head: 'its file holds' }, { head: 'build id' }], rows),
    view.enough && (view.advice ?? []).length > 0 && h('ul', {}, (view.advice ?? []).map((a) => h('li', {}, a))));
}

/** Notes as a list; nothing if there are none. */
function notes(all: readonly string[]): HTMLElement | null {
  return all.length === 0 ? null : h('ul', { class: 'warnings', 'aria-label': 'Warnings' }, [...new Set(all)].map((w) => h('li', {}, w)));
}

interface Column {
  readonly head: string;
  readonly number?: boolean;
}

type CellText = string | { readonly text: string; readonly tone?: 'dim' | 'bad' | 'good'; readonly note?: string };

/** A table with a caption; rows start with a heading. */
function table(caption: string, columns: readonly Column[], rows: readonly (readonly CellText[])[]): HTMLElement {
  const cell = (given: CellText, i: number): HTMLElement => {
    const c = typeof given === 'string' ? { text: given } : given;
    const classes = [columns[i]?.number ? 'number' : '', c.tone ?? ''].filter(Boolean).join(' ');
    return h(i === 0 ? 'th' : 'td', { scope: i === 0 ? 'row' : null, class: classes || null }, c.text, c.note !== undefined && h('span', { class: 'note' }, c.note));
  };
  return h('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0 }, h('table', { class: 'data' },
    h('caption', {}, caption),
    h('thead', {}, h('tr', {}, columns.map((c) => h('th', { scope: 'col', class: c.number ? 'number' : null }, c.head)))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map(cell))))));
}
