// The trees that are drawn of profiles.

import type { View, ViewDiff } from './documents';

/** Flags of frames. */
export const KERNEL = 1;
export const INLINED = 2;
export const MODULE = 4;

export type Space = 'all' | 'user' | 'kernel';

/** Which part of a profile is drawn, and how. */
export interface Part {
  /** Index of a thread's name; -1 for all. */
  readonly thread: number;
  readonly space: Space;
  /** The innermost function is the root: who called it. */
  readonly inverted: boolean;
}

/** A function as it was called from one place. */
export interface Call {
  /** Index of its frame; -1 for the root, which is no function. */
  readonly frame: number;
  /** Its path in the profile; -1 in trees that are not of paths. */
  path: number;
  total: number;
  self: number;
  readonly calls: Map<number, Call>;
}

const call = (frame: number, path: number): Call => ({ frame, path, total: 0, self: 0, calls: new Map() });

/** The calls of a part of a profile. */
export function tree(view: View, part: Part): Call {
  const root = call(-1, 0);
  const [flags, parents, frames] = [view.frame_flags ?? [], view.parent ?? [], view.frame ?? []];
  const threads = view.sample_thread ?? [];
  const weights = view.sample_weight ?? [];
  (view.sample_path ?? []).forEach((path, i) => {
    if (part.thread >= 0 && threads[i] !== part.thread) return;
    const weight = weights[i] ?? 0;
    const paths: number[] = [];
    for (let at = path; at > 0; at = parents[at] ?? 0) {
      const kernel = ((flags[frames[at] ?? 0] ?? 0) & KERNEL) !== 0;
      if (part.space === 'all' || kernel === (part.space === 'kernel')) paths.push(at);
    }
    if (part.space === 'kernel' && paths.length === 0) return;
    if (!part.inverted) paths.reverse();
    let node = root;
    node.total += weight;
    for (const at of paths) {
      const frame = frames[at] ?? 0;
      let next = node.calls.get(frame);
      if (!next) {
        next = call(frame, part.inverted ? -1 : at);
        node.calls.set(frame, next);
      }
      next.total += weight;
      node = next;
    }
    node.self += weight;
  });
  return root;
}

/** How a path's share changed. */
export interface Change {
  readonly before: number;
  readonly after: number;
  readonly low: number;
  readonly high: number;
}

/** Changes by path. */
export function changes(against: ViewDiff): Map<number, Change> {
  const out = new Map<number, Change>();
  (against.path ?? []).forEach((path, i) => {
    out.set(path, { before: against.before_share?.[i] ?? 0, after: against.after_share?.[i] ?? 0, low: against.low?.[i] ?? 0, high: against.high?.[i] ?? 0 });
  });
  return out;
}

/** The calls of what was before, in the units of the profile after. */
export function treeBefore(view: View, against: ViewDiff): Call {
  const root = call(-1, 0);
  root.total = view.total;
  const nodes = new Map<number, Call>([[0, root]]);
  const all = changes(against);
  for (const path of [...all.keys()].sort((a, b) => a - b)) {
    const parent = nodes.get(view.parent?.[path] ?? 0);
    const change = all.get(path);
    if (!parent || !change || change.before <= 0) continue;
    const node = call(view.frame?.[path] ?? 0, path);
    node.total = change.before * view.total;
    parent.calls.set(node.frame, node);
    nodes.set(path, node);
  }
  for (const node of nodes.values()) node.self = Math.max(0, node.total - [...node.calls.values()].reduce((sum, c) => sum + c.total, 0));
  return root;
}

export const frameName = (view: View, frame: number): string => (frame < 0 ? 'all' : (view.names?.[view.frame_name?.[frame] ?? 0] ?? '?'));
export const frameModule = (view: View, frame: number): string => (frame < 0 ? '' : (view.modules?.[view.frame_module?.[frame] ?? 0] ?? ''));
export const frameFlags = (view: View, frame: number): number => (frame < 0 ? 0 : (view.frame_flags?.[frame] ?? 0));

