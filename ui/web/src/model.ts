// What the views ask of findings: which factors vary, which cells are
// selected, how a cell looks in every chart, and the words for things.

import type { Cell, CellSummary, Finding, Findings, FindingName, NoiseFloor, PartName } from './documents';
import { kindOf, type Kind } from './kind';

/** A cell's identity, as record.Cell.Key in Go. */
export function key(cell: Cell | null | undefined): string {
  return Object.entries(cell ?? {})
    .map(([factor, level]) => `${factor}=${level}`)
    .sort()
    .join(',');
}

/** The part of a cell that the factors name. */
export function pick(cell: Cell | null | undefined, factors: readonly string[]): Cell {
  return Object.fromEntries(factors.map((factor) => [factor, level(cell, factor)]));
}

export function level(cell: Cell | null | undefined, factor: string): string {
  return cell && Object.hasOwn(cell, factor) ? (cell[factor] ?? '') : '';
}

/** A factor that varies; without a unit its levels are plain numbers or names. */
export interface Factor {
  readonly factor: string;
  readonly levels: readonly string[];
  readonly unit?: string;
}

/** How a cell is drawn in every chart. */
export interface Look {
  /** A CSS colour. */
  readonly color: string;
  /** Index of dash pattern and marker: 0 is the most prominent. */
  readonly dash: number;
}

export type Selection = ReadonlyMap<string, ReadonlySet<string>>;

export class Model {
  readonly cells: readonly CellSummary[];
  readonly all: readonly Finding[];
  readonly factors: readonly Factor[];
  /** Factors in which cells differ from their baselines: sidecars. */
  readonly compared: readonly string[];
  /** The first other factor whose levels are numbers: connections. */
  readonly numeric: Factor | undefined;
  /** The factor that colours tell apart, and the one that dashes do. */
  readonly colorFactor: Factor | undefined;
  readonly dashFactor: Factor | undefined;
  readonly kind: Kind;
  private readonly index = new Map<string, Finding>();
  private readonly plain = new Map<string, Finding>();

  constructor(readonly findings: Findings, readonly names: readonly FindingName[] = [], readonly proxies: readonly PartName[] = []) {
    this.kind = kindOf(findings.kind);
    this.cells = findings.cells ?? [];
    this.all = findings.findings ?? [];
    this.factors = (findings.factors ?? []).map((f) => ({ ...f, levels: f.levels ?? [] })).filter((f) => f.levels.length > 0);
    const compared = new Set<string>();
    for (const finding of this.all) {
      if (finding.probe === 'versus') continue; // two levels side by side, none a baseline
      if (!finding.against) {
        this.plain.set(`${finding.name}|${key(finding.cell)}`, finding);
        continue;
      }
      this.index.set(`${finding.name}|${key(finding.cell)}`, finding);
      for (const [factor, l] of Object.entries(finding.cell ?? {})) {
        if (level(finding.against, factor) !== l) compared.add(factor);
      }
    }
    this.compared = this.factors.map((f) => f.factor).filter((f) => compared.has(f));
    const rest = this.factors.filter((f) => f.levels.length > 1 && !compared.has(f.factor));
    this.numeric = rest.find(isNumeric);
    const others = rest.filter((f) => f !== this.numeric);
    const first = this.factors.find((f) => compared.has(f.factor) && f.levels.length > 1);
    this.colorFactor = others.at(-1) ?? first ?? this.numeric;
    this.dashFactor = this.colorFactor === first ? undefined : first;
  }

  /** A finding's name in words: the program's, or else those of the name itself. */
  words(name: string): string {
    return this.names.find((n) => n.name === name)?.words ?? name.replaceAll('_', ' ');
  }

  /** The overhead finding of a measure for a cell. */
  overhead(measure: string, cell: Cell | null): Finding | undefined {
    return this.index.get(`${measure}_overhead|${key(cell)}`);
  }

  /** A cell's own value of a measure. */
  value(measure: string, cell: Cell | null): Finding | undefined {
    return this.plain.get(`${measure}|${key(cell)}`);
  }

  /** The noise floor that a finding was judged by. */
  noise(finding: Finding): NoiseFloor | undefined {
    const measure = finding.name.replace(/_overhead$/, '');
    const floors = (this.findings.noise_floor ?? []).filter((n) => n.measure === measure);
    const own = floors.find((n) => finding.against && key(n.cell) === key(finding.against));
    return own ?? floors.reduce<NoiseFloor | undefined>((a, b) => (a && a.floor >= b.floor ? a : b), undefined);
  }

