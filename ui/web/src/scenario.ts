// The types of record.ScenarioSummary as JSON; record/scenariosummary.go says
// what each field means. Times of the timeline are in seconds, durations in
// microseconds.

import type { Latency } from './data';

export type Counts = Readonly<Record<string, number>>;

export interface ScenarioSummary {
  /** Who wrote about requests: absent for clients, proxies and workers; inbound; clients. */
  readonly ledger_of?: string;
  readonly verdict: string;
  readonly expected: string;
  readonly as_expected: boolean;
  readonly trials: readonly TrialVerdict[] | null;
  readonly shown: string;
  readonly s: number;
  readonly windows: readonly ScenarioWindow[] | null;
  readonly total: ScenarioWindow;
  readonly steps: readonly ScenarioStep[] | null;
  readonly ledger: Ledger;
  readonly series: SeriesData;
  readonly graph: Graph;
  readonly retries: string;
}

export interface TrialVerdict {
  readonly trial: string;
  readonly verdict: string;
  readonly why?: readonly string[] | null;
  readonly assertions: readonly { readonly expr: string; readonly time?: string; readonly outcome: string; readonly detail: string }[] | null;
}

export interface ScenarioWindow {
  readonly name: string;
  readonly from_s: number;
  readonly to_s: number;
  readonly requests: number;
  readonly answered: number;
  readonly failed: number;
  readonly failed_by?: Counts | null;
  readonly error_share: number;
  readonly rate_rps: number;
  readonly latency_us: Latency;
  readonly longest_failing_run_us: number;
  readonly attempts: number;
  readonly hidden: number;
  readonly phantom: number;
  readonly ready?: Counts | null;
  readonly ejected?: Counts | null;
  readonly edges?: readonly Edge[] | null;
  readonly expected: Expectation;
  readonly surprises?: readonly string[] | null;
}

export interface Expectation {
  readonly demand_rps: number;
  readonly service?: string;
  readonly replicas?: number;
  readonly capacity_rps?: number;
  readonly error_share: number;
  readonly attempts: number;
}

export interface Edge {
  readonly from: string;
  readonly to: string;
  readonly requests: number;
  readonly attempts: number;
  readonly failed: number;
  readonly flags?: Counts | null;
  readonly p50_us: number;
  readonly p99_us: number;
}

export interface ScenarioStep {
  readonly name: string;
  readonly op: string;
  readonly object: string;
  readonly begin_s: number;
  readonly applied_s: number;
  readonly proven_s?: number;
  readonly end_s?: number;
  readonly late_us: number;
  readonly proof?: string;
  readonly error?: string;
  readonly failed: number;
  readonly detect_us?: number;
  readonly eject_us?: number;
  readonly recover_us?: number;
  readonly still_failing?: boolean;
  readonly longest_failing_run_us: number;
}

export interface Ledger {
  readonly requests: number;
  readonly reconciled: boolean;
  readonly equations: readonly { readonly name: string; readonly left: number; readonly arrived: number; readonly lost?: Counts | null; readonly missing?: number; readonly surplus?: number; readonly holds: boolean; readonly open?: boolean }[] | null;
  readonly faults?: readonly { readonly hop: string; readonly service?: string; readonly flag?: string; readonly count: number; readonly meaning?: string; readonly cause?: string }[] | null;
  readonly hidden_by?: Counts | null;
  readonly unreconciled?: readonly { readonly id: string; readonly at_s: number; readonly outcome: string; readonly lacks?: readonly string[] | null }[] | null;
}

export interface SeriesData {
  readonly bin_s: number;
  readonly requests: readonly number[] | null;
  readonly failed?: Readonly<Record<string, readonly number[]>> | null;
  readonly p50_us: readonly number[] | null;
  readonly p99_us: readonly number[] | null;
  readonly max_us: readonly number[] | null;
  readonly ejected?: readonly number[] | null;
}

export interface Graph {
  readonly entry: string;
  readonly clients: number;
  readonly width: number;
  readonly height: number;
  readonly nodes: readonly { readonly service: string; readonly replicas: number; readonly x: number; readonly y: number }[] | null;
  readonly lines: readonly { readonly from: string; readonly to: string; readonly via?: readonly (readonly [number, number])[] | null }[] | null;
}
