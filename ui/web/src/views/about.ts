// What was measured, on what, and by which study.

import type { Finding, Findings } from '../documents';
import { h, type Child } from '../dom';
import { verdictWords, type Model } from '../model';
import { count, fixed, interval, plain, plural, reach, scaleFor, type Scale } from '../format';
import { folded, section, table } from './parts';

export function others(model: Model): HTMLElement | null {
  const rest = model.all.filter((f) => !(f.against && f.name.startsWith('latency_') && f.name.endsWith('_overhead')));
  if (rest.length === 0) return null;
  const largest = new Map<string, number>();
  for (const f of rest) largest.set(f.name, Math.max(largest.get(f.name) ?? 0, Math.abs(f.estimate)));
  const numbers = table('Findings other than latency', [{ head: 'finding' }, { head: 'cell' }, { head: 'estimate (95% interval)', number: true }, { head: 'unit' }, { head: 'verdict' }, { head: 'blocks', number: true }],
    rest.map((f) => {
      const scale = scaleFor(f.unit, largest.get(f.name) ?? 0);
      const silent = f.verdict === 'invalid';
      return [model.words(f.name), model.fullLabel(f.cell), { text: silent ? verdictWords(f.verdict) : inTrials(f, scale) ?? (reach(f.open, plain(scale, f.low), plain(scale, f.high)) || interval(scale, f.estimate, f.low, f.high)), ...((f.warnings ?? []).length > 0 ? { note: (f.warnings ?? []).join('; ') } : {}) }, scale.unit, verdictWords(f.verdict), String(f.blocks)];
    }));
  return section('findings', 'Other findings', rest.length > 12 ? folded(`${rest.length} findings as a table`, numbers) : numbers);
}

/** Of what must not happen: in how many trials it did, and how much of it at most. */
function inTrials({ trials, high }: Finding, scale: Scale): string | undefined {
  if (!trials) return undefined;
  return trials.with === 0 ? `in none of ${plural(trials.of, 'trial')}` : `in ${count(trials.with)} of ${plural(trials.of, 'trial')}, at most ${plain(scale, high)}`;
}

export function about(f: Findings): HTMLElement {
  const m = f.machine;
  const entry = (name: string, text: string | number | undefined): Child =>
    text === undefined || text === '' || text === 0 ? null : h('div', {}, h('dt', {}, name), h('dd', {}, text));
  return section(
    'about',
    'Machine and components',
    h('dl', { class: 'facts' },
      entry('Processor', m.cpu_model),
      entry('CPUs', m.cpus),
      entry('Memory', m.memory_bytes > 0 ? `${fixed(m.memory_bytes / 2 ** 30, 0)} GiB` : ''),
      entry('System', m.os),
      entry('Kernel', m.kernel),
      entry('Hypervisor', m.virtual),
      entry('Clock', m.clock_source),
      entry('Governor', m.governor),
      entry('Cgroups', m.cgroup_mode),
      entry('Nodes', m.nodes),
      entry('Kubernetes', m.kubernetes),
      entry('Runtime', m.container_runtime),
      entry('meshtrial', f.meshtrial),
      entry('Run', f.run),
      entry('Seed', String(f.seed)),
    ),
    (f.components ?? []).length > 0 && table('Components measured', [{ head: 'component' }, { head: 'version' }, { head: 'lacks' }, { head: 'from' }, { head: 'digest' }],
      (f.components ?? []).map((c) => [c.name, c.version, (c.lacks ?? []).length > 0 ? { text: (c.lacks ?? []).join(', '), tone: 'bad' as const } : '–', c.source ?? '', shortDigest(c.digest ?? '')])),
  );
}

/** "sha256:5c5c…5c5c" with the middle left out. */
function shortDigest(digest: string): string {
  return digest.length > 24 ? `${digest.slice(0, 19)}…` : digest;
}

export function study(f: Findings): HTMLElement | null {
  if (f.study_yaml.trim() === '') return null;
  return section('study', 'Study', folded('Resolved study, with all defaults', h('pre', { tabindex: 0, 'aria-label': 'Resolved study, YAML' }, h('code', {}, f.study_yaml))));
}