/** What a search finds: plain text, or a regular expression between slashes. */
export function matcher(text: string): ((name: string) => boolean) | undefined {
  if (text === '') return undefined;
  const pattern = /^\/(.+)\/$/.exec(text)?.[1];
  if (pattern !== undefined) {
    try {
      const expression = new RegExp(pattern, 'i');
      return (name) => expression.test(name);
    } catch {
      return () => false;
    }
  }
  const wanted = text.toLowerCase();
  return (name) => name.toLowerCase().includes(wanted);
}

/** The weight of what a search finds, each sample once. */
export function found(view: View, root: Call, match: (name: string) => boolean): number {
  if (root.frame >= 0 && match(frameName(view, root.frame))) return root.total;
  let sum = 0;
  for (const c of root.calls.values()) sum += found(view, c, match);
  return sum;
}

/** A box of the picture, in shares of the width. */
export interface Box {
  readonly call: Call;
  readonly depth: number;
  readonly from: number;
  readonly to: number;
  /** Whether it is a caller of what is zoomed to, and so as wide as all. */
  readonly above: boolean;
}

/** Lays out boxes below a zoomed call; what is thinner than least is left out. */
export function layout(view: View, zoom: readonly Call[], least: number): Box[] {
  const boxes: Box[] = [];
  zoom.slice(0, -1).forEach((c, depth) => boxes.push({ call: c, depth, from: 0, to: 1, above: true }));
  const top = zoom[zoom.length - 1];
  if (!top || top.total <= 0) return boxes;
  const place = (c: Call, depth: number, from: number): void => {
    const width = c.total / top.total;
    if (width < least) return;
    boxes.push({ call: c, depth, from, to: from + width, above: false });
    let at = from;
    const inner = [...c.calls.values()].sort((a, b) => compare(frameName(view, a.frame), frameName(view, b.frame)) || a.frame - b.frame);
    for (const next of inner) {
      place(next, depth + 1, at);
      at += next.total / top.total;
    }
  };
  place(top, zoom.length - 1, 0);
  return boxes;
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** A function's name without what fills a box: arguments, import paths, and of methods what they are of. */
export function shortName(name: string, letters: number): string {
  if (name.length <= letters) return name;
  const method = goMethod(name) ?? rustMethod(name);
  if (method) return method.find((m) => m.length <= letters) ?? cut(method[method.length - 1] ?? name, letters);
  let end = name.search(/[([]/);
  if (end <= 0) end = name.length;
  const slash = name.slice(0, end).lastIndexOf('/');
  let short = slash >= 0 ? name.slice(slash + 1) : name;
  if (short.length > letters && !short.startsWith('(')) {
    const bare = short.replace(/\(.*$/, '');
    if (bare.length > 2) short = bare;
    const parts = short.split('::');
    while (short.length > letters && parts.length > 1) {
      parts.shift();
      short = parts.join('::');
    }
    const dots = /\.(?:isra|part|constprop|cold|\d+)\b/.test(short) ? [] : short.split('.'); // what compilers append
    const least = /^func\d+$/.test(dots.at(-1) ?? '') ? 2 : 1; // a closure is known by what it is in
    while (short.length > letters && dots.length > least) {
      dots.shift();
      short = dots.join('.');
    }
  }
  return cut(short, letters);
}

const cut = (text: string, letters: number): string => (text.length <= letters ? text : `${text.slice(0, Math.max(1, letters - 1))}…`);

/** crypto/tls.(*Conn).Write: with its package, with its type, alone. */
function goMethod(name: string): string[] | undefined {
  const m = /^(?:.*\/)?([^/(]*)\(\*?([\w.]+)(?:\[.*\])?\)\.([^(/]+)$/.exec(name);
  if (!m) return undefined;
  const [, packaged = '', type = '', method = ''] = m;
  return [`${packaged}(*${type}).${method}`, `${type}.${method}`, method];
}

/** <a::Outer<T> as b::Trait>::poll: with its type, alone. */
function rustMethod(name: string): string[] | undefined {
  const m = /^<(.+)>::([^:<>]+(?:::\{\{closure\}\})?)$/.exec(name);
  if (!m) return undefined;
  const [, of = '', method = ''] = m;
  const type = (of.split(' as ')[0] ?? of).replace(/<.*$/, '').split('::').pop() ?? '';
  return [`${type}::${method}`, method];
}
