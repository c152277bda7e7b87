// The top of the page: the question, the answer, and what qualifies it.

import type { Page } from '../documents';
import { h, type Child } from '../dom';
import { plural } from '../format';

export function head(page: Page): HTMLElement {
  const f = page.findings;
  const [headline, ...more] = page.answers ?? [];
  return h(
    'header',
    { class: 'head' },
    h('p', { class: 'brand' }, h('span', { class: 'mark', 'aria-hidden': 'true' }), 'meshtrial', h('span', { class: 'study' }, f.study)),
    f.question !== '' && h('p', { class: 'question' }, f.question),
    h('h1', { class: (headline ?? '').length > 100 ? 'long' : null }, headline ?? f.study),
    more.length > 0 && h('ul', { class: 'answers' }, more.map((answer) => h('li', {}, answer))),
    h('dl', { class: 'stamps' }, stamps(page)),
    callouts(page),
    story(f.story ?? ''),
  );
}

/** What the study is about, folded away: it is long, and comes after what was found. */
function story(text: string): HTMLElement | null {
  const paragraphs = text.split(/\r?\n\s*\n/).map((p) => p.trim()).filter((p) => p !== '');
  if (paragraphs.length === 0) return null;
  return h('details', { class: 'story' }, h('summary', {}, 'About this study'), paragraphs.map((p) => h('p', {}, p)));
}

function stamps(page: Page): Child[] {
  const f = page.findings;
  const v = f.validity;
  const stamp = (name: string, value: string, tone?: string): Child =>
    value === '' ? null : h('div', { class: tone ?? null }, h('dt', {}, name), h('dd', {}, value));
  return [
    stamp('Valid trials', `${v.valid} of ${v.trials}`, v.valid < v.trials ? 'warn' : 'good'),
    stamp('Blocks', String(v.blocks)),
    stamp('Ended by', f.stop),
    stamp('Lab', [f.lab, f.machine.kubernetes].filter(Boolean).join(', Kubernetes ')),
    stamp('Machine', [f.machine.cpu_model, f.machine.cpus > 0 ? plural(f.machine.cpus, 'CPU') : ''].filter(Boolean).join(', ')),
    stamp('Started', f.started.replace('T', ' ').replace(/:\d\d(\.\d+)?Z$/, ' UTC')),
  ];
}

/** Warnings shown before the rest is folded away. */
const MOST = 5;

function callouts(page: Page): Child[] {
  const out: Child[] = [];
  const failed = (page.findings.assertions ?? []).filter((a) => !a.passed).length;
  if (failed > 0) {
    out.push(h('p', { class: 'callout bad' }, h('a', { href: '#assertions' }, `${plural(failed, 'assertion')} failed`), ' of ', String(page.findings.assertions?.length ?? 0), '.'));
  }
  const warnings = page.warnings ?? [];
  if (warnings.length > 0) {
    const list = (some: readonly string[]): HTMLElement => h('ul', {}, some.map((w) => h('li', {}, w)));
    const rest = warnings.slice(MOST);
    out.push(h('div', { class: 'callout' }, h('p', {}, h('strong', {}, 'Keep in mind')), list(warnings.slice(0, MOST)),
      rest.length > 0 && h('details', {}, h('summary', {}, `${rest.length} more`), list(rest))));
  }
  return out;
}

export function assertions(page: Page): HTMLElement | null {
  const all = page.findings.assertions ?? [];
  if (all.length === 0) return null;
  return h(
    'section',
    { id: 'assertions', 'aria-labelledby': 'assertions-title' },
    h('h2', { id: 'assertions-title' }, 'Assertions'),
    h('ul', { class: 'assertions' }, all.map((a) => h('li', { class: a.passed ? 'good' : 'bad' }, h('strong', {}, a.passed ? 'Passed' : 'Failed'), h('code', {}, a.expr), h('span', {}, a.detail)))),
  );
}
