// The document that the page was written with.

import type { Page } from './documents';

/** Reads it; null if the page has none. */
export function embedded(doc: Document): Page | null {
  const text = doc.getElementById('meshtrial-data')?.textContent ?? 'null';
  return JSON.parse(text) as Page | null;
}
