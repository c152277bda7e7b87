// Generated from the types of the Go program by `make documents`: do not edit.
/**
 * What the page is given.
 */
export type PageDocument = (Page | ProfilePage);
/**
 * Way lists the proxies that a request passes, by their parts, in order. A
 * proxy that it passes twice is there twice.
 */
export type Way = readonly string[];
/**
 * Times are times of which some may be [Never]. In JSON those are null.
 */
export type Times = readonly number[];
/**
 * Page is the document that the HTML page of a run draws. The types of
 * ui/web/src/documents.ts are made from it: make documents.
 */
export interface Page {
    readonly findings: Findings;
    /**
     * Answers are the findings in words; the first is the headline.
     */
    readonly answers: (readonly string[] | null);
    /**
     * Warnings has each warning once, with the number of findings it stands at.
     */
    readonly warnings: (readonly string[] | null);
    /**
     * Names are of the findings that it has, in the order of reports.
     */
    readonly names: (readonly FindingName[] | null);
    /**
     * Proxies name the parts of trials that are proxies, in the order of reports.
     */
    readonly proxies: (readonly PartName[] | null);
    /**
     * Sections are the report's as other formats have them: the page draws the
     * tables of those that it has no picture of.
     */
    readonly sections: (readonly Section[] | null);
    /**
     * Profiles are of trials that were profiled: each a profile.View.
     */
    readonly profiles?: readonly View[];
}
/**
 * Findings is the document findings.json and `report --format json`: what a
 * run says, and all that a report needs to draw it.
 */
export interface Findings {
    readonly schema: number;
    /**
     * of its study: KindDataPlane or another
     */
    readonly kind: string;
    readonly study: string;
    readonly question: string;
    /**
     * paragraphs, with empty lines between
     */
    readonly story?: string;
    readonly run: string;
    /**
     * RFC 3339
     */
    readonly started: string;
    readonly seed: number;
    readonly lab: string;
    /**
     * Observed is where CPU and memory were read, as the run's header says.
     */
    readonly observed?: string;
    readonly meshtrial: string;
    readonly machine: Machine;
    readonly components: (readonly Component[] | null);
    readonly validity: ValiditySummary;
    readonly rules: Rules;
    /**
     * Stop says why the run ended: "interval narrow enough", "limit"...
     */
    readonly stop: string;
    readonly noise_floor: (readonly NoiseFloor[] | null);
    readonly findings: (readonly Finding[] | null);
    readonly assertions: (readonly Assertion[] | null);
    /**
     * Cells has one entry for each measured cell in the plan's order.
     */
    readonly cells: (readonly CellSummary[] | null);
    readonly published?: readonly Published[];
    /**
     * the factors that vary, in the study's order
     */
    readonly factors: (readonly FactorLevels[] | null);
    readonly warnings?: readonly string[];
    /**
     * Money says which mesh findings in money are about, and at which prices.
     */
    readonly money?: string;
    /**
     * resolved
     */
    readonly study_yaml: string;
    /**
     * Bills are what the parts of a study's bill cost, one for each combination
     * of its other factors.
     */
    readonly bills?: readonly Bill[];
    /**
     * Hops are the cost breakdown of the request path, likewise.
     */
    readonly hops?: readonly Hops[];
    /**
     * Sizings set ways of carrying requests side by side in a stated mesh, likewise.
     */
    readonly sizings?: readonly Sizing[];
    readonly tuning?: Tuning;
    readonly soak?: Soak;
    /**
     * Profiles are where proxies spent their CPU time, by cell and part, as the
     * page draws them: each a profile.View.
     */
    readonly profiles?: readonly View[];
}
/**
 * Machine is where the run took place.
 */
export interface Machine {
    readonly cpu_model: string;
    readonly cpus: number;
    readonly memory_bytes: number;
    readonly kernel: string;
    readonly os: string;
    /**
     * hypervisor, "" for none seen
     */
    readonly virtual?: string;
    /**
     * tsc, kvm-clock...
     */
    readonly clock_source?: string;
    /**
     * frequency scaling
     */
    readonly governor?: string;
    /**
     * v1, v2, hybrid
     */
    readonly cgroup_mode?: string;
    readonly nodes?: number;
    /**
     * server version
     */
    readonly kubernetes?: string;
    /**
     * what doctor warned of
     */
    readonly remarks?: readonly string[];
    readonly node_arch?: string;
    /**
     * as containerd 1.7.0
     */
    readonly container_runtime?: string;
}
/**
 * Component is a measured binary.
 */
export interface Component {
    readonly name: string;
    readonly version: string;
    readonly digest?: string;
    readonly source?: string;
    /**
     * e.g. "Istio telemetry filter"
     */
    readonly lacks?: readonly string[];
}
/**
 * ValiditySummary counts trials and says why some may not be believed.
 */
export interface ValiditySummary {
    readonly trials: number;
    readonly valid: number;
    readonly invalid: number;
    readonly blocks: number;
    /**
     * Reasons counts failed checks by name, with one example each.
     */
    readonly reasons?: readonly InvalidReason[];
}
/**
 * InvalidReason is a failed check, how often it failed, and an example.
 */
export interface InvalidReason {
    readonly check: string;
    readonly trials: number;
    readonly example: string;
}
/**
 * Rules say by what trials were judged.
 */
export interface Rules {
    readonly version: number;
    /**
     * Limits are the bounds of checks by name, with the values in force.
     */
    readonly limits: ({
        readonly [k: string]: number;
    } | null);
}
/**
 * NoiseFloor is what two identical baselines of a block differ by; no
 * overhead below it is real.
 */
export interface NoiseFloor {
    /**
     * "latency_p50", "cpu_worker"...
     */
    readonly measure: string;
    readonly cell: (Cell | null);
    /**
     * absolute difference
     */
    readonly floor: number;
    readonly unit: string;
    readonly blocks: number;
    /**
     * RelativeRatio is the floor over the baseline's own value.
     */
    readonly relative_ratio: number;
    /**
     * Standard deviations as shares of the value, of what differs between blocks
     * (and cancels inside them), between identical deployments, and between
     * trials of one. TrialsRatio is 0 where each block has deployments of its
     * own: DeploymentsRatio is both together then. All are 0 where nothing is
     * known.
     */
    readonly between_blocks_ratio?: number;
    readonly between_deployments_ratio?: number;
    readonly between_trials_ratio?: number;
}
/**
 * Cell is one combination of levels: factor name to level, both in their
 * canonical spelling. Every factor of the study is present, also those that
 * the study leaves at their default.
 */
export interface Cell {
    readonly [k: string]: string;
}
/**
 * Finding is an estimate with interval, unit, the cells compared and a
 * verdict. Cell and Against hold only the factors that vary in the study.
 */
export interface Finding {
    /**
     * "latency_p50_overhead", "cpu_client_proxy_per_request"...
     */
    readonly name: string;
    /**
     * latency, cpu, memory...
     */
    readonly probe: string;
    readonly cell: (Cell | null);
    readonly against?: Cell;
    readonly estimate: number;
    /**
     * 95% interval; see Trials
     */
    readonly low: number;
    readonly high: number;
    /**
     * Open says which ends of what a search or a knee found are not known: OpenHigh
     * and others; absent where both are. An upper end that is not known equals the
     * lower, a lower one is 0.
     */
    readonly open?: string;
    /**
     * us, ms, us/request, bytes, ratio
     */
    readonly unit: string;
    /**
     * or deployments, where one served several blocks
     */
    readonly blocks: number;
    readonly verdict: string;
    readonly relative?: Ratio;
    /**
     * Margin is the difference, either way and in the finding's unit, that the
     * study says does not matter; absent for plain values.
     */
    readonly margin?: number;
    /**
     * MDE is the smallest effect this run would have found in 80% of cases.
     */
    readonly minimum_detectable_effect?: number;
    readonly warnings?: readonly string[];
    /**
     * Reason says why the verdict is what it is, where programs need to know:
     * ReasonWithinFloor and others. The first of Warnings says it in words.
     */
    readonly reason?: string;
    readonly trials?: FaultTrials;
}
/**
 * Ratio is a plain fraction with its 95% interval.
 */
