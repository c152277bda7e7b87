// A flame graph or icicle as SVG. It draws what it is given and reports what
// is pointed at and clicked; state belongs to the view.

import { s, visible } from '../dom';
import type { View } from '../documents';
import { frameFlags, frameModule, frameName, INLINED, KERNEL, MODULE, shortName, type Box, type Change } from '../profile';

const WIDTH = 1120;
const ROW = 18;
const LETTER = 6.7;
/** Boxes thinner than this, in pixels, are left out. */
export const THIN = 0.5 / WIDTH;
const MAX_ROWS = 160;

export interface FlameOptions {
  readonly view: View;
  readonly boxes: readonly Box[];
  /** The root below, callees above; else the root above. */
  readonly upwards: boolean;
  readonly match?: ((name: string) => boolean) | undefined;
  readonly changes?: ReadonlyMap<number, Change> | undefined;
  readonly label: string;
  readonly tell: (box: Box | undefined) => void;
  readonly choose: (box: Box) => void;
  readonly title: (box: Box) => string;
}

/** Draws boxes. */
export function flame(o: FlameOptions): SVGSVGElement {
  const rows = Math.min(MAX_ROWS, o.boxes.reduce((most, b) => Math.max(most, b.depth + 1), 1));
  const height = rows * ROW;
  const svg = s('svg', { class: 'flame', viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': o.label, preserveAspectRatio: 'none' });
  const byElement = new Map<Element, Box>();
  for (const box of o.boxes) {
    if (box.depth >= rows) continue;
    const name = frameName(o.view, box.call.frame);
    const x = box.from * WIDTH;
    const width = (box.to - box.from) * WIDTH;
    const y = o.upwards ? height - (box.depth + 1) * ROW : box.depth * ROW;
    const hit = o.match !== undefined && box.call.frame >= 0 && o.match(name);
    const group = s('g', { class: box.above ? 'above' : hit ? 'hit' : o.match ? 'miss' : null });
    group.append(
      s('title', {}, o.title(box)),
      s('rect', { x: x.toFixed(2), y, width: Math.max(0.3, width - 0.4).toFixed(2), height: ROW - 1, rx: width > 6 ? 2 : 0, fill: hit ? 'var(--flame-hit)' : colour(o.view, box, o.changes) }),
    );
    const letters = Math.floor((width - 6) / LETTER);
    if (letters >= 3) group.append(s('text', { x: (x + 3).toFixed(2), y: y + 12.5 }, shortName(visible(name), letters)));
    byElement.set(group, box);
    svg.append(group);
  }
  const at = (event: Event): Box | undefined => {
    const group = event.target instanceof Element ? event.target.closest('g') : null;
    return group ? byElement.get(group) : undefined;
  };
  svg.addEventListener('mousemove', (event) => {
    o.tell(at(event));
  });
  svg.addEventListener('mouseleave', () => {
    o.tell(undefined);
  });
  svg.addEventListener('click', (event) => {
    const box = at(event);
    if (box) o.choose(box);
  });
  return svg;
}

/** Kernel, modules without names, and programs by their module have hues of their own. */
function colour(view: View, box: Box, changes: ReadonlyMap<number, Change> | undefined): string {
  if (box.call.frame < 0) return 'var(--flame-root)';
  if (changes) {
    const change = changes.get(box.call.path);
    if (!change || (change.low <= 0 && change.high >= 0)) return 'var(--flame-same)';
    const delta = change.after - change.before;
    const strength = Math.min(1, Math.abs(delta) / 0.1);
    return `hsl(${delta > 0 ? 8 : 212} ${Math.round(55 + 30 * strength)}% ${Math.round(84 - 26 * strength)}%)`;
  }
  const flags = frameFlags(view, box.call.frame);
  const name = frameName(view, box.call.frame);
  const shade = hash(name) % 24;
  if ((flags & KERNEL) !== 0) return `hsl(${14 + (shade % 8)} 78% ${66 + shade / 2}%)`;
  if ((flags & MODULE) !== 0) return `hsl(220 8% ${72 + shade / 3}%)`;
  const hue = [44, 96, 168, 200, 268, 320][hash(frameModule(view, box.call.frame)) % 6] ?? 44;
  return `hsl(${hue + (shade % 10)} ${(flags & INLINED) !== 0 ? 38 : 62}% ${70 + shade / 2}%)`;
}

function hash(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619) >>> 0;
  return h;
}
