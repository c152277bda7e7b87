// The types of record.Bill and record.Hops as JSON; record/bill.go and hops.go say what each field means.

import type { Cell } from './data';

export interface Bill {
  /** Levels of the other factors that vary. */
  readonly cell: Cell | null;
  readonly level: number;
  /** Put over the base one at a time, dearest first. */
  readonly parts: readonly BillPart[];
  /** Taken from all together one at a time. */
  readonly removed?: readonly BillPart[];
  readonly together?: BillSum;
}

export interface BillPart {
  readonly name: string;
  readonly levels: Cell | null;
  readonly figures: Readonly<Record<string, Priced>>;
  readonly rank_low: number;
  readonly rank_high: number;
  readonly says: string;
}

export interface Priced {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
  readonly unit: string;
  readonly blocks: number;
  readonly verdict: string;
}

export interface BillSum {
  readonly parts: readonly string[];
  readonly sum: Priced;
  readonly together: Priced;
  readonly interaction: Priced;
  readonly says: string;
}

/** record.Hops. */
export interface Hops {
  /** Levels of the other factors that vary. */
  readonly cell: Cell | null;
  /** The residual and the whole last. */
  readonly terms: readonly HopTerm[];
  readonly says: readonly string[];
}

export interface HopTerm {
  readonly name: string;
  readonly doc: string;
  readonly figures: Readonly<Record<string, Priced>>;
}
