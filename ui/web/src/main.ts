// The page: reads what it was given, and draws it.

import './style.css';
import { embedded } from './data';
import { append, h, visible } from './dom';
import { follow } from './live';
import { show } from './page';

const root = document.getElementById('app');
if (root) {
  const page = embedded(document);
  if (page) {
    document.title = visible(`${page.title} · meshtrial`);
    show(root, page);
  } else if (location.protocol.startsWith('http')) {
    follow(root);
  } else {
    append(root, [h('p', { class: 'empty' }, 'This page was built without a report in it.')]);
  }
  if (page) root.setAttribute('data-ready', '');
}
