// Sections of a report that the page has no picture of: their tables, as the
// other formats have them.

import type { Section, Table } from '../documents';
import { h } from '../dom';
import { section, table } from './parts';

/** One section; its text is the program's. */
export function tables(given: Section): HTMLElement {
  return section(given.name.replaceAll(/[^a-z0-9]+/gi, '-').toLowerCase(), given.name.charAt(0).toUpperCase() + given.name.slice(1), (given.tables ?? []).map(drawn));
}

function drawn(one: Table): HTMLElement {
  const columns = (one.columns ?? []).map((c) => ({ head: c.head, number: c.right ?? false }));
  return h('div', {}, table(one.title, columns, (one.rows ?? []).map((row) => row ?? [])), (one.notes ?? []).map((note) => h('p', { class: 'key' }, note)),
    (one.texts ?? []).map((text) => [h('p', {}, text.name), h('pre', { tabindex: 0, 'aria-label': text.name }, h('code', {}, text.text))]));
}
