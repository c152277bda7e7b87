// Documents that the Go program made of made-up runs (kinds/reports/fixtures_test.go);
// `make documents` writes them again.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CellSummary, ControlSummary, Findings, Page, ProfilePage } from '../src/documents';

const read = (name: string): unknown => JSON.parse(readFileSync(join(import.meta.dirname, 'fixtures', `${name}.json`), 'utf8'));

export type Study = 'data-plane' | 'bill' | 'hops' | 'control-plane' | 'phantom' | 'resilience' | 'empty';

/** A run's page, with some of its findings changed. */
export function page(study: Study, change: Partial<Findings> = {}): Page {
  const given = read(study) as Page;
  return { ...given, findings: { ...given.findings, ...change } };
}

export const findings = (study: Study): Findings => page(study).findings;

export const profilePage = (): ProfilePage => read('profile') as ProfilePage;

export function cells(study: Study): readonly CellSummary[] {
  return findings(study).cells ?? [];
}

/** The first of a list that has one. */
export function first<T>(list: readonly T[] | null | undefined): T {
  const [one] = list ?? [];
  if (one === undefined) throw new Error('an empty list');
  return one;
}

/** The cells of a study of the control plane, some of their figures changed. */
export function controlCells(study: Study, ...changes: readonly Partial<ControlSummary>[]): CellSummary[] {
  return cells(study).map((cell, i) => {
    if (!cell.control) throw new Error('a cell without control');
    return { ...cell, control: { ...cell.control, ...changes[i] } };
  });
}

export const texts = (root: Element, selector: string): string[] => [...root.querySelectorAll(selector)].map((e) => e.textContent);

/** The texts of each row of a table's body; row headers come first. */
export const rows = (table: Element | null | undefined): string[][] => [...(table?.querySelectorAll('tbody tr') ?? [])].map((row) => texts(row, 'th, td'));

/** The table whose caption begins so. */
export function tableOf(root: Element, caption: string): Element {
  const found = [...root.querySelectorAll('table')].find((t) => t.querySelector('caption')?.textContent.startsWith(caption));
  if (!found) throw new Error(`no table ${caption}`);
  return found;
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
