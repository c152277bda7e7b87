// Fixed and marginal costs: idle, and for each request, connection and piece of
// configuration. The same as report/fits.go tells.

import type { Finding } from '../documents';
import { h } from '../dom';
import { quantity, scaleFor, type Scale } from '../format';
import { levelWords, type Model } from '../model';
import { section, table } from './parts';

const WORDS: readonly { readonly end: string; readonly cpu?: string; readonly memory?: string }[] = [
  { end: '_idle', cpu: 'CPU without requests, extrapolated', memory: 'memory without requests, extrapolated' },
  { end: '_slope', cpu: 'CPU per additional request' },
  { end: '_per_rps', memory: 'memory for each request per second' },
  { end: '_per_connection', cpu: 'CPU per request for each connection', memory: 'memory for each connection' },
  { end: '_per_cluster', cpu: 'CPU per request for each cluster configured', memory: 'memory for each cluster configured' },
  { end: '_per_listener', cpu: 'CPU per request for each listener configured', memory: 'memory for each listener configured' },
  { end: '_per_route', cpu: 'CPU per request for each route before the one taken', memory: 'memory for each route before the one taken' },
];

export function fits(model: Model): HTMLElement | null {
  const rows = model.proxies.flatMap(({ part }) => WORDS.flatMap((w) => [
    { name: `cpu_${part}${w.end}`, words: w.cpu },
    { name: `memory_${part}${w.end}`, words: w.memory },
  ]).flatMap(({ name, words }) => words === undefined ? [] : model.all
    .filter((f) => f.name === name && f.probe === 'fit' && f.verdict !== 'invalid')
    .map((f) => [`${model.partWords(part)}: ${words}`, cellWords(model, f), quantity(scale(f), f.estimate, f.low, f.high)])));
  if (rows.length === 0) return null;
  return section('fits', 'Fixed and marginal costs',
    h('p', { class: 'lead' }, 'Linear fits over all trials against rate, connections or configuration size; curvature is not modelled. What they say of no requests is extrapolated: a proxy takes less CPU at rest if the first requests of a second take the most.'),
    table('Idle cost and slopes, with 95% intervals', [{ head: 'what' }, { head: 'of cells' }, { head: 'cost', number: true }], rows));
}

function scale(f: Finding): Scale {
  const [base, ...per] = f.unit.split('/');
  return base === 'ns' ? { div: 1, unit: `ns per ${per.join(' and ')}` } : scaleFor(f.unit, Math.abs(f.estimate));
}

const cellWords = (model: Model, f: Finding): string => model.factors
  .filter((l) => l.levels.length > 1 && f.cell && Object.hasOwn(f.cell, l.factor))
  .map((l) => levelWords(l, f.cell?.[l.factor] ?? '')).join(' · ') || 'all';
