// The document that the page was written with.

import type { PageDocument } from './documents';

/** Reads it; null if the page has none. */
export function embedded(doc: Document): PageDocument | null {
  const text = doc.getElementById('meshtrial-data')?.textContent ?? 'null';
  return JSON.parse(text) as PageDocument | null;
}