export interface Ratio {
    readonly estimate: number;
    readonly low: number;
    readonly high: number;
}
/**
 * FaultTrials is in how many trials that have a count it is not zero.
 */
export interface FaultTrials {
    readonly with: number;
    readonly of: number;
}
/**
 * Assertion is a CEL expression over findings and its outcome.
 */
export interface Assertion {
    readonly expr: string;
    readonly passed: boolean;
    readonly detail: string;
}
/**
 * CellSummary is what a cell's valid trials measured, all blocks together.
 */
export interface CellSummary {
    readonly cell: (Cell | null);
    /**
     * short, for legends: "both · 16 connections"
     */
    readonly label: string;
    readonly baseline: boolean;
    readonly trials: number;
    readonly valid: number;
    readonly way?: Way;
    readonly requests: number;
    readonly failed: number;
    /**
     * Unfinished are requests that had not ended when the trial did; they count as
     * failed ones do in percentiles.
     */
    readonly unfinished?: number;
    readonly latency_intended_us: Latency;
    /**
     * NotReached are percentiles, as p99, that lie among requests that failed or
     * did not end: theirs is infinite.
     */
    readonly not_reached?: readonly string[];
    readonly latency_send_us: Latency;
    /**
     * Percentiles is the latency percentile curve (intended time): points of
     * percentile (0..100) and microseconds, dense in the tail.
     */
    readonly percentiles: (readonly CurvePoint[] | null);
    /**
     * CDF has microseconds as X and the share of requests (0..1) as Y.
     */
    readonly cdf: (readonly CurvePoint[] | null);
    /**
     * CPUPerRequest is microseconds of CPU per request by part.
     */
    readonly cpu_us_per_request: ({
        readonly [k: string]: CPUPerRequest;
    } | null);
    /**
     * PSS by part, median over trials
     */
    readonly memory_bytes: ({
        readonly [k: string]: number;
    } | null);
    readonly schedule_lag_p99_us: number;
    readonly schedule?: ScheduleSummary;
    /**
     * Connections by pod (PartGenerator, PartWorker) and proxy of a node, each number
     * the median over trials.
     */
    readonly connections?: {
        readonly [k: string]: Connections;
    };
    readonly pressure?: Pressure;
    /**
     * Threads of the parts, means over trials; absent where they were not
     * measured.
     */
    readonly threads?: {
        readonly [k: string]: ThreadsSummary;
    };
    /**
     * Blocks has the cell's median latency in each valid block, for the
     * picture of drift; in control-plane studies its median convergence.
     */
    readonly block_p50_us: (readonly BlockValue[] | null);
    readonly control?: ControlSummary;
    readonly scenario?: ScenarioSummary;
}
/**
 * Latency summarises a distribution of times, in microseconds. In JSON its members stand
 * side by side, with 0 for quantiles that are not known.
 */
export interface Latency {
    readonly min: number;
    readonly p50: number;
    readonly p90: number;
    readonly p99: number;
    readonly p999: number;
    readonly max: number;
    readonly mean: number;
}
/**
 * CurvePoint is a point of a curve.
 */
export interface CurvePoint {
    readonly x: number;
    readonly y: number;
}
/**
 * CPUPerRequest is microseconds of CPU per request, user and kernel apart.
 */
export interface CPUPerRequest {
    readonly user_us: number;
    readonly system_us: number;
    /**
     * LowUS and HighUS are the interval of the sum; equal where there is
     * none, as with a single block.
     */
    readonly low_us: number;
    readonly high_us: number;
    /**
     * Whole says that user and kernel time are not told apart: UserUS is both.
     */
    readonly whole?: boolean;
}
/**
 * ScheduleSummary says how the generator kept its schedule in a cell's windows, and
 * how much its requests tell.
 */
export interface ScheduleSummary {
    /**
     * Distance is how far the gaps between its actions are from those of the
     * arrivals asked for ([Schedule]), AchievedRatio its rate as a share of that
     * asked for.
     */
    readonly distance: number;
    readonly achieved_ratio: number;
    /**
     * Autocorrelation is that of neighbours' latencies, and EffectiveRequests as
     * how many independent requests a window's count.
     */
    readonly autocorrelation: number;
    readonly effective_requests: number;
}
/**
 * Connections are a pod's TCP connections, as its kernel counts them: those
 * of the role, of its sidecar and of control servers alike. The counts are
 * how far the counters rose within the window.
 */
export interface Connections {
    /**
     * at the end of the window
     */
    readonly established: number;
    /**
     * by the pod
     */
    readonly opened: number;
    /**
     * by the pod
     */
    readonly accepted: number;
    /**
     * segments
     */
    readonly retransmitted: number;
}
/**
 * Pressure is the machine's state in the window.
 */
export interface Pressure {
    /**
     * share of the window in which some task waited for a CPU
     */
    readonly cpu_some_ratio: number;
    /**
     * likewise memory
     */
    readonly memory_some_ratio: number;
    readonly io_some_ratio: number;
    /**
     * CPU time the hypervisor took, of all CPU time
     */
    readonly steal_ratio: number;
    /**
     * CPU time in use, of all CPU time
     */
    readonly busy_ratio: number;
}
/**
 * ThreadsSummary is what a part's threads did in a cell, means over its valid
 * trials.
 */
export interface ThreadsSummary {
    readonly trials: number;
    /**
     * Cores that the part used by the kernel's account of its cgroup, and
     * that its CPU limit allows (0 for none).
     */
    readonly cores: number;
    readonly quota_cores?: number;
    /**
     * ThrottledRatio is the share of periods of CPU bandwidth in which the
     * limit held it back.
     */
    readonly throttled_ratio: number;
    /**
     * ImbalanceRatio is how much more than the mean of all workers the busiest
     * one used, as a share of the mean; 0 if they are even.
     */
    readonly imbalance_ratio?: number;
    /**
     * DisagreementRatio is by how much of its CPU time, in the worst trial,
     * threads and cgroup did not agree.
     */
    readonly disagreement_ratio: number;
    readonly rows: (readonly ThreadRow[] | null);
    /**
     * Limit names what holds the part back, one of the Limit constants, "" if
     * nothing does; Says is the evidence in words.
     */
    readonly limit?: string;
    readonly says?: string;
}
/**
 * ThreadRow is a worker, a main thread, or several threads together. Ratios
 * are of one CPU's time.
 */
export interface ThreadRow {
    /**
     * "worker_0", "main", "others", "pilot-agent"...
     */
    readonly name: string;
    readonly worker?: boolean;
    /**
     * at most, over trials
     */
    readonly threads: number;
    readonly user_ratio: number;
    readonly system_ratio: number;
    /**
     * ready, without a CPU
     */
    readonly wait_ratio: number;
    /**
     * Switches per second.
     */
    readonly voluntary_per_s: number;
    readonly involuntary_per_s: number;
    /**
     * Accepted counts the connections that a worker accepted in a trial, the
     * median over trials; nil where the proxy does not tell.
     */
    readonly accepted_connections?: number;
}
/**
 * BlockValue is a value measured in one block.
 */
export interface BlockValue {
    readonly block: number;
    readonly repeat: number;
    readonly value: number;
}
/**
 * ControlSummary is what a control-plane cell's valid trials measured. Sums
 * are over all of them, means are of the trials'. Beside what became of the
 * changes it has only what the study asks to be measured; the rest is zero.
 */
