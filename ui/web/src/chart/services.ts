// The service graph, with rates, errors and latency on its edges.

import { s } from '../dom';
import { fixed, magnitude, value, scaleFor } from '../format';
import type { ScenarioEdge, ScenarioSummary, ScenarioWindow } from '../documents';
import { figure, type Chart } from './figure';

export const CLIENTS = 'clients';

const per = (n: number, seconds: number): string => {
  const v = seconds > 0 ? n / seconds : 0;
  return v === 0 ? '0' : fixed(v, Math.max(0, Math.min(2, 2 - magnitude(v))));
};

const share = (v: number): string => {
  const p = 100 * v;
  return p === 0 ? '0%' : `${fixed(p, Math.max(0, Math.min(3, 1 - magnitude(p))))}%`;
};

export function services(name: string, data: ScenarioSummary, window: ScenarioWindow): Chart {
  return figure({ name, draw: (width) => draw(data, window, width) });
}

function draw(data: ScenarioSummary, window: ScenarioWindow, width: number): SVGSVGElement {
  const graph = data.graph;
  const nodes = graph.nodes ?? [];
  const columns = graph.width + 1; // the clients' own
  const many = nodes.length > 24;
  const box = { w: Math.min(130, (width / columns) * 0.46), h: many ? 22 : 46 };
  const row = many ? 30 : 104;
  const height = Math.max(1, graph.height) * row + 20;
  const place = (x: number, y: number): readonly [number, number] => [((x + 1) / columns) * width, 10 + y * row];
  const entry = nodes.find((n) => n.service === graph.entry);
  const spots = new Map(nodes.map((n) => [n.service, place(n.x, n.y)] as const));
  spots.set(CLIENTS, place(-0.5, entry?.y ?? graph.height / 2));
  const edges = new Map((window.edges ?? []).map((e) => [`${e.from}\n${e.to}`, e] as const));
  const most = Math.max(1, ...[...edges.values()].map((e) => e.requests));
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'plot services' });
  const lines = [{ from: CLIENTS, to: graph.entry, via: null }, ...(graph.lines ?? [])];
  const ways = s('g', { class: 'marks' });
  const words = s('g', {});
  for (const line of lines) {
    const [a, b] = [spots.get(line.from), spots.get(line.to)];
    if (!a || !b) continue;
    const edge = edges.get(`${line.from}\n${line.to}`);
    const points = [[a[0] + box.w / 2, a[1]] as const, ...(line.via ?? []).map(([x, y]) => place(x, y)), [b[0] - box.w / 2 - 5, b[1]] as const];
    ways.append(connect(points, edge, most, window));
    // Words stand where lines are apart: at the callee's end where the caller has more lines than the callee.
    const near = lines.filter((l) => l.from === line.from).length >= lines.filter((l) => l.to === line.to).length ? 0.66 : 0.34;
    if (!many && edge) words.append(says(points, near, edge, window, width / columns - box.w));
  }
  svg.append(ways);
  for (const node of [{ service: CLIENTS, replicas: graph.clients }, ...nodes]) {
    const spot = spots.get(node.service);
    if (!spot) continue;
    const [x, y] = spot;
    const ready = window.ready?.[node.service];
    const ejected = window.ejected?.[node.service] ?? 0;
    const state = node.service === CLIENTS ? `${node.replicas}` : ready === undefined || ready === node.replicas ? `${node.replicas} ready` : `${ready} of ${node.replicas} ready`;
    const g = s('g', { class: ejected > 0 || (ready !== undefined && ready < node.replicas) ? 'service hurt' : 'service' },
      s('rect', { x: x - box.w / 2, y: y - box.h / 2, width: box.w, height: box.h, rx: 5 }),
      s('text', { class: 'name', x, y: many ? y + 4 : y - 4, 'text-anchor': 'middle' }, clip(node.service, box.w)),
      !many && s('text', { class: 'tick', x, y: y + 13, 'text-anchor': 'middle' }, ejected > 0 ? `${state}, ${ejected} ejected` : state));
    svg.append(g);
  }
  svg.append(words);
  return svg;
}

