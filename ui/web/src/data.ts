// The types of record.Findings as JSON; record/findings.go says what each
// field means. All times are in microseconds: the report converts them.

import type { Bill, Hops } from './bill';
import type { ProfileView } from './profile';
import type { ScenarioSummary } from './scenario';

export type Cell = Readonly<Record<string, string>>;

export interface Page {
  readonly findings: Findings;
  /** The answers in words; the first is the headline. */
  readonly answers: readonly string[];
  readonly warnings: readonly string[] | null;
  /** Of trials that were profiled. */
  readonly profiles?: readonly ProfileView[] | null;
}

/** What `meshtrial profile` gives the page. */
export interface ProfilePage {
  readonly profiles: readonly ProfileView[];
}

export interface Findings {
  readonly schema: number;
  readonly study: string;
  readonly question: string;
  /** Of a study of resilience. */
  readonly story?: string;
  /** The mesh that findings in money are about, and its prices. */
  readonly money?: string;
  readonly run: string;
  readonly started: string;
  readonly seed: number;
  readonly lab: string;
  readonly meshtrial: string;
  readonly machine: Machine;
  readonly components: readonly Component[] | null;
  readonly validity: Validity;
  readonly stop: string;
  readonly noise_floor: readonly NoiseFloor[] | null;
  readonly findings: readonly Finding[] | null;
  readonly assertions: readonly Assertion[] | null;
  readonly cells: readonly CellSummary[] | null;
  readonly published?: readonly Published[] | null;
  readonly factors: readonly FactorLevels[] | null;
  readonly study_yaml: string;
  readonly bills?: readonly Bill[] | null;
  readonly hops?: readonly Hops[] | null;
}

export interface Machine {
  readonly cpu_model: string;
  readonly cpus: number;
  readonly memory_bytes: number;
  readonly kernel: string;
  readonly os: string;
  readonly virtual?: string;
  readonly clock_source?: string;
  readonly governor?: string;
  readonly cgroup_mode?: string;
  readonly nodes?: number;
  readonly kubernetes?: string;
  readonly node_arch?: string;
  readonly container_runtime?: string;
}

export interface Component {
  readonly name: string;
  readonly version: string;
  readonly digest?: string;
  readonly source?: string;
  readonly lacks?: readonly string[];
}

export interface Validity {
  readonly trials: number;
  readonly valid: number;
  readonly invalid: number;
  readonly blocks: number;
  readonly reasons?: readonly { readonly check: string; readonly trials: number; readonly example: string }[];
}

export interface NoiseFloor {
  readonly measure: string;
  readonly cell: Cell | null;
  readonly floor: number;
  readonly unit: string;
  readonly blocks: number;
  readonly relative_ratio: number;
}

export interface Finding {
  readonly name: string;
  readonly probe: string;
  readonly cell: Cell | null;
  readonly against?: Cell | null;
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
  readonly unit: string;
  readonly blocks: number;
  readonly verdict: string;
  /** The overhead as a share of the baseline's own value. */
  readonly relative?: { readonly estimate: number; readonly low: number; readonly high: number };
  readonly minimum_detectable_effect?: number;
  readonly warnings?: readonly string[];
}

export interface Assertion {
  readonly expr: string;
  readonly passed: boolean;
  readonly detail: string;
}

