// The page: reads what it was given, and puts the views together. A live
// page would call show with data from its server instead.

import './style.css';
import { embedded } from './data';
import type { Page, View as ProfileView } from './documents';
import { append, h, visible } from './dom';
import { Model } from './model';
import { about, others, study } from './views/about';
import { bill } from './views/bill';
import { conditions, machine } from './views/conditions';
import { convergence, waterfall } from './views/convergence';
import { cpu, memory } from './views/cost';
import { filters } from './views/filters';
import { profilePage, profiles } from './views/flame';
import { fits } from './views/fits';
import { gone } from './views/gone';
import { assertions, head } from './views/head';
import { hops } from './views/hops';
import { latency } from './views/latency';
import { money } from './views/money';
import { overhead } from './views/overhead';
import { Slice, type View } from './views/parts';
import { happened, ledger, verdicts } from './views/scenario';
import { published } from './views/published';
import { amplification, controlCost } from './views/pushed';
import { saturation } from './views/saturation';
import { threads } from './views/threads';
import { drift, validity } from './views/trust';
import { versus } from './views/versus';

/** Draws a report into root. */
export function show(root: HTMLElement, page: Page): void {
  const model = new Model(page.findings);
  const slice = new Slice(model);
  const control = [convergence(model, slice), waterfall(model, slice), gone(model, slice), amplification(model, slice), controlCost(model, slice), machine(model)];
  const [convergences, stages, phantoms, pushed, costs, users] = control;
  const views = [overhead(model), latency(model, slice), cpu(model, slice), memory(model, slice), drift(model, slice), conditions(model), threads(model, slice), saturation(model, (page.findings.findings ?? []).some((f) => f.name === 'highest_rate' || f.name === 'knee_rate'))];
  const [over, curves, cost, space, blocks, state, busy, reach] = views;
  const told = happened(model);
  const asked = [bill(model, page.findings.bills ?? []), hops(model, page.findings.hops ?? [])];
  const paid = money(model, page.findings.money ?? '');
  const update = (selection: Parameters<View['update']>[0]): void => {
    for (const view of [...views, ...control, told, paid, ...asked]) view?.update(selection);
  };
  root.replaceChildren();
  append(root, [
    h('a', { class: 'skip', href: '#main' }, 'Skip to the charts'),
    head(page),
    filters(model, update),
    h('main', { id: 'main', tabindex: -1 },
      // First what the study is about: convergence, or CPU if it fits CPU to a rate.
      verdicts(model), told?.element, ledger(model), asked.map((view) => view?.element), reach?.element,
      model.controlled ? [convergences?.element, stages?.element, phantoms?.element, over?.element, published(model), pushed?.element, costs?.element, users?.element, space?.element] : model.fitted ? [cost?.element, busy?.element, space?.element, published(model), over?.element, curves?.element] : [over?.element, curves?.element, published(model), cost?.element, busy?.element, space?.element],
      versus(model), fits(model), paid?.element,
      profiles(page.profiles ?? []),
      validity(model),
      blocks?.element,
      state?.element,
      others(model),
      assertions(page),
      about(page.findings),
      study(page.findings)),
    h('footer', {}, `Made by meshtrial ${page.findings.meshtrial} from run ${page.findings.run}. This file holds all it shows and asks nothing of the network.`),
  ]);
  update(model.initial());
}

/** Draws profiles that belong to no run. */
export function showProfiles(root: HTMLElement, views: readonly ProfileView[]): void {
  root.replaceChildren();
  append(root, [
    h('p', { class: 'brand' }, h('span', { class: 'mark', 'aria-hidden': 'true' }), 'meshtrial', h('span', { class: 'study' }, 'profile')),
    profilePage(views),
    h('footer', {}, 'This file holds all it shows and asks nothing of the network.'),
  ]);
}

const root = document.getElementById('app');
if (root) {
  const page = embedded(document);
  if (page && !('findings' in page)) {
    const profiles = page.profiles ?? [];
    document.title = visible(`${profiles[0]?.title ?? 'profile'} · meshtrial`);
    showProfiles(root, profiles);
  } else if (page) {
    document.title = visible(`${page.findings.study} · meshtrial`);
    show(root, page);
  } else {
    append(root, [h('p', { class: 'empty' }, 'This page was built without a report in it.')]);
  }
  root.setAttribute('data-ready', '');
}