  look(cell: Cell | null): Look {
    const colorIndex = this.colorFactor?.levels.indexOf(level(cell, this.colorFactor.factor)) ?? 0;
    const baselineFirst = this.colorFactor && this.compared.includes(this.colorFactor.factor);
    const palette = baselineFirst ? colorIndex : colorIndex + 1;
    const dashes = this.dashFactor;
    return {
      color: `var(--series-${((palette % 9) + 9) % 9})`,
      dash: dashes ? dashes.levels.length - 1 - Math.max(0, dashes.levels.indexOf(level(cell, dashes.factor))) : 0,
    };
  }

  /** A label for a cell that names only what is not the same in all cells shown. */
  label(cell: Cell | null, shown: readonly CellSummary[]): string {
    const words = this.factors
      .filter((f) => new Set(shown.map((c) => level(c.cell, f.factor))).size > 1 || this.factors.length === 1)
      .map((f) => levelWords(f, level(cell, f.factor)));
    return words.join(' · ') || 'all';
  }

  /** The whole cell in words. */
  fullLabel(cell: Cell | null): string {
    return this.factors.map((f) => levelWords(f, level(cell, f.factor))).join(' · ') || 'all';
  }

  /** Whether CPU was fitted to a rate. */
  get fitted(): boolean {
    return this.all.some((f) => f.probe === 'fit');
  }

  /**
   * What is shown at first: all, but of a large study one level of the
   * numeric factor in charts that have no axis for it.
   */
  initial(): Map<string, Set<string>> {
    return new Map(this.factors.map((f) => [f.factor, new Set(f.levels)]));
  }

  selected(selection: Selection): CellSummary[] {
    return this.cells.filter((c) => this.factors.every((f) => selection.get(f.factor)?.has(level(c.cell, f.factor)) ?? true));
  }

  /** Every part that a cell has something for, the usual ones first. */
  parts(of: (cell: CellSummary) => Readonly<Record<string, unknown>> | null): string[] {
    const present = new Set(this.cells.flatMap((c) => Object.keys(of(c) ?? {})));
    const usual = [...this.proxies.map((p) => p.part), ...OTHERS];
    return [...usual.filter((p) => present.has(p)), ...[...present].filter((p) => !usual.includes(p)).sort()];
  }

  partWords(part: string): string {
    return this.proxies.find((p) => p.part === part)?.words.replaceAll("'", '’') ?? PART_WORDS.get(part) ?? part.replaceAll('_', ' ');
  }
}

/** Parts of a trial that are no proxies, in the order of reports. */
const OTHERS = ['worker', 'generator', 'control', 'machine'];

const PART_WORDS: ReadonlyMap<string, string> = new Map([
  ['generator', 'load generator'], ['control', 'control plane'], ['machine', 'whole machine'],
]);

const COLORS = ['client_proxy', 'server_proxy', ...OTHERS, 'node_proxy', 'waypoint', 'gateway'];

/** A colour for a part of a trial, the same in every chart. */
export function partColor(part: string): string {
  const i = COLORS.indexOf(part.replace(/^(client|server)_node/, 'node'));
  return `var(--part-${i < 0 ? 5 : i})`;
}

export function isNumeric(factor: Factor): boolean {
  return factor.levels.length > 0 && factor.levels.every((l) => l.trim() !== '' && Number.isFinite(Number(l)));
}

/** A level as people say it: "16 connections", "burst". */
export function levelWords(factor: Factor, l: string): string {
  const unit = factor.unit ?? (factor.factor === 'connections' ? 'connections' : '');
  if (isNumeric(factor)) return unit === '' ? `${factorWords(factor.factor)} ${l}` : `${l} ${unit}`;
  if (factor.factor === 'sidecars') return sidecars.get(l) ?? l;
  return PLAIN.has(factor.factor) ? l : `${factorWords(factor.factor)} ${l}`;
}

/** Levels of sidecars as people say them; others, as ambient, are their own words. */
const sidecars = new Map([['none', 'no sidecars'], ['both', 'both sidecars'], ['server', 'server sidecar'], ['client', 'client sidecar']]);

/** Factors whose levels speak for themselves. */
const PLAIN = new Set(['arrival', 'protocol', 'sidecars', 'variant']);

export const factorWords = (factor: string): string => factor.replaceAll('_', ' ');

/** Whether a finding stands by its figure: it is real, or a plain value. */
export const stands = (verdict: string): boolean => verdict === 'real' || verdict === 'measured';

export function verdictWords(verdict: string): string {
  switch (verdict) {
    case 'no_effect':
      return 'no effect';
    case 'invalid':
      return 'not valid';
  }
  return verdict;
}
