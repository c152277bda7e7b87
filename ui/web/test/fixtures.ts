// Documents that the Go program made of made-up runs (kinds/reports/fixtures_test.go);
// `make documents` writes them again.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page, PageSection, View } from '../src/documents';

const read = (name: string): unknown => JSON.parse(readFileSync(join(import.meta.dirname, 'fixtures', `${name}.json`), 'utf8'));

export type Study = 'data-plane' | 'bill' | 'hops' | 'control-plane' | 'phantom' | 'resilience' | 'empty';

export const studies: readonly Study[] = ['data-plane', 'bill', 'hops', 'control-plane', 'phantom', 'resilience', 'empty'];

/** A run's page. */
export const page = (study: Study): Page => read(study) as Page;

/** The page of a profile, and the profile that it draws. */
export const profilePage = (): Page => read('profile') as Page;

export function profileView(): View {
  const { flame } = first(first(profilePage().sections).charts);
  if (!flame) throw new Error('no flame graph');
  return flame;
}

export const sections = (study: Study): readonly PageSection[] => page(study).sections ?? [];

/** The first of a list that has one. */
export function first<T>(list: readonly T[] | null | undefined): T {
  const [one] = list ?? [];
  if (one === undefined) throw new Error('an empty list');
  return one;
}

/** Chooses a radio button. */
export function press(root: Element, selector: string): void {
  const radio = root.querySelector<HTMLInputElement>(selector);
  if (!radio) throw new Error(`no switch ${selector}`);
  radio.checked = true;
  radio.dispatchEvent(new Event('change'));
}

/** What no page may show. */
export const broken = /NaN|undefined|Infinity/;

export const source = (root: Element | null): string => (root ? new XMLSerializer().serializeToString(root) : '');