export interface ControlSummary {
    /**
     * that these figures are of
     */
    readonly trials: number;
    /**
     * of one trial
     */
    readonly proxies: number;
    readonly gateways: number;
    readonly ztunnels?: number;
    readonly real_proxies: number;
    readonly installed?: Cell;
    /**
     * changes, sum
     */
    readonly committed: number;
    /**
     * changes that the API server did not take, sum
     */
    readonly failed: number;
    /**
     * Change-proxy pairs that had it, those that never
     * acknowledged it, those where a later change came in one with it, and
     * those that needed it and never had it; sums.
     */
    readonly pairs: number;
    readonly unacked: number;
    readonly superseded: number;
    readonly missed: number;
    /**
     * Acknowledged counts the pairs that convergence is of; percentiles that
     * leave less than one of them beyond are there, but say nothing.
     */
    readonly acknowledged_pairs: number;
    readonly convergence_us: Latency;
    readonly received_us: Latency;
    readonly applied_us?: Latency;
    /**
     * Percentiles and CDF are curves of convergence as those of latency.
     */
    readonly percentiles: (readonly CurvePoint[] | null);
    readonly cdf: (readonly CurvePoint[] | null);
    /**
     * First, median and last proxy to acknowledge a change: medians over
     * changes.
     */
    readonly first_us: number;
    readonly median_us: number;
    readonly last_us: number;
    readonly edges?: Edges;
    /**
     * Changes are those of one trial, the cell's first, in their order.
     */
    readonly changes: (readonly ChangePoint[] | null);
    /**
     * Stages is the waterfall, means of the trials' means; MeanUS is the
     * measured mean that they add up to but for ResidualUS.
     */
    readonly stages: (readonly Stage[] | null);
    readonly mean_us: number;
    readonly residual_us: number;
    /**
     * MissingStages names stages that no trial measured.
     */
    readonly missing_stages?: readonly string[];
    readonly unexplained?: Unexplained;
    /**
     * ReportedP99US is the 99th percentile by istiod's own histogram, the mean
     * of ReportedTrials trials; ReportedFirstTrials counts those where it lies
     * in the first bucket and is but a straight line through that. Absent where
     * istiod has none.
     */
    readonly reported_p99_us?: number;
    readonly reported_trials?: number;
    readonly reported_first_bucket_trials?: number;
    /**
     * Pushes are istiod's by type, means per trial.
     */
    readonly pushes: ({
        readonly [k: string]: number;
    } | null);
    /**
     * Wire is what proxies received by type, sums.
     */
    readonly wire: ({
        readonly [k: string]: Wire;
    } | null);
    /**
     * ConfigBytes is what a proxy holds by type, medians over trials.
     */
    readonly config_bytes: ({
        readonly [k: string]: number;
    } | null);
    /**
     * ScopeConfigBytes is the same in the namespace that a Sidecar applies to.
     */
    readonly scope_config_bytes?: {
        readonly [k: string]: number;
    };
    /**
     * JoinUS is how long a new proxy took to get its first configuration there,
     * and JoinBytes how much came by type: medians over trials; 0 and nil if
     * none joined.
     */
    readonly join_us?: number;
    readonly join_bytes?: {
        readonly [k: string]: number;
    };
    /**
     * Holdings are what single proxies held and who brought it, of one trial.
     */
    readonly holdings?: readonly Holding[];
    /**
     * sums, by why
     */
    readonly reconnects?: {
        readonly [k: string]: number;
    };
    /**
     * IstiodCPUS and the others are CPU seconds in the windows, sums, over
     * WindowSeconds, those of the API server over APIServerSeconds; IdleCores
     * and APIServerIdleCores are what they used before, medians, the second
     * nil if nobody measured it.
     */
    readonly window_s: number;
    readonly istiod_cpu: CPU;
    readonly simulator_cpu: CPU;
    readonly apiserver_cpu?: CPU;
    readonly idle_cores: number;
    /**
     * Parts is who used the node's CPUs in the windows, mean cores by part
     * (those of a trial's cost, PartAPIServer, and PartRest: the machine less
     * all others). Without PartMachine and PartRest where they are on several
     * machines.
     */
    readonly cores_by_part?: {
        readonly [k: string]: number;
    };
    readonly apiserver_s?: number;
    readonly apiserver_idle_cores?: number;
    /**
     * SimulatorLagP99US is how late the simulated proxies read, a median.
     */
    readonly simulator_lag_p99_us: number;
    /**
     * sum
     */
    readonly stale_proxy_s: number;
    readonly traffic?: Traffic;
    /**
     * of istiod, median; 0 if it was not read
     */
    readonly memory_bytes: number;
    /**
     * median
     */
    readonly heap_bytes: number;
    /**
     * sum
     */
    readonly alloc_bytes: number;
    /**
     * median
     */
    readonly goroutines: number;
    readonly recovery?: Disruption;
    /**
     * Profiles are istiod's, of one trial.
     */
    readonly profiles?: readonly Profile[];
    /**
     * Missing lists metrics that this istiod does not have, Uncounted counters
     * of errors that no trial showed: at zero, or unknown to this version.
     */
    readonly missing_metrics?: readonly string[];
    readonly uncounted_metrics?: readonly string[];
}
/**
 * Edges are how long changes took to the first proxy, to half of the proxies
 * and to the last one, over changes.
 */
export interface Edges {
    /**
     * Changes is how many these are of; Lacking of them were acknowledged by
     * no proxy, which lies beyond all others.
     */
    readonly changes: number;
    readonly lacking: number;
    readonly first_us: Quantiles;
    readonly median_us: Quantiles;
    readonly last_us: Quantiles;
}
/**
 * Quantiles holds the values of a distribution at the quantiles of [WithMax], in their
 * order. Those that are not known have no value: too few observations lie beyond them,
 * they lie among observations that never ended, or a record of another version lacks them.
 */
export interface Quantiles {
    readonly p50: (number | null);
    readonly p90: (number | null);
    readonly p99: (number | null);
    readonly p999: (number | null);
    readonly max: (number | null);
}
/**
 * ChangePoint is a change in a trial: when, and how long until the first,
 * the median and the last proxy had acknowledged it (-1 if none had).
 */
export interface ChangePoint {
    /**
     * after the trial's first change
     */
    readonly at_s: number;
    readonly kind: string;
    readonly proxies: number;
    readonly first_us: number;
    readonly median_us: number;
    readonly last_us: number;
}
/**
 * Stage is a part of the way from a change to a proxy's acknowledgement.
 */
export interface Stage {
    /**
     * watch, debounce, push_context, queue, generate, wire, ack
     */
    readonly name: string;
    readonly mean_us: number;
    /**
     * Source says what it was read from.
     */
    readonly source: string;
    /**
     * CheckUS is what a second source says in its place, CheckSource which;
     * absent where there is none.
     */
    readonly check_us?: number;
    readonly check_source?: string;
}
/**
 * Unexplained is by how much single change-proxy pairs miss the sum
 * of their own stages.
 */
export interface Unexplained {
    /**
     * looked at: those that were acknowledged
     */
    readonly pairs: number;
    /**
     * Beyond counts those that miss it by more than [MaxResidualUS] of their
     * own time, either way; Unlogged those of them whose way istiod's log does
     * not show from end to end.
     */
    readonly beyond: number;
    readonly beyond_unlogged: number;
    /**
     * LargestUS is what the pair that misses it most lacks, microseconds;
     * below zero where its stages say more than passed.
     */
    readonly largest_us: number;
}
/**
 * Wire is what came over the wire of one type of resource.
 */
export interface Wire {
    readonly responses: number;
    /**
     * of the messages, as on the wire before encryption
     */
    readonly bytes: number;
    readonly resources: number;
    /**
     * Identical counts resources whose content was what the proxy had.
     */
    readonly identical: number;
    readonly identical_bytes: number;
    readonly removed: number;
    readonly acks: number;
    readonly nacks: number;
}
/**
 * Holding is the configuration that one proxy held at the end of a trial, and
 * who brought it: a real Envoy's by its config dump, or that of a simulated
 * proxy, which stands for all of its kind.
 */
