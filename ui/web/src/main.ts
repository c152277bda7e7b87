// The page: reads what it was given, and draws it.

import './style.css';
import { embedded } from './data';
import type { View } from './documents';
import { append, h, visible } from './dom';
import { profile } from './flame';
import { show } from './page';

/** Draws profiles that belong to no run. */
export function showProfiles(root: HTMLElement, views: readonly View[]): void {
  root.replaceChildren();
  append(root, [
    h('p', { class: 'brand' }, h('span', { class: 'mark', 'aria-hidden': 'true' }), 'meshtrial',
      h('span', { class: 'study' }, 'profile')),
    h('main', { id: 'main', tabindex: -1 }, views.map((v, i) => profile(v, `profile-${String(i)}`))),
    h('footer', {}, 'Self-contained: this file makes no network requests.'),
  ]);
}

const root = document.getElementById('app');
if (root) {
  const page = embedded(document);
  if (page && !('sections' in page)) {
    const profiles = page.profiles ?? [];
    document.title = visible(`${profiles[0]?.title ?? 'profile'} · meshtrial`);
    showProfiles(root, profiles);
  } else if (page) {
    document.title = visible(`${page.title} · meshtrial`);
    show(root, page);
  } else {
    append(root, [h('p', { class: 'empty' }, 'This page was built without a report in it.')]);
  }
  root.setAttribute('data-ready', '');
}
