// A profile: its flame graph or icicle.

import { flame, THIN } from './chart/flame';
import { append, h, uniqueId, type Child } from './dom';
import { amount as weightText, fixed, plural } from './format';
import type { View } from './documents';
import { changes, found, frameModule, frameName, layout, matcher, tree, treeBefore, type Box, type Call, type Change, type Space } from './profile';
import { choice } from './page';

const percent = (v: number): string => `${fixed(100 * v, v !== 0 && Math.abs(v) < 0.0995 ? 1 : 0)}%`;

/** A weight in the profile's unit. */
const amount = (view: View, weight: number): string => weightText(weight, view.unit);

const points = (v: number): string => `${v > 0 ? '+' : ''}${fixed(100 * v, 1)}`;

/** A profile's flame graph, with what to know about it. */
export function profile(view: View): HTMLElement {
  const notes = [...new Set([...(view.notes ?? []), ...(view.against?.warnings ?? [])])];
  return h('div', {},
    h('p', { class: 'lead' }, `${view.title}: ${view.unit === 'samples' ? '' : `${amount(view, view.total)} in `}${plural(view.samples, 'sample')}.`,
      view.against ? ` Compared with ${view.against.title}: red grew, blue shrank, grey is not significant.` : ''),
    !view.enough && h('div', { class: 'callout' },
      h('p', {}, h('strong', {}, 'Symbols are missing. '), `Only ${percent(view.trust)} of user-space time has a function name, so the graph shows modules and kernel functions.`),
      h('ul', {}, (view.advice ?? []).map((a) => h('li', {}, a)))),
    picture(view),
    notes.length > 0 && h('ul', { class: 'warnings', 'aria-label': 'Notes' }, notes.map((n) => h('li', {}, n))));
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