export interface Holding {
    /**
     * NAME.NAMESPACE of its pod
     */
    readonly proxy: string;
    readonly namespace: string;
    /**
     * sidecar or router
     */
    readonly type: string;
    readonly real?: boolean;
    /**
     * Proxies is how many it stands for: of a simulated proxy those of its
     * type, in its namespace and in others, that hold as much.
     */
    readonly proxies: number;
    /**
     * DumpBytes is its size as JSON: of a real Envoy the whole answer of
     * /config_dump?include_eds, of a simulated proxy what Envoy would print of
     * the same resources. EndpointDumpBytes is what of it are endpoints, which
     * a plain /config_dump leaves out.
     */
    readonly dump_bytes: number;
    readonly endpoint_dump_bytes: number;
    /**
     * WireBytes is its size as protobuf; 0 of a real Envoy, whose dump does not
     * tell.
     */
    readonly wire_bytes?: number;
    readonly resources: number;
    /**
     * Owners brought most of it, largest first; the rest are summed up.
     */
    readonly owners: (readonly OwnerBytes[] | null);
    readonly others: OwnerBytes;
    /**
     * OtherOwners is how many those are.
     */
    readonly other_owners?: number;
    /**
     * Largest are its largest resources.
     */
    readonly largest?: readonly ResourceBytes[];
    /**
     * File is the whole of it in the run directory; "" where it was not kept.
     */
    readonly file?: string;
}
/**
 * OwnerBytes is what an owner brought.
 */
export interface OwnerBytes {
    /**
     * Owner is "Kind namespace/name".
     */
    readonly owner?: string;
    readonly dump_bytes: number;
    readonly wire_bytes?: number;
    readonly resources: number;
}
/**
 * ResourceBytes is one resource.
 */
export interface ResourceBytes {
    readonly type: string;
    readonly name: string;
    readonly owner: string;
    readonly dump_bytes: number;
    readonly wire_bytes?: number;
}
/**
 * CPU is processor time in seconds. Of a part in [Trial.Sampled] user and system
 * time are not told apart: UserS is all of it.
 */
export interface CPU {
    readonly user_s: number;
    readonly system_s: number;
    /**
     * ThrottledS is the time the CPU limit held the part back.
     */
    readonly throttled_s?: number;
}
/**
 * Traffic is what real requests met while the endpoints of their Service
 * changed: what the generator saw, what the client's sidecar saw, and which of
 * its attempts went to an address that was gone (phantom). An address is gone
 * from when a watch of the API server shows that no EndpointSlice of the
 * Service has it as ready any more.
 */
export interface Traffic {
    readonly rate_rps: number;
    readonly connections: number;
    /**
     * Requests == Completed + sum of Failed + Unfinished, by the generator.
     */
    readonly requests: number;
    readonly completed: number;
    /**
     * by kind, as the generator names them
     */
    readonly failed: ({
        readonly [k: string]: number;
    } | null);
    readonly unfinished: number;
    readonly latency_intended_us: Latency;
    /**
     * Gone counts the addresses that went while the requests ran.
     */
    readonly addresses_gone: number;
    /**
     * Attempts are those that the client's sidecar made at endpoints; a
     * request has several where it was retried.
     */
    readonly attempts: number;
    /**
     * Unconnected of them failed to get a connection: they are not in the
     * sidecar's own counter. GivenUp had no answer when the caller went away:
     * those that waited for a connection then are not in it either.
     */
    readonly attempts_unconnected: number;
    readonly attempts_given_up: number;
    /**
     * Counted are the others by the sidecar's own counter of its cluster.
     */
    readonly attempts_counted: number;
    /**
     * ProxyFailed are requests that the sidecar answered with an error, or
     * whose caller went away, by Envoy's response flags, or the status of an
     * error that an endpoint itself answered.
     */
    readonly proxy_failed: ({
        readonly [k: string]: number;
    } | null);
    /**
     * Residual is how many requests failed for the generator beyond those
     * that the sidecar knows of.
     */
    readonly residual: number;
    /**
     * PhantomAttempts went to an address that was gone; PhantomEnded of them
     * when its pod's processes had ended too, PhantomFailed of them failed.
     */
    readonly phantom_attempts: number;
    readonly phantom_ended: number;
    readonly phantom_failed_attempts: number;
    /**
     * PhantomRequests had at least one such attempt. Of them PhantomServed
     * were answered by the pod on its way out, PhantomHidden failed there and
     * were saved by a retry, PhantomFailures the caller saw fail, and
     * PhantomOpen have no end that is known.
     */
    readonly phantom_requests: number;
    readonly phantom_served: number;
    readonly phantom_hidden: number;
    readonly phantom_failures: number;
    readonly phantom_open: number;
    /**
     * PhantomFlags has why the attempts failed, by the same.
     */
    readonly phantom_flags?: {
        readonly [k: string]: number;
    };
    /**
     * HiddenMaxUS is the longest that a request saved by a retry lost at
     * addresses that were gone.
     */
    readonly hidden_max_us: number;
    /**
     * LastPhantomUS is how long after an address had gone the last attempt
     * went to it: the caller's own staleness, the longest over addresses.
     */
    readonly last_phantom_us: number;
    /**
     * Reasons are the first few different ones of each kind in Failed; absent in
     * older records.
     */
    readonly failure_reasons?: {
        readonly [k: string]: readonly string[] | null;
    };
}
/**
 * Disruption is what a trial did to all connections once its window was over, and
 * how they came back. Times are microseconds from its beginning.
 */
export interface Disruption {
    /**
     * as the factor disruption has it, without a number
     */
    readonly kind: string;
    /**
     * WatchedS is how long it was watched.
     */
    readonly watched_s: number;
    /**
     * Lost counts the simulated proxies that lost their stream, Back those of them
     * that had all of their configuration again at the end.
     */
    readonly lost: number;
    readonly back: number;
    readonly recovered_us?: Times;
    readonly without_us: Latency;
    readonly returns: number;
    /**
     * Losses counts streams of configured proxies that ended, Refused new ones that
     * istiod turned away for its limit, Failed other attempts that failed.
     */
    readonly losses: number;
    readonly refused: number;
    readonly failed: number;
    /**
     * ReadyUS is when the last of istiod's new replicas was ready; 0 where none
     * was to come, -1 where they were not to the end.
     */
    readonly ready_us?: number;
    /**
     * CPUS is istiod's CPU time, CPUPeak the most cores that it used from one look
     * to the next, MemoryPeakBytes the most memory, of all replicas together.
     */
    readonly cpu_s: number;
    readonly cpu_peak_cores: number;
    readonly memory_peak_bytes: number;
    /**
     * Imbalance is by what share the fullest replica has more connections than the
     * mean at the end; nil with one replica, or none that said. BalancedUS is from
     * when on it stayed within a quarter; nil if it did not.
     */
    readonly imbalance?: number;
    readonly balanced_us?: number;
    /**
     * Points are istiod's replicas as time went on.
     */
    readonly points: (readonly DisruptionPoint[] | null);
}
/**
 * DisruptionPoint is how things stood at one moment.
 */
export interface DisruptionPoint {
    readonly at_us: number;
    /**
     * simulated proxies that have everything
     */
    readonly synced: number;
    readonly replicas: (readonly ReplicaPoint[] | null);
}
/**
 * ReplicaPoint is one replica of istiod at one moment.
 */
export interface ReplicaPoint {
    readonly pod: string;
    /**
     * was not there before the disruption
     */
    readonly new?: boolean;
    readonly ready: boolean;
    /**
     * Connections are those that it counts; nil where it did not say.
     */
    readonly connections?: number;
    /**
     * CPUS is its CPU time since it began, or since the first look at one that was
     * there before; MemoryBytes what it has. nil and 0 where nobody looked.
     */
    readonly cpu_s?: number;
    readonly memory_bytes?: number;
}
/**
 * Profile says where one replica of istiod spent what, while changes were
 * made. Whole, as pprof reads it, it is under profiles/.
 */