const clip = (text: string, width: number): string => (text.length * 7.4 > width ? `${text.slice(0, Math.max(3, Math.floor(width / 7.4) - 1))}…` : text);

function connect(points: readonly (readonly [number, number])[], edge: ScenarioEdge | undefined, most: number, window: ScenarioWindow): SVGGElement {
  const first = points[0] ?? [0, 0];
  let d = `M${first[0]},${first[1]}`;
  for (let i = 1; i < points.length; i++) {
    const [a, b] = [points[i - 1] ?? [0, 0], points[i] ?? [0, 0]];
    const middle = (a[0] + b[0]) / 2;
    d += `C${middle},${a[1]} ${middle},${b[1]} ${b[0]},${b[1]}`;
  }
  const last = points.at(-1) ?? [0, 0];
  const failed = edge && edge.requests > 0 ? edge.failed / edge.requests : 0;
  const g = s('g', { class: !edge ? 'edge idle' : failed > 0 ? 'edge failing' : 'edge' },
    s('path', { class: 'way', d, 'stroke-width': edge ? 1.2 + 3 * (edge.requests / most) : 1 }),
    s('path', { class: 'tip', d: `M${last[0] + 5},${last[1]}l-8,-4.5v9Z` }));
  if (edge) {
    const scale = scaleFor('us', Math.max(edge.p50_us, edge.p99_us));
    g.append(s('title', {}, `${edge.from} to ${edge.to}: ${edge.requests} requests, ${edge.attempts} attempts, ${edge.failed} failed, p50 ${(edge.p50_us > 0 ? value(scale, edge.p50_us) : '–')}, p99 ${(edge.p99_us > 0 ? value(scale, edge.p99_us) : '–')} in ${window.name}`));
  }
  return g;
}

/** What happens on an edge, in short lines beside it. */
function says(points: readonly (readonly [number, number])[], near: number, edge: ScenarioEdge, window: ScenarioWindow, room: number): SVGGElement {
  const [a, b] = near > 0.5 ? [points.at(-2) ?? [0, 0], points.at(-1) ?? [0, 0]] : [points[0] ?? [0, 0], points[1] ?? [0, 0]];
  const flat = a[1] === b[1];
  const x = flat ? (a[0] + b[0]) / 2 : a[0] + (b[0] - a[0]) * near;
  const y = a[1] + (b[1] - a[1]) * (3 * near * near - 2 * near * near * near); // about where the curve is
  const seconds = window.to_s - window.from_s;
  const scale = scaleFor('us', Math.max(edge.p50_us, edge.p99_us));
  const failed = edge.requests > 0 ? edge.failed / edge.requests : 0;
  const extra = edge.requests > 0 && edge.attempts > edge.requests * 1.0005 ? ` ×${(edge.attempts / edge.requests).toFixed(2)}` : '';
  const text = (dy: number, words: string, cls: string): SVGTextElement => s('text', { class: `figure ${cls}`, x, y: y + dy, 'text-anchor': 'middle' }, words);
  const wide = room > 96;
  return s('g', { class: 'says' },
    text(-20, `${per(edge.requests, seconds)}/s${extra}`, ''),
    text(-6, `${share(failed)}${wide ? ' failed' : ''}`, failed > 0 ? 'bad' : 'dim'),
    text(17, wide ? `p50 ${(edge.p50_us > 0 ? value(scale, edge.p50_us) : '–')}` : (edge.p50_us > 0 ? value(scale, edge.p50_us) : '–'), 'dim'),
    text(30, wide ? `p99 ${(edge.p99_us > 0 ? value(scale, edge.p99_us) : '–')}` : (edge.p99_us > 0 ? value(scale, edge.p99_us) : '–'), 'dim'));
}
