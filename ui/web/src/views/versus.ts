// Versions of the proxy, and filters, side by side: findings that compare two
// levels of one factor, one row for each measure; filters in both directions.

import type { Finding } from '../documents';
import { h } from '../dom';
import { interval } from '../format';
import type { Model } from '../model';
import { section, table, type CellText } from './parts';

const measures = (model: Model): readonly (readonly [string, string])[] => [
  ...model.proxies.map(({ part }) => [`cpu_${part}`, `CPU per request of the ${model.partWords(part)}`] as const),
  ['latency_p50', 'median latency'],
  ['latency_p99', '99th percentile of latency'],
  ...model.proxies.map(({ part }) => [`memory_${part}`, `memory of the ${model.partWords(part)}`] as const),
];

export function versus(model: Model): HTMLElement | null {
  const all = model.all.filter((f) => f.probe === 'versus');
  if (all.length === 0) return null;
  const rows = (word: string, factor: string): CellText[][] => measures(model).flatMap(([name, words]) => all
    .filter((f) => f.name.startsWith(`${name}_${word}_`))
    .map((f): CellText[] => [
      f.cell?.[factor] ?? f.cell?.['variant'] ?? '', f.against?.[factor] ?? f.against?.['variant'] ?? '', words,
      model.factors.filter((l) => l.levels.length > 1 && l.factor !== factor && (l.factor !== 'variant' || (f.cell && Object.hasOwn(f.cell, factor))) && l.factor !== 'sidecars' && f.cell && Object.hasOwn(f.cell, l.factor)).map((l) => `${l.factor.replace(/_/g, ' ')} ${f.cell?.[l.factor] ?? ''}`).join(' · '),
      share(f),
    ]));
  const versions = rows('change_since', 'envoy');
  const filters = rows('saved_by', 'filters');
  return section('versus', 'Side by side',
    h('p', { class: 'lead' }, 'Blocks are paired: both levels ran within minutes of each other. The intervals of a measure are simultaneous. A difference that is not significant is grey.'),
    versions.length > 0 && table('Versions of Envoy: what changed, with 95% intervals; above 0 the newer uses more, or is slower', [{ head: 'version' }, { head: 'against' }, { head: 'of' }, { head: 'where' }, { head: 'change', number: true }], versions),
    filters.length > 0 && table('Filters of the server’s proxy: the share saved by replacing them, with 95% intervals', [{ head: 'filters' }, { head: 'replaced by' }, { head: 'of' }, { head: 'where' }, { head: 'saved', number: true }], filters));
}

function share(f: Finding): CellText {
  if (f.verdict === 'invalid') return { text: 'too few blocks', tone: 'dim' };
  const text = `${interval({ div: 0.01, unit: '%' }, f.estimate, f.low, f.high)}%`;
  return f.verdict === 'real' ? { text, tone: 'strong' } : { text, tone: 'dim' };
}