export interface Profile {
    readonly replica: number;
    /**
     * cpu, mutex, block, heap
     */
    readonly kind: string;
    /**
     * of all that follows: nanoseconds, or bytes
     */
    readonly unit: string;
    readonly total: number;
    /**
     * Seconds is how long it was taken for.
     */
    readonly s: number;
    /**
     * Flame is the name of the flame graph under profiles/; "" without one.
     */
    readonly flame?: string;
    /**
     * Flat and Cumulative have the top functions by self cost, and
     * with all that they call.
     */
    readonly flat: (readonly ProfileCost[] | null);
    readonly cumulative: (readonly ProfileCost[] | null);
}
/**
 * ProfileCost is one function's share of a profile, in its unit.
 */
export interface ProfileCost {
    readonly function: string;
    /**
     * in the function itself
     */
    readonly flat: number;
    /**
     * with all that it calls
     */
    readonly cumulative: number;
}
/**
 * ScenarioSummary is what a cell of a study of resilience showed. The verdict
 * is of all its trials, the figures are of the one that Shown names.
 */
export interface ScenarioSummary {
    /**
     * Verdict is what the study expects if every trial came to that. One
     * trial that did not makes it that trial's.
     */
    readonly verdict: string;
    readonly expected: string;
    readonly as_expected: boolean;
    readonly trials: (readonly TrialVerdict[] | null);
    /**
     * trial whose figures follow; "" if none has any
     */
    readonly shown: string;
    /**
     * Values are that trial's by the names of findings, in their units.
     */
    readonly values?: {
        readonly [k: string]: number;
    };
    /**
     * of the timeline
     */
    readonly s: number;
    readonly windows: (readonly ScenarioWindow[] | null);
    readonly total: ScenarioWindow;
    readonly steps: (readonly ScenarioStep[] | null);
    readonly ledger: ScenarioLedger;
    /**
     * LedgerOf says who wrote about requests, as of Scenario.Ledger.
     */
    readonly ledger_of?: string;
    readonly series: ScenarioSeries;
    readonly graph: ScenarioGraph;
    /**
     * by part, as of Scenario
     */
    readonly cpu?: {
        readonly [k: string]: CPU;
    };
    readonly pods?: {
        readonly [k: string]: number;
    };
    readonly memory_bytes?: {
        readonly [k: string]: number;
    };
    /**
     * what bounds the expected attempts, in words
     */
    readonly retries: string;
    readonly levers?: {
        readonly [k: string]: string;
    };
}
/**
 * TrialVerdict is one trial's.
 */
export interface TrialVerdict {
    readonly trial: string;
    readonly block: number;
    readonly repeat: number;
    readonly verdict: string;
    /**
     * ErrorShare is of its requests that failed or never ended.
     */
    readonly error_share?: number;
    /**
     * Why says why it is inconclusive.
     */
    readonly why?: readonly string[];
    readonly assertions: (readonly ScenarioAssertion[] | null);
}
/**
 * ScenarioAssertion is what an assertion came to in a trial.
 */
export interface ScenarioAssertion {
    readonly expr: string;
    /**
     * Time is the part of the timeline that it is about, in words; "" for
     * assertions about the whole trial.
     */
    readonly time?: string;
    /**
     * a verdict
     */
    readonly outcome: string;
    /**
     * when and by how much
     */
    readonly detail: string;
}
/**
 * ScenarioWindow is a part of the timeline between two boundaries, which are
 * begins and ends of steps as they happened. Requests are in it by the time at
 * which they were due; those that a step's begin made fail while they were
 * under way are in the step's window. ErrorShare is of those that failed or never
 * ended.
 */
export interface ScenarioWindow {
    readonly name: string;
    /**
     * several where steps begin or end at once
     */
    readonly names: (readonly string[] | null);
    readonly from_s: number;
    readonly to_s: number;
    readonly requests: number;
    /**
     * well
     */
    readonly answered: number;
    readonly failed: number;
    readonly unfinished?: number;
    /**
     * by the client's kind of failure
     */
    readonly failed_by?: {
        readonly [k: string]: number;
    };
    readonly error_share: number;
    /**
     * due, a second
     */
    readonly rate_rps: number;
    /**
     * answers within the window per second, whenever their requests were due
     */
    readonly answered_rps: number;
    readonly latency_us: Latency;
    /**
     * LongestFailUS is the longest time in which no request that was due
     * succeeded.
     */
    readonly longest_failing_run_us: number;
    /**
     * Attempts of a request between the two services that have the most.
     */
    readonly attempts: number;
    /**
     * attempts that failed and were made again
     */
    readonly hidden: number;
    /**
     * Phantom are requests to stale endpoints, PhantomAttempts attempts.
     */
    readonly phantom: number;
    readonly phantom_attempts: number;
    readonly unreconciled: number;
    /**
     * Keys are the values of the header that consistent hashes go by which were
     * sent in the window and before it; MovedKeys of them were answered by
     * another endpoint last.
     */
    readonly keys?: number;
    readonly moved_keys?: number;
    /**
     * the fewest endpoints by service
     */
    readonly ready?: {
        readonly [k: string]: number;
    };
    /**
     * the most
     */
    readonly ejected?: {
        readonly [k: string]: number;
    };
    readonly edges?: readonly ScenarioEdge[];
    readonly expected: ScenarioExpectation;
    readonly surprises?: readonly string[];
}
/**
 * ScenarioEdge is the traffic between two services in a window.
 */
export interface ScenarioEdge {
    readonly from: string;
    readonly to: string;
    readonly requests: number;
    readonly attempts: number;
    readonly failed: number;
    readonly flags?: {
        readonly [k: string]: number;
    };
    readonly p50_us: number;
    readonly p99_us: number;
}
/**
 * ScenarioExpectation is what arithmetic says of a window.
 */
export interface ScenarioExpectation {
    readonly demand_rps: number;
    /**
     * Service is the one that is used most, CapacityRPS the most requests of
     * the clients that it leaves possible; 0 for no bound known.
     */
    readonly service?: string;
    /**
     * that it has left
     */
    readonly replicas?: number;
    readonly capacity_rps?: number;
    /**
     * ErrorShare is the least that must fail: what exceeds the capacity, and
     * what broken endpoints get, retries taken into account.
     */
    readonly error_share: number;
    /**
     * Broken is the share of attempts that meet an endpoint which cannot
     * answer, while nobody takes it out.
     */
    readonly broken?: number;
    /**
     * Attempts is the bound of attempts per request.
     */
    readonly attempts: number;
    /**
     * P50US and P99US are of the time at that service, waiting included; 0 if
     * its queue grows without end or nothing bounds it.
     */
    readonly p50_us?: number;
    readonly p99_us?: number;
}
/**
 * ScenarioStep is one turn of a step of the timeline. Times are seconds after
 * the timeline's begin, durations microseconds after the step's.
 */
export interface ScenarioStep {
    readonly name: string;
    readonly op: string;
    readonly object: string;
    readonly planned_s: number;
    readonly begin_s: number;
    readonly applied_s: number;
    readonly proven_s?: number;
    /**
     * 0: not before the trial's end
     */
    readonly end_s?: number;
    readonly late_us: number;
    readonly proof?: string;
    readonly error?: string;
    /**
     * requests, those that never ended too, until the next step
     */
    readonly failed: number;
    /**
     * DetectUS is until the first failure that a client was told of, EjectUS until
     * a proxy took an endpoint out, RecoverUS until the last failure before the
     * next step, or until the last request was due that never ended; nil for never. With StillFailing there were failures up to the next step.
     */
    readonly detect_us?: number;
    readonly eject_us?: number;
    readonly recover_us?: number;
    readonly still_failing?: boolean;
    /**
     * LongestFailUS as of windows, until the next step.
     */
    readonly longest_failing_run_us: number;
}
/**
 * ScenarioLedger is what client, proxies and workers wrote, reconciled.
 */
export interface ScenarioLedger {
    readonly requests: number;
    readonly reconciled: boolean;
    readonly classes: ({
        readonly [k: string]: number;
    } | null);
    readonly orphans?: number;
    /**
     * Unwritten counts attempts that a worker knows and its proxy's log leaves
     * out.
     */
    readonly unwritten?: number;
    readonly duplicates?: number;
    readonly equations: (readonly LedgerEquation[] | null);
    readonly faults?: readonly LedgerFault[];
    readonly hidden_by?: {
        readonly [k: string]: number;
    };
    /**
     * each, up to a bound
     */
    readonly unreconciled?: readonly LedgerRequest[];
    /**
     * the first of them
     */
    readonly failures?: readonly LedgerRequest[];
    readonly phantoms?: readonly LedgerPhantom[];
}
/**
 * LedgerEquation is a balance between two stations.
 */
