// Nodes and what passes between them.

import type { Graph, GraphEdge } from '../documents';
import { s } from '../dom';

type Spot = readonly [number, number];

/** Nodes above which only names are drawn. */
const MANY = 24;

/** Draws a value. */
export function graph(o: Graph, width: number): SVGSVGElement {
  const [nodes, edges] = [o.nodes ?? [], o.edges ?? []];
  const many = nodes.length > MANY;
  const box = { w: Math.min(130, (width / o.width) * 0.46), h: many ? 22 : 46 };
  const row = many ? 30 : 104;
  const height = Math.max(1, o.height) * row + 20;
  const place = (x: number, y: number): Spot => [(x / o.width) * width, 10 + y * row];
  const spots = new Map(nodes.map((n) => [n.name, place(n.x, n.y)] as const));
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'plot services' });
  const ways = s('g', { class: 'marks' });
  const words = s('g', {});
  for (const edge of edges) {
    const [a, b] = [spots.get(edge.from), spots.get(edge.to)];
    if (!a || !b) continue;
    const points: Spot[] = [[a[0] + box.w / 2, a[1]], ...(edge.via ?? []).map(([x, y]) => place(x, y)),
      [b[0] - box.w / 2 - 5, b[1]]];
    ways.append(way(points, edge));
    // Words stand where edges are apart: at the far end where a node has more edges out than that end has in.
    const near = edges.filter((e) => e.from === edge.from).length >= edges.filter((e) => e.to === edge.to).length ? 0.66 : 0.34;
    if (!many) words.append(beside(points, near, edge, width / o.width - box.w));
  }
  svg.append(ways);
  for (const node of nodes) {
    const [x, y] = spots.get(node.name) ?? [0, 0];
    svg.append(s('g', { class: node.bad ? 'service hurt' : 'service' },
      s('rect', { x: x - box.w / 2, y: y - box.h / 2, width: box.w, height: box.h, rx: 5 }),
      s('text', { class: 'name', x, y: many ? y + 4 : y - 4, 'text-anchor': 'middle' }, clip(node.name, box.w)),
      !many && s('text', { class: 'tick', x, y: y + 13, 'text-anchor': 'middle' }, node.state)));
  }
  svg.append(words);
  return svg;
}

const clip = (text: string, width: number): string => (text.length * 7.4 > width ? `${text.slice(0, Math.max(3, Math.floor(width / 7.4) - 1))}…` : text);

function way(points: readonly Spot[], edge: GraphEdge): SVGGElement {
  const [first = [0, 0], ...rest] = points;
  let d = `M${first[0]},${first[1]}`;
  let before: Spot = first;
  for (const next of rest) {
    const middle = (before[0] + next[0]) / 2;
    d += `C${middle},${before[1]} ${middle},${next[1]} ${next[0]},${next[1]}`;
    before = next;
  }
  const idle = edge.text === undefined;
  return s('g', { class: idle ? 'edge idle' : edge.bad ? 'edge failing' : 'edge' },
    s('path', { class: 'way', d, 'stroke-width': idle ? 1 : 1.2 + 3 * (edge.weight ?? 0) }),
    s('path', { class: 'tip', d: `M${before[0] + 5},${before[1]}l-8,-4.5v9Z` }),
    !idle && s('title', {}, edge.text));
}

/** Lines of text beside an edge, above and below it. */
function beside(points: readonly Spot[], near: number, edge: GraphEdge, room: number): SVGGElement {
  const [a = [0, 0], b = [0, 0]] = near > 0.5 ? points.slice(-2) : points;
  const x = a[1] === b[1] ? (a[0] + b[0]) / 2 : a[0] + (b[0] - a[0]) * near;
  const y = a[1] + (b[1] - a[1]) * (3 * near * near - 2 * near * near * near); // about where the curve is
  const above = [-20, -6, 17, 30];
  return s('g', { class: 'says' }, (edge.lines ?? []).map((line, i) =>
    s('text', { class: `figure ${line.style ?? ''}`, x, y: y + (above[i] ?? 0), 'text-anchor': 'middle' },
      room > 96 ? line.text : line.short)));
}
