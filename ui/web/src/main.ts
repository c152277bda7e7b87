// The page: reads what it was given, and puts the views together. A live
// page would call show with data from its server instead.

import './style.css';
import { embedded } from './data';
import type { Page, View as ProfileView } from './documents';
import { append, h, visible } from './dom';
import { Model } from './model';
import { sections } from './sections';
import { filters } from './views/filters';
import { profilePage } from './views/flame';
import { head } from './views/head';
import { Slice, type View } from './views/parts';

/** Draws a report into root. */
export function show(root: HTMLElement, page: Page): void {
  const model = new Model(page.findings, page.names ?? [], page.proxies ?? []);
  const all = sections({ model, slice: new Slice(model), page });
  const update = (selection: Parameters<View['update']>[0]): void => {
    for (const one of all) if (one && 'update' in one) one.update(selection);
  };
  root.replaceChildren();
  append(root, [
    h('a', { class: 'skip', href: '#main' }, 'Skip to the charts'),
    head(page),
    filters(model, update),
    h('main', { id: 'main', tabindex: -1 }, all.map((one) => (one && 'update' in one ? one.element : one))),
    h('footer', {}, `Made by meshtrial ${page.findings.meshtrial} from run ${page.findings.run}. Self-contained: this file makes no network requests.`),
  ]);
  update(model.initial());
}

/** Draws profiles that belong to no run. */
export function showProfiles(root: HTMLElement, views: readonly ProfileView[]): void {
  root.replaceChildren();
  append(root, [
    h('p', { class: 'brand' }, h('span', { class: 'mark', 'aria-hidden': 'true' }), 'meshtrial', h('span', { class: 'study' }, 'profile')),
    profilePage(views),
    h('footer', {}, 'Self-contained: this file makes no network requests.'),
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