export interface LedgerEquation {
    readonly name: string;
    readonly service: string;
    readonly left: number;
    readonly arrived: number;
    readonly lost?: {
        readonly [k: string]: number;
    };
    readonly missing?: number;
    readonly surplus?: number;
    readonly holds: boolean;
    readonly open?: boolean;
}
/**
 * LedgerFault is how many requests failed at one place in one way.
 */
export interface LedgerFault {
    readonly hop: string;
    readonly service?: string;
    readonly flag?: string;
    /**
     * flags at the client's proxy
     */
    readonly seen?: string;
    readonly count: number;
    readonly meaning?: string;
    readonly cause?: string;
}
/**
 * LedgerRequest is one request by its id.
 */
export interface LedgerRequest {
    readonly id: string;
    readonly at_s: number;
    readonly outcome: string;
    readonly status?: number;
    readonly hop?: string;
    readonly service?: string;
    readonly host?: string;
    readonly flag?: string;
    readonly detail?: string;
    readonly lacks?: readonly string[];
}
/**
 * LedgerPhantom is what was sent to an address after it was gone.
 */
export interface LedgerPhantom {
    readonly address: string;
    readonly attempts: number;
    /**
     * after it was gone
     */
    readonly last_us: number;
}
/**
 * ScenarioSeries is the timeline in bins of BinS seconds.
 */
export interface ScenarioSeries {
    readonly bin_s: number;
    readonly requests: (readonly number[] | null);
    /**
     * by kind
     */
    readonly failed?: {
        readonly [k: string]: readonly number[] | null;
    };
    /**
     * Latency of answered requests; 0 where none was.
     */
    readonly p50_us: (readonly number[] | null);
    readonly p99_us: (readonly number[] | null);
    readonly max_us: (readonly number[] | null);
    /**
     * Ejected endpoints of all services, the most in the bin.
     */
    readonly ejected?: readonly number[];
}
/**
 * ScenarioGraph is the service graph as it is drawn, in units of one service.
 */
export interface ScenarioGraph {
    readonly entry: string;
    readonly clients: number;
    readonly width: number;
    readonly height: number;
    readonly nodes: (readonly ScenarioNode[] | null);
    readonly lines: (readonly ScenarioLine[] | null);
}
/**
 * ScenarioNode is a service's place.
 */
export interface ScenarioNode {
    readonly service: string;
    readonly replicas: number;
    readonly x: number;
    readonly y: number;
}
/**
 * ScenarioLine leads from a caller to a service.
 */
export interface ScenarioLine {
    readonly from: string;
    readonly to: string;
    readonly via?: readonly (readonly [
        number,
        number
    ])[];
}
/**
 * Published sets a figure of the literature beside ours.
 */
export interface Published {
    readonly source: string;
    /**
     * in words
     */
    readonly claim: string;
    readonly finding: string;
    readonly cell: (Cell | null);
    readonly figure: number;
    readonly unit: string;
    readonly measured?: Finding;
    /**
     * Says compares both in words: where they differ and why.
     */
    readonly says: string;
}
/**
 * FactorLevels is a factor that varies and its levels, in the study's order.
 */
export interface FactorLevels {
    readonly factor: string;
    readonly levels: (readonly string[] | null);
    readonly unit?: string;
}
/**
 * Bill is what named parts of a sidecar cost, one by one and all together, in
 * one combination of the study's other factors.
 */
export interface Bill {
    readonly cell: (Cell | null);
    /**
     * Level is the probability that the intervals of a figure hold for all parts of a
     * list at once; those of sums have it each.
     */
    readonly level: number;
    /**
     * Parts are put over the base one at a time, dearest first; Removed are
     * those taken from all together.
     */
    readonly parts: (readonly BillPart[] | null);
    readonly removed?: readonly BillPart[];
    readonly together?: BillSum;
}
/**
 * BillPart is one part's price.
 */
export interface BillPart {
    readonly name: string;
    readonly levels: (Cell | null);
    /**
     * Figures are by what is priced (study.BillCPU and its like): cpu, latency_p50...
     * Of a removed part they are what is saved.
     */
    readonly figures: ({
        readonly [k: string]: Priced;
    } | null);
    /**
     * RankLow and RankHigh are the first and the last place that it may have by
     * CPU: parts that cannot be told apart share places. 0 without a price.
     */
    readonly rank_low: number;
    readonly rank_high: number;
    readonly says: string;
}
/**
 * Priced is a figure of a bill with its interval.
 */
export interface Priced {
    readonly estimate: number;
    readonly low: number;
    readonly high: number;
    readonly unit: string;
    readonly blocks: number;
    readonly verdict: string;
    /**
     * Reason is that of the verdict, as a finding has it.
     */
    readonly reason?: string;
}
/**
 * BillSum sets all parts together beside the sum of what each costs alone, in
 * CPU per request.
 */
export interface BillSum {
    readonly parts: (readonly string[] | null);
    readonly sum: Priced;
    readonly together: Priced;
    readonly interaction: Priced;
    readonly says: string;
}
/**
 * Hops is what a request's way through two sidecars is made of, in one
 * combination of the study's other factors.
 */
export interface Hops {
    readonly cell: (Cell | null);
    /**
     * the residual and the whole last
     */
    readonly terms: (readonly HopTerm[] | null);
    readonly says: (readonly string[] | null);
}
/**
 * HopTerm is a part of the whole: figures by what they are of (study.HopMeasures).
 */
export interface HopTerm {
    readonly name: string;
    readonly doc: string;
    readonly figures: ({
        readonly [k: string]: Priced;
    } | null);
}
/**
 * Sizing sets ways of carrying requests side by side in a stated mesh, in one
 * combination of a study's other factors.
 */
export interface Sizing {
    readonly cell: (Cell | null);
    /**
     * that is stated, in words
     */
    readonly mesh: string;
    /**
     * Along is what the lines are along that tell proxies' use apart, in words; "" for
     * rates.
     */
    readonly along?: string;
    readonly ways: (readonly SizedWay[] | null);
    /**
     * Borders are where, along what the mesh is like, two ways change places.
     */
    readonly borders?: readonly SizedBorder[];
    /**
     * Says compares the ways in the stated mesh, and has the borders between them, in sentences.
     */
    readonly says?: readonly string[];
    readonly notes?: readonly string[];
}
/**
 * SizedWay is what a way of carrying takes.
 */
export interface SizedWay {
    readonly name: string;
    readonly uses: (readonly SizedUse[] | null);
    readonly machine?: Priced;
}
/**
 * SizedUse is what a way takes of CPU or memory, or what it costs.
 */
export interface SizedUse {
    /**
     * SizedCPU, SizedMemory or SizedMonth
     */
    readonly of: string;
    readonly total: Priced;
    /**
     * Idle is what each proxy takes without requests, by its place, and Request what
     * each request adds at all proxies that it passes (memory: each request per second). Of
     * a price neither is told.
     */
    readonly idle: ({
        readonly [k: string]: Priced;
    } | null);
    readonly request: Priced;
    readonly pod?: Priced;
}
/**
 * SizedBorder is where two ways change places.
 */
export interface SizedBorder {
    readonly of: string;
    /**
     * two names of ways
     */
    readonly between: (readonly string[] | null);
    readonly along: string;
    /**
     * the ends of what was looked at
     */
    readonly low: number;
    readonly high: number;
    /**
     * Outcome is lies, none, between, beyond or unknown; see package analysis/sizing.
     */
    readonly outcome: string;
    /**
     * First and Last are the ways that take less at the low and the high end; "" where
     * that cannot be said.
     */
    readonly first?: string;
    readonly last?: string;
    /**
     * At is where the estimates are equal, and From and To the ends of where the
     * interval includes zero; absent where there are none.
     */
    readonly at?: number;
    readonly from?: number;
    readonly to?: number;
    readonly says: string;
}
/**
 * Tuning is what a study that tunes levers found: what was asked, what was tried, which
 * settings no other one beats, and the one that is recommended with the comparison that
 * confirms it, or does not.
 */