export interface Latency {
  readonly min: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
  readonly mean: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface CPUPerRequest {
  readonly user_us: number;
  readonly system_us: number;
  readonly low_us: number;
  readonly high_us: number;
}

export interface Connections {
  readonly established: number;
  readonly opened: number;
  readonly accepted: number;
  readonly retransmitted: number;
}

export interface Pressure {
  readonly cpu_some_ratio: number;
  readonly memory_some_ratio: number;
  readonly io_some_ratio: number;
  readonly steal_ratio: number;
  readonly busy_ratio: number;
}

/** What a part's threads did, means over trials. */
export interface ThreadsSummary {
  readonly cores: number;
  readonly quota_cores?: number;
  readonly throttled_ratio: number;
  readonly imbalance_ratio?: number;
  readonly disagreement_ratio: number;
  readonly rows: readonly ThreadRow[] | null;
  /** What holds the part back, and the evidence in words. */
  readonly limit?: string;
  readonly says?: string;
}

/** A worker, a main thread, or several threads together; ratios are of one CPU's time. */
export interface ThreadRow {
  readonly name: string;
  readonly worker?: boolean;
  readonly threads: number;
  readonly user_ratio: number;
  readonly system_ratio: number;
  readonly wait_ratio: number;
  readonly voluntary_per_s: number;
  readonly involuntary_per_s: number;
  readonly accepted_connections?: number;
}

export interface CellSummary {
  readonly cell: Cell | null;
  readonly label: string;
  readonly baseline: boolean;
  readonly trials: number;
  readonly valid: number;
  readonly requests: number;
  readonly failed: number;
  readonly latency_intended_us: Latency;
  readonly latency_send_us: Latency;
  readonly percentiles: readonly Point[] | null;
  readonly cdf: readonly Point[] | null;
  readonly cpu_us_per_request: Readonly<Record<string, CPUPerRequest>> | null;
  readonly memory_bytes: Readonly<Record<string, number>> | null;
  readonly schedule_lag_p99_us: number;
  /** By pod: generator is the client's, worker the server's. */
  readonly connections?: Readonly<Record<string, Connections>> | null;
  readonly pressure?: Pressure;
  /** By part. */
  readonly threads?: Readonly<Record<string, ThreadsSummary>> | null;
  readonly control?: ControlSummary | null;
  readonly scenario?: ScenarioSummary | null;
  readonly block_p50_us: readonly { readonly block: number; readonly repeat: number; readonly value: number }[] | null;
}

/** What a control-plane study measured in place of latency. */
export interface ControlSummary {
  readonly proxies: number;
  readonly gateways: number;
  readonly real_proxies: number;
  readonly committed: number;
  readonly failed: number;
  readonly pairs: number;
  readonly unacked: number;
  readonly superseded: number;
  readonly missed: number;
  readonly convergence_us: Latency;
  readonly received_us: Latency;
  readonly applied_us?: Latency;
  readonly percentiles: readonly Point[] | null;
  readonly cdf: readonly Point[] | null;
  readonly first_us: number;
  readonly median_us: number;
  readonly last_us: number;
  /** More of their distributions; absent if no proxy acknowledged any. */
  readonly edges?: Edges | null;
  readonly changes: readonly ChangePoint[] | null;
  readonly stages: readonly Stage[] | null;
  /** Stages that nobody measured; their time is in the residual. */
  readonly missing_stages?: readonly string[] | null;
  readonly mean_us: number;
  readonly residual_us: number;
  /** How many single pairs miss their own stages; absent where nobody counted. */
  readonly unexplained?: { readonly pairs: number; readonly beyond: number };
  readonly reported_p99_us?: number;
  readonly reported_first_bucket?: boolean;
  readonly pushes: Readonly<Record<string, number>> | null;
  readonly wire: Readonly<Record<string, Wire>> | null;
  readonly config_bytes: Readonly<Record<string, number>> | null;
  /** Of the proxies in the namespace that a Sidecar applies to. */
  readonly scope_config_bytes?: Readonly<Record<string, number>> | null;
  /** How long a new proxy there took to get its first configuration, and what came. */
  readonly join_us?: number;
  readonly join_bytes?: Readonly<Record<string, number>> | null;
  /** What single proxies held and who brought it. */
  readonly holdings?: readonly Holding[] | null;
  readonly window_s: number;
  readonly istiod_cpu: CPU;
  readonly simulator_cpu: CPU;
  readonly apiserver_cpu?: CPU;
  readonly idle_cores: number;
  /** Who used the node's CPUs in the windows, mean cores. */
  readonly cores_by_part?: Readonly<Record<string, number>> | null;
  readonly apiserver_s?: number;
  readonly apiserver_idle_cores?: number;
  readonly stale_proxy_s: number;
  /** Absent where no requests were sent. */
  readonly traffic?: Traffic | null;
  readonly heap_bytes: number;
  readonly alloc_bytes: number;
  readonly goroutines?: number;
  readonly profiles?: readonly Profile[] | null;
  /** Metrics that this istiod does not have. */
  readonly missing_metrics?: readonly string[] | null;
  /** Counters of errors that no trial showed. */
  readonly uncounted_metrics?: readonly string[] | null;
}

/** How long changes took to the first, the median and the last proxy. */
export interface Edges {
  readonly changes: number;
  readonly lacking: number;
  readonly first_us: ChangeQuantiles;
  readonly median_us: ChangeQuantiles;
  readonly last_us: ChangeQuantiles;
}

/** Quantiles over changes; null where there are too few to tell. */
export interface ChangeQuantiles {
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
  readonly p999: number | null;
  readonly max: number | null;
}

/** What real requests met at endpoints that were gone, over all trials. */
export interface Traffic {
  readonly requests: number;
  readonly failed: Readonly<Record<string, number>> | null;
  readonly unfinished: number;
  readonly latency_intended_us: Latency;
  readonly addresses_gone: number;
  readonly phantom_requests: number;
  readonly phantom_served: number;
  readonly phantom_hidden: number;
  readonly phantom_failures: number;
  readonly phantom_open: number;
  readonly hidden_max_us: number;
  readonly last_phantom_us: number;
  /** Failures that the generator saw and the caller's sidecar did not. */
  readonly residual: number;
}

/** What one proxy held, and who brought it. */
export interface Holding {
  readonly proxy: string;
  readonly namespace: string;
  readonly type: string;
  readonly real?: boolean;
  /** How many proxies it stands for. */
  readonly proxies: number;
  readonly dump_bytes: number;
  readonly wire_bytes?: number;
  readonly resources: number;
  readonly owners: readonly OwnerBytes[] | null;
  readonly others: OwnerBytes;
  readonly other_owners?: number;
}

export interface OwnerBytes {
  readonly owner?: string;
  readonly dump_bytes: number;
  readonly wire_bytes?: number;
  readonly resources: number;
}

/** A part of the way; check_us is what a second source says. */
export interface Stage {
  readonly name: string;
  readonly mean_us: number;
  readonly source: string;
  readonly check_us?: number;
  readonly check_source?: string;
}

/** Where one replica of istiod spent what, taken outside the window. */
export interface Profile {
  readonly replica: number;
  readonly kind: string;
  readonly unit: string;
  readonly total: number;
  readonly s: number;
  readonly flame?: string;
  readonly flat: readonly ProfileCost[] | null;
  readonly cumulative: readonly ProfileCost[] | null;
}

export interface ProfileCost {
  readonly function: string;
  readonly flat: number;
  readonly cumulative: number;
}

export interface ChangePoint {
  readonly at_s: number;
  readonly kind: string;
  readonly proxies: number;
  /** -1 if no proxy had it. */
  readonly first_us: number;
  readonly median_us: number;
  readonly last_us: number;
}

export interface Wire {
  readonly responses: number;
  readonly bytes: number;
  readonly resources: number;
  readonly identical: number;
  readonly acks: number;
  readonly nacks: number;
}

export interface CPU {
  readonly user_s: number;
  readonly system_s: number;
}

export interface Published {
  readonly source: string;
  readonly claim: string;
  readonly finding: string;
  readonly cell: Cell | null;
  readonly figure: number;
  readonly unit: string;
  readonly measured?: Finding;
  readonly says: string;
}

export interface FactorLevels {
  readonly factor: string;
  readonly levels: readonly string[];
  readonly unit?: string;
}

/** Reads the data that the report was written with; null if it has none. */
export function embedded(doc: Document): Page | ProfilePage | null {
  const text = doc.getElementById('meshtrial-data')?.textContent ?? 'null';
  return JSON.parse(text) as Page | ProfilePage | null;
}
