// The sections of a report, in their order: first what the kind of study is
// about, then what speaks for the figures.

import type { Page } from './documents';
import type { Model } from './model';
import { about, others, study } from './views/about';
import { bill } from './views/bill';
import { conditions, machine } from './views/conditions';
import { convergence, waterfall } from './views/convergence';
import { cpu, memory } from './views/cost';
import { fits } from './views/fits';
import { profiles } from './views/flame';
import { front } from './views/front';
import { gone } from './views/gone';
import { assertions } from './views/head';
import { hops } from './views/hops';
import { latency } from './views/latency';
import { money } from './views/money';
import { overhead } from './views/overhead';
import type { Slice, View } from './views/parts';
import { published } from './views/published';
import { amplification, controlCost } from './views/pushed';
import { saturation } from './views/saturation';
import { happened, ledger, verdicts } from './views/scenario';
import { tables } from './views/tables';
import { threads } from './views/threads';
import { drift, validity } from './views/trust';
import { versus } from './views/versus';

/** A section that follows the selection, or one that does not; null if the run has nothing for it. */
export type Section = View | HTMLElement | null;

interface Given {
  readonly model: Model;
  readonly slice: Slice;
  readonly page: Page;
}

const dataPlane = ({ model, slice, page }: Given): Section[] => {
  const found = (name: string): boolean => model.all.some((f) => f.name === name);
  const costs = [cpu(model, slice), threads(model, slice), memory(model, slice)];
  const times = [overhead(model), latency(model, slice)];
  return [
    bill(model, page.findings.bills ?? []), hops(model, page.findings.hops ?? []), saturation(model, found('highest_rate') || found('knee_rate')),
    ...(model.fitted ? [...costs, published(model), ...times] : [...times, published(model), ...costs]),
    versus(model), fits(model), money(model, page.findings.money ?? ''), profiles(page.profiles ?? []),
  ];
};

const controlPlane = ({ model, slice, page }: Given): Section[] => [
  front(model, page.findings.tuning), convergence(model, slice), waterfall(model, slice), gone(model, slice), overhead(model), published(model),
  amplification(model, slice), controlCost(model, slice), machine(model), memory(model, slice), versus(model), fits(model),
];

const resilience = ({ model, slice, page }: Given): Section[] => [
  verdicts(model), happened(model), ledger(model), overhead(model), latency(model, slice), published(model), cpu(model, slice), memory(model, slice), versus(model), money(model, page.findings.money ?? ''),
];

const KINDS: Readonly<Record<string, (given: Given) => Section[]>> = { 'data-plane': dataPlane, 'control-plane': controlPlane, resilience };

/** Sections of other formats that a view of the page draws; any other is shown as its tables. */
const DRAWN: ReadonlySet<string> = new Set([
  'bill', 'hops', 'saturation', 'latency', 'tail', 'cpu', 'threads', 'limits', 'memory', 'fits', 'money', 'versions', 'filters', 'profiles',
  'convergence', 'edges', 'levers', 'waterfall', 'second sources', 'hidden', 'amplification', 'stale', 'traffic', 'wire', 'config', 'scope config', 'join', 'holdings', 'cost', 'machine', 'runtime', 'metrics',
  'verdicts', 'assertions about trials', 'windows', 'steps', 'arithmetic', 'traffic between services', 'balance', 'faults', 'unreconciled',
  'conditions', 'other', 'noise', 'published', 'assertions',
]);

/** All sections of a page; of an unknown kind those that every kind has. */
export function sections(given: Given): Section[] {
  const { model, slice, page } = given;
  const { kind } = page.findings;
  const own = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
  return [
    ...(own?.(given) ?? []),
    ...(page.sections ?? []).filter((s) => !DRAWN.has(s.name)).map(tables),
    validity(model), drift(model, slice), conditions(model), others(model), assertions(page), about(page.findings), study(page.findings),
  ];
}