export interface Tuning {
    /**
     * as the study has them
     */
    readonly objectives: (readonly string[] | null);
    readonly constraints?: readonly string[];
    /**
     * Grid is how many cells there are, Trials how many trials the search made of them,
     * in how many blocks, and Most how many it might have made.
     */
    readonly grid: number;
    readonly trials: number;
    readonly most_trials: number;
    readonly blocks: number;
    /**
     * Seconds is how long all trials of the run took, the comparison's included.
     */
    readonly trial_seconds: number;
    /**
     * Stop says why the search ended; "" if it did not.
     */
    readonly stop?: string;
    /**
     * Lacking is an objective, or what a constraint bounds, of which valid trials say
     * nothing, as Stop has it, so that there is no answer; "" if there is none.
     */
    readonly lacking?: string;
    /**
     * Modelled are the findings that a model expected something of.
     */
    readonly modelled?: readonly string[];
    /**
     * Measures are the findings that the search knows of each cell: objectives,
     * constraints and the axes of the front.
     */
    readonly measures: (readonly TunedMeasure[] | null);
    /**
     * Cells are those that the search tried, the best first.
     */
    readonly cells: (readonly TunedCell[] | null);
    readonly recommended?: Cell;
    readonly present?: Cell;
    /**
     * Verdict is what the comparison says of the objectives: one of a finding's, or ""
     * before there is one. It is in Confirmed, what the recommended setting adds to the
     * one in use, of blocks that the search did not see.
     */
    readonly verdict?: string;
    readonly confirmed?: readonly TunedDifference[];
    readonly confirm_blocks?: number;
    readonly constraints_confirmed?: readonly TunedBound[];
    /**
     * Settings are how the recommended levels are set, Steps the way there.
     */
    readonly settings?: readonly TunedSetting[];
    readonly steps?: readonly TunedStep[];
    readonly watch?: readonly TunedWatch[];
}
/**
 * TunedMeasure is a finding that a search knows of cells.
 */
export interface TunedMeasure {
    readonly finding: string;
    readonly unit: string;
    /**
     * Axis says that it is an axis of the front.
     */
    readonly axis: boolean;
    /**
     * NoiseRatio is by how much trials of one cell scatter; 0 if that is not known.
     */
    readonly noise_ratio: number;
    /**
     * Missing says why cells have no value of it; "" if they do.
     */
    readonly missing?: string;
}
/**
 * TunedCell is a cell that a search tried. Its values are estimates of all trials of
 * the search together, with 95% intervals.
 */
export interface TunedCell {
    readonly cell: (Cell | null);
    readonly label: string;
    readonly trials: number;
    /**
     * Why says what the search expected of it when it first tried it.
     */
    readonly why?: string;
    readonly objective: Ratio;
    readonly allowed: number;
    /**
     * of Measures, in their order
     */
    readonly values: (readonly TunedValue[] | null);
    /**
     * no other cell beats it on all axes
     */
    readonly front: boolean;
    readonly present?: boolean;
    readonly recommended?: boolean;
}
/**
 * TunedValue is a value with its interval; Known is false where there is none.
 */
export interface TunedValue {
    readonly known: boolean;
    readonly estimate: number;
    readonly low: number;
    readonly high: number;
}
/**
 * TunedDifference is what the recommended setting adds to the one in use, with the
 * value of either.
 */
export interface TunedDifference {
    /**
     * "latency_p50_overhead", "cpu_client_proxy_per_request"...
     */
    readonly name: string;
    /**
     * latency, cpu, memory...
     */
    readonly probe: string;
    readonly cell: Cell;
    readonly against?: Cell1;
    readonly estimate: number;
    /**
     * 95% interval; see Trials
     */
    readonly low: number;
    readonly high: number;
    /**
     * Open says which ends of what a search or a knee found are not known: OpenHigh
     * and others; absent where both are. An upper end that is not known equals the
     * lower, a lower one is 0.
     */
    readonly open?: string;
    /**
     * us, ms, us/request, bytes, ratio
     */
    readonly unit: string;
    /**
     * or deployments, where one served several blocks
     */
    readonly blocks: number;
    readonly verdict: string;
    readonly relative?: Ratio1;
    /**
     * Margin is the difference, either way and in the finding's unit, that the
     * study says does not matter; absent for plain values.
     */
    readonly margin?: number;
    /**
     * MDE is the smallest effect this run would have found in 80% of cases.
     */
    readonly minimum_detectable_effect?: number;
    readonly warnings?: readonly string[];
    /**
     * Reason says why the verdict is what it is, where programs need to know:
     * ReasonWithinFloor and others. The first of Warnings says it in words.
     */
    readonly reason?: string;
    readonly trials?: FaultTrials1;
    readonly before: TunedValue;
    readonly after: TunedValue;
}
/**
 * Cell is one combination of levels: factor name to level, both in their
 * canonical spelling. Every factor of the study is present, also those that
 * the study leaves at their default.
 */
export interface Cell1 {
    readonly [k: string]: string;
}
/**
 * Ratio is a plain fraction with its 95% interval.
 */
export interface Ratio1 {
    readonly estimate: number;
    readonly low: number;
    readonly high: number;
}
/**
 * FaultTrials is in how many trials that have a count it is not zero.
 */
export interface FaultTrials1 {
    readonly with: number;
    readonly of: number;
}
/**
 * TunedBound is a constraint held against the comparison.
 */
export interface TunedBound {
    readonly constraint: string;
    /**
     * Verdict says whether the recommended setting meets it: [TunedMet], [TunedBroken] or
     * [VerdictInconclusive]; Says has the figures.
     */
    readonly verdict: string;
    readonly says: string;
    /**
     * Present says the same of the setting in use.
     */
    readonly present?: string;
}
/**
 * TunedSetting is how a lever is set.
 */
export interface TunedSetting {
    readonly lever: string;
    readonly from: string;
    readonly to: string;
    readonly do: string;
    readonly yaml?: string;
    readonly back?: string;
}
/**
 * TunedStep is one step of the way: a lever's level after it.
 */
export interface TunedStep {
    readonly lever: string;
    readonly from: string;
    readonly to: string;
    /**
     * Share is by how much that changes the level, 0.3 for 30%; 0 for levels that are
     * no numbers.
     */
    readonly share: number;
    readonly do: string;
    readonly back?: string;
}
/**
 * TunedWatch is a signal to watch during a step, and when to turn back.
 */
export interface TunedWatch {
    readonly signal: string;
    /**
     * PromQL
     */
    readonly query: string;
    /**
     * Before and After are what this run saw of it in the setting in use and in the
     * recommended one, in words; "" where it saw neither.
     */
    readonly before?: string;
    readonly after?: string;
    /**
     * when to turn back
     */
    readonly turn_back: string;
}
/**
 * Soak is what became of one istiod, and of real sidecars, that lived through a run.
 */
export interface Soak {
    /**
     * Hours is how long the life that is told lasted, from its first window's end to its
     * last one's, and Windows how many of them are valid.
     */
    readonly hours: number;
    readonly windows: number;
    /**
     * Lives is how many istiods the run had, one after the other, and Elsewhere how
     * many valid windows are of those that are not told.
     */
    readonly lives: number;
    readonly elsewhere?: number;
    /**
     * MarginRatio is the growth per hour, of a figure itself, that does not matter.
     */
    readonly margin_ratio: number;
    /**
     * LimitBytes is what istiod's memory may come to, and LimitIs what that is; 0
     * where it is not known.
     */
    readonly limit_bytes?: number;
    readonly limit_is?: string;
    readonly growths: (readonly Growth[] | null);
}
/**
 * Growth is how one figure of a soak went.
 */
export interface Growth {
    /**
     * Finding is the name of how fast it grows, Unit that of the figure itself.
     */
    readonly finding: string;
    readonly unit: string;
    /**
     * First is its median over the first windows, in which it warms up, Warm that over
     * the next third and Last that over the last one.
     */
    readonly first: number;
    readonly warm: number;
    readonly last: number;
    /**
     * NeedsHours is how long a soak would have to be for an answer, FullHours when the
     * limit would be reached at this rate, with the ends of its interval; 0 for none.
     */
    readonly needs_h?: number;
    readonly full_h?: number;
    readonly full_low_h?: number;
    readonly full_high_h?: number;
    /**
     * Points are its windows: hours since the first one, and the figure.
     */
    readonly points: (readonly CurvePoint[] | null);
}
/**
 * View is a profile as the page draws it: each path once, and weights by thread
 * and path. The page makes trees of it, of all, of a thread, or of the kernel.
 * Lists are columns, since there may be thousands of rows.
 */
export interface View {
    readonly title: string;
    readonly kind: string;
    readonly unit: string;
    readonly total: number;
    readonly samples: number;
    /**
     * Names are of frames; Modules of FrameModule.
     */
    readonly names: (readonly string[] | null);
    readonly modules: (readonly string[] | null);
    /**
     * FrameName, FrameModule and FrameFlags are by frame; flags are 1 for the
     * kernel, 2 for inlined, 4 for a module in place of a name.
     */
    readonly frame_name: (readonly number[] | null);
    readonly frame_module: (readonly number[] | null);
    readonly frame_flags: (readonly number[] | null);
    /**
     * Parent and Frame are by path; path 0 is the root, callers come first.
     */
    readonly parent: (readonly number[] | null);
    readonly frame: (readonly number[] | null);
    readonly threads: (readonly string[] | null);
    /**
     * SampleThread, SamplePath and SampleWeight are by thread and path.
     */
    readonly sample_thread: (readonly number[] | null);
    readonly sample_path: (readonly number[] | null);
    readonly sample_weight: (readonly number[] | null);
    /**
     * Folded is the weight that was added to callers, since paths were too thin
     * to be drawn.
     */
    readonly folded?: number;
    /**
     * share of samples in user space with a name
     */
    readonly trust: number;
    /**
     * whether there are enough names to show functions
     */
    readonly enough: boolean;
    readonly advice?: readonly string[];
    readonly notes?: readonly string[];
    readonly binaries?: readonly Binary[];
    readonly costs?: Costs;
    readonly against?: ViewDiff;
}
/**
 * Binary is a program or library with frames.
 */
export interface Binary {
    readonly path: string;
    /**
     * hexadecimal; "" if unknown
     */
    readonly build_id?: string;
    /**
     * Type is what its file holds: [TypeFull], [TypeExports], [TypeStripped],
     * [TypeDebug], [TypeGo], or "" if it was not read.
     */
    readonly type?: string;
    /**
     * Resolved is the share of the weight of its innermost frames that have
     * a name; Weight is that of samples whose innermost frame is in it.
     */
    readonly resolved: number;
    readonly weight: number;
    readonly text?: Segment;
    /**
     * Doubt is why its names were taken away: [DoubtBuild], [DoubtDeleted],
     * [DoubtGuessed], or "" if they were not. Why says it in words.
     */
    readonly doubt?: string;
    readonly why?: string;
}
/**
 * Segment is the part of a binary that the kernel maps to run it: Size bytes
 * of the file from Offset, linked at Address.
 */
export interface Segment {
    readonly offset: number;
    readonly address: number;
    readonly size: number;
}
/**
 * Costs is where a program's time went, by cost centre.
 */
export interface Costs {
    readonly total: number;
    readonly unit: string;
    readonly samples: number;
    /**
     * that intervals come from
     */
    readonly blocks: number;
    /**
     * of the intervals, in words
     */
    readonly method: string;
    readonly centres: (readonly CentreCost[] | null);
    /**
     * Filters are those of the configuration, if one was given, with what was
     * seen of them.
     */
    readonly filters?: readonly FilterCost[];
}
/**
 * CentreCost is a cost centre's cost. Each sample belongs to one centre, so that
 * weights add up to the total.
 */
export interface CentreCost {
    readonly group: string;
    readonly name: string;
    readonly weight: number;
    /**
     * Share is of all samples, with its 95% interval.
     */
    readonly share: number;
    readonly low: number;
    readonly high: number;
    /**
     * Kernel is the weight of samples in the kernel on behalf of the centre;
     * the kernel's own centres have it too.
     */
    readonly kernel?: number;
    /**
     * Within is the weight of samples with the centre anywhere in their
     * stack.
     */
    readonly within: number;
}
/**
 * FilterCost joins a configured filter to its cost centre.
 */
export interface FilterCost {
    /**
     * GroupHTTPFilter, GroupNetworkFilter, GroupListenerFilter
     */
    readonly group: string;
    /**
     * in the configuration
     */
    readonly name: string;
    /**
     * Centre is the name of its functions' cost centre.
     */
    readonly centre: string;
    /**
     * the message's
     */
    readonly type?: string;
    /**
     * Plugin and Runtime are a Wasm filter's.
     */
    readonly plugin?: string;
    readonly runtime?: string;
    /**
     * filter chains with it
     */
    readonly places: number;
    readonly share: number;
    readonly low: number;
    readonly high: number;
    /**
     * Within is the share of samples with it anywhere in their stack.
     */
    readonly within: number;
    readonly seen: boolean;
    /**
     * Shared says that other configured filters have the same functions, so
     * that the share is theirs too.
     */
    readonly shared?: boolean;
}
/**
 * ViewDiff is a difference by path of the view. Deltas are of shares.
 */
export interface ViewDiff {
    readonly title: string;
    readonly method: string;
    readonly before: DiffSide;
    readonly after: DiffSide;
    readonly path: (readonly number[] | null);
    readonly before_share: (readonly number[] | null);
    readonly after_share: (readonly number[] | null);
    readonly low: (readonly number[] | null);
    readonly high: (readonly number[] | null);
    readonly warnings?: readonly string[];
}
/**
 * DiffSide is one of the two measurements.
 */
export interface DiffSide {
    readonly total: number;
    readonly unit: string;
    readonly samples: number;
    readonly blocks: number;
}
/**
 * FindingName is what a finding is called, and the section of a report that shows it.
 */
export interface FindingName {
    /**
     * as findings have it
     */
    readonly name: string;
    /**
     * in tables and warnings
     */
    readonly words: string;
    /**
     * what a difference adds to: "to the median latency"
     */
    readonly phrase: string;
    /**
     * "" if only documents for programs have it
     */
    readonly section?: string;
}
/**
 * PartName is what a part of a trial is called.
 */
export interface PartName {
    /**
     * as documents have it
     */
    readonly part: string;
    readonly words: string;
}
export interface Section {
    readonly name: string;
    readonly tables: (readonly Table[] | null);
}
/**
 * Table is a table with a title and remarks under it.
 */
export interface Table {
    readonly title: string;
    readonly columns: (readonly Column[] | null);
    readonly rows: (readonly (readonly string[] | null)[] | null);
    readonly notes?: readonly string[];
    /**
     * Texts are shown as they are, line by line, after the notes.
     */
    readonly texts?: readonly Listing[];
}
/**
 * Column is a table column. Keep orders columns by importance: when a table
 * is too wide, the columns with the lowest Keep above 0 go first; 0 is never
 * left out.
 */
export interface Column {
    readonly head: string;
    readonly right?: boolean;
}
/**
 * Listing is a text that is kept as it is, such as a manifest.
 */
export interface Listing {
    readonly name: string;
    readonly text: string;
}
/**
 * ProfilePage is the document that the page of `meshtrial profile` draws.
 */
export interface ProfilePage {
    readonly profiles: (readonly View[] | null);
}
