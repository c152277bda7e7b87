package record

import (
	"encoding/json"

	"github.com/meshtrial/meshtrial/internal/note"
)

// Findings is the document findings.json and `report --format json`: what a
// run says, and all that a report needs to draw it.
type Findings struct {
	Schema   int    `json:"schema"`
	Kind     string `json:"kind"` // of its study: KindDataPlane or another
	Study    string `json:"study"`
	Question string `json:"question"`
	Story    string `json:"story,omitempty"` // paragraphs, with empty lines between
	Run      string `json:"run"`
	Started  string `json:"started"` // RFC 3339
	Seed     uint64 `json:"seed"`
	Lab      string `json:"lab"`
	// Observed is where CPU and memory were read, as the run's header says.
	Observed  string          `json:"observed,omitempty"`
	Meshtrial string          `json:"meshtrial"`
	Machine   Machine         `json:"machine"`
	Parts     []Component     `json:"components"`
	Validity  ValiditySummary `json:"validity"`
	// Rules are those by which the trials were judged.
	Rules Rules `json:"rules"`
	// Stop says why the run ended: "interval narrow enough", "limit"...
	Stop       string       `json:"stop"`
	NoiseFloor []NoiseFloor `json:"noise_floor"`
	Findings   []Finding    `json:"findings"`
	Assertions []Assertion  `json:"assertions"`
	// Cells has one entry for each measured cell in the plan's order.
	Cells     []CellSummary  `json:"cells"`
	Published []Published    `json:"published,omitempty"`
	Factors   []FactorLevels `json:"factors"` // the factors that vary, in the study's order
	Warnings  []note.Note    `json:"warnings,omitempty"`
	// Money says which mesh findings in money are about, and at which prices.
	Money     string `json:"money,omitempty"`
	StudyYAML string `json:"study_yaml"` // resolved
	// Bills are what the parts of a study's bill cost, one for each combination
	// of its other factors.
	Bills []Bill `json:"bills,omitempty"`
	// Hops are the cost breakdown of the request path, likewise.
	Hops []Hops `json:"hops,omitempty"`
	// Sizings set ways of carrying requests side by side in a stated mesh, likewise.
	Sizings []Sizing `json:"sizings,omitempty"`
	// Tuning is the best setting of levers, of a study that looks for it.
	Tuning *Tuning `json:"tuning,omitempty"`
	// Soak is what grew in a run through which one istiod lived.
	Soak *Soak `json:"soak,omitempty"`
	// Profiles are where proxies spent their CPU time, by cell and part, as the
	// page draws them: each a profile.View.
	Profiles []json.RawMessage `json:"profiles,omitempty"`

	// Samples and LeftOut are for formats of programs that compare runs by themselves.
	// Documents of findings do not hold them: trials.jsonl does.
	Samples []Sample  `json:"-"`
	LeftOut []LeftOut `json:"-"`
}

// FactorLevels is a factor that varies and its levels, in the study's order.
type FactorLevels struct {
	Factor string   `json:"factor"`
	Levels []string `json:"levels"`
	Unit   string   `json:"unit,omitempty"`
}

// ValiditySummary counts trials and says why some may not be believed.
type ValiditySummary struct {
	Trials  int `json:"trials"`
	Valid   int `json:"valid"`
	Invalid int `json:"invalid"`
	Blocks  int `json:"blocks"`
	// Reasons counts failed checks by name, with one example each.
	Reasons []InvalidReason `json:"reasons,omitempty"`
}

// ScheduleSummary says how the generator kept its schedule in a cell's windows, and
// how much its requests tell.
type ScheduleSummary struct {
	// Distance is how far the gaps between its actions are from those of the
	// arrivals asked for ([Schedule]), AchievedRatio its rate as a share of that
	// asked for.
	Distance      float64 `json:"distance"`
	AchievedRatio float64 `json:"achieved_ratio"`
	// Autocorrelation is that of neighbours' latencies, and EffectiveRequests as
	// how many independent requests a window's count.
	Autocorrelation   float64 `json:"autocorrelation"`
	EffectiveRequests float64 `json:"effective_requests"`
}

// InvalidReason is a failed check, how often it failed, and an example.
type InvalidReason struct {
	Check   string `json:"check"`
	Trials  int    `json:"trials"`
	Example string `json:"example"`
}

// NoiseFloor is what two identical baselines of a block differ by; no
// overhead below it is real.
type NoiseFloor struct {
	Measure string  `json:"measure"` // "latency_p50", "cpu_worker"...
	Cell    Cell    `json:"cell"`    // the baseline cell, varying factors only
	Floor   float64 `json:"floor"`   // absolute difference
	Unit    string  `json:"unit"`
	Blocks  int     `json:"blocks"`
	// RelativeRatio is the floor over the baseline's own value.
	RelativeRatio float64 `json:"relative_ratio"`
	// Standard deviations as shares of the value, of what differs between blocks
	// (and cancels inside them), between identical deployments, and between
	// trials of one. TrialsRatio is 0 where each block has deployments of its
	// own: DeploymentsRatio is both together then. All are 0 where nothing is
	// known.
	BlocksRatio      float64 `json:"between_blocks_ratio,omitempty"`
	DeploymentsRatio float64 `json:"between_deployments_ratio,omitempty"`
	TrialsRatio      float64 `json:"between_trials_ratio,omitempty"`
}

// Verdicts of a finding.
const (
	VerdictReal         = "real"         // the interval excludes zero, also beside the study's other findings, and the estimate exceeds the noise floor
	VerdictNoEffect     = "no_effect"    // the whole interval lies within the margin
	VerdictInconclusive = "inconclusive" // neither: see the reason
	VerdictInvalid      = "invalid"      // too few valid trials
	VerdictMeasured     = "measured"     // a plain value with interval, compared with nothing
	// Verdicts of `compare`.
	VerdictBetter = "better"
	VerdictWorse  = "worse"
	VerdictSame   = "same"
)

// Finding is an estimate with interval, unit, the cells compared and a
// verdict. Cell and Against hold only the factors that vary in the study.
type Finding struct {
	Name  string `json:"name"`  // "latency_p50_overhead", "cpu_client_proxy_per_request"...
	Probe string `json:"probe"` // latency, cpu, memory...
	Cell  Cell   `json:"cell"`
	// Against is the baseline cell; absent for plain values.
	Against  Cell    `json:"against,omitempty"`
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"` // 95% interval; see Trials
	High     float64 `json:"high"`
	// Open says which ends of what a search or a knee found are not known: OpenHigh
	// and others; absent where both are. An upper end that is not known equals the
	// lower, a lower one is 0.
	Open    string `json:"open,omitempty"`
	Unit    string `json:"unit"`   // us, ms, us/request, bytes, ratio
	Blocks  int    `json:"blocks"` // or deployments, where one served several blocks
	Verdict string `json:"verdict"`
	// Relative is the overhead as a share of the baseline's own value,
	// test/baseline - 1; absent for plain values.
	Relative *Ratio `json:"relative,omitempty"`
	// Margin is the difference, either way and in the finding's unit, that the
	// study says does not matter; absent for plain values.
	Margin float64 `json:"margin,omitempty"`
	// MDE is the smallest effect this run would have found in 80% of cases.
	MDE      float64     `json:"minimum_detectable_effect,omitempty"`
	Warnings []note.Note `json:"warnings,omitempty"`
	// Reason says why the verdict is what it is, where programs need to know:
	// ReasonWithinFloor and others. The first of Warnings says more.
	Reason string `json:"reason,omitempty"`
	// Trials says of what must not happen in how many trials it did. Low and High are
	// the fewest and the most of it in one of them then, and no interval.
	Trials *FaultTrials `json:"trials,omitempty"`
}

// Because sets why a finding has its verdict: the reason, and the warning that says it.
func (f *Finding) Because(reason string, why note.Note) {
	f.Reason, f.Warnings = reason, append([]note.Note{why}, f.Warnings...)
}

// Reasons of verdicts.
const (
	ReasonWithinMargin = "within_margin"   // no_effect: the whole interval lies within the margin
	ReasonWithinFloor  = "within_floor"    // inconclusive: the interval excludes zero, but identical baselines differ as much
	ReasonIncludesZero = "includes_zero"   // inconclusive: the interval includes zero and reaches beyond the margin
	ReasonNoInterval   = "no_interval"     // inconclusive: too few blocks for an interval
	ReasonFloorUnknown = "floor_unknown"   // inconclusive: nobody knows how much identical baselines differ
	ReasonMany         = "many_findings"   // inconclusive (no_effect where the margin holds all of it): the interval excludes zero, but of so many findings some do by chance
	ReasonLateLoad     = "late_generator"  // inconclusive: the generator's own lateness may be the effect
	ReasonTooFew       = "too_few_counted" // invalid: too few of what is counted lie beyond this percentile
	ReasonOneBlock     = "one_block"       // inconclusive: a search of one block, whose answer has no interval
	ReasonNotSure      = "not_sure"        // of a search: an end of the interval is open, since no level there is far enough from the bound
	ReasonTooShort     = "too_short"       // of a soak, inconclusive: it may grow by more than the margin, or not at all
	ReasonSettling     = "settling"        // of a soak, inconclusive: it rises, but ever less
	ReasonNotReached   = "not_reached"     // invalid: this percentile lies among requests that failed, or what is timed never came in some trial
)

// Ratio is a plain fraction with its 95% interval.
type Ratio struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Assertion is a CEL expression over findings and its outcome.
type Assertion struct {
	Expr   string `json:"expr"`
	Passed bool   `json:"passed"`
	Detail string `json:"detail"`
}

// CellSummary is what a cell's valid trials measured, all blocks together.
type CellSummary struct {
	Cell     Cell   `json:"cell"`  // the factors that vary
	Label    string `json:"label"` // short, for legends: "both · 16 connections"
	Baseline bool   `json:"baseline"`
	Trials   int    `json:"trials"`
	Valid    int    `json:"valid"`
	// Way is what the cell's requests passed.
	Way      Way   `json:"way,omitempty"`
	Requests int64 `json:"requests"`
	Failed   int64 `json:"failed"`
	// Unfinished are requests that had not ended when the trial did; they count as
	// failed ones do in percentiles.
	Unfinished int64 `json:"unfinished,omitempty"`
	// Intended and Send are over all valid trials, in microseconds.
	// A percentile that too few requests lie beyond is 0.
	Intended Latency `json:"latency_intended_us"`
	// NotReached are percentiles, as p99, that lie among requests that failed or
	// did not end: theirs is infinite.
	NotReached []string `json:"not_reached,omitempty"`
	Send       Latency  `json:"latency_send_us"`
	// Percentiles is the latency percentile curve (intended time): points of
	// percentile (0..100) and microseconds, dense in the tail.
	Percentiles []CurvePoint `json:"percentiles"`
	// CDF has microseconds as X and the share of requests (0..1) as Y.
	CDF []CurvePoint `json:"cdf"`
	// CPUPerRequest is microseconds of CPU per request by part.
	CPUPerRequest map[string]CPUPerRequest `json:"cpu_us_per_request"`
	MemoryBytes   map[string]int64         `json:"memory_bytes"` // PSS by part, median over trials
	LagP99US      float64                  `json:"schedule_lag_p99_us"`
	// Schedule says how the generator kept the arrivals asked for, each number the
	// median over trials; absent where they do not say.
	Schedule *ScheduleSummary `json:"schedule,omitempty"`
	// Connections by pod (PartGenerator, PartWorker) and proxy of a node, each number
	// the median over trials.
	Connections map[string]Connections `json:"connections,omitempty"`
	// Pressure is the machine's state in the cell's windows, each number the
	// median over trials; absent where it was not recorded.
	Pressure *Pressure `json:"pressure,omitempty"`
	// Threads of the parts, means over trials; absent where they were not
	// measured.
	Threads map[string]ThreadsSummary `json:"threads,omitempty"`
	// Blocks has the cell's median latency in each valid block, for the
	// picture of drift; in control-plane studies its median convergence.
	BlockP50US []BlockValue `json:"block_p50_us"`
	// Heat is the cell's latency over the run; absent where trials send no requests.
	Heat *LatencyByBlock `json:"latency_by_block,omitempty"`
	// Control is what the trials of a control-plane study measured, in
	// place of latency and CPU per request; nil in others.
	Control *ControlSummary `json:"control,omitempty"`
	// Scenario is what the trials of a study of resilience showed; nil in
	// others.
	Scenario *ScenarioSummary `json:"scenario,omitempty"`
}

// LatencyByBlock counts a cell's answered requests by the block that they were sent
// in, and by their latency, from intended send time.
type LatencyByBlock struct {
	Blocks []int `json:"blocks"` // with a valid trial, ascending
	// EdgesUS are the ends of the ranges of latency, ascending; Counts has a number
	// for each range in each block.
	EdgesUS []float64 `json:"edges_us"`
	Counts  [][]int64 `json:"counts"`
}

// ControlSummary is what a control-plane cell's valid trials measured. Sums
// are over all of them, means are of the trials'. Beside what became of the
// changes it has only what the study asks to be measured; the rest is zero.
type ControlSummary struct {
	Trials      int `json:"trials"`  // that these figures are of
	Proxies     int `json:"proxies"` // of one trial
	Gateways    int `json:"gateways"`
	Ztunnels    int `json:"ztunnels,omitempty"`
	RealProxies int `json:"real_proxies"`
	// Installed is what levers that the cell leaves as installed were found to be;
	// of one that differed between trials all that it was.
	Installed Cell `json:"installed,omitempty"`

	Committed int `json:"committed"` // changes, sum
	Failed    int `json:"failed"`    // changes that the API server did not take, sum
	// Change-proxy pairs that had it, those that never
	// acknowledged it, those where a later change came in one with it, and
	// those that needed it and never had it; sums.
	Pairs      int64 `json:"pairs"`
	Unacked    int64 `json:"unacked"`
	Superseded int64 `json:"superseded"`
	Missed     int64 `json:"missed"`

	// Acknowledged counts the pairs that convergence is of; percentiles that
	// leave less than one of them beyond are there, but say nothing.
	Acknowledged int64 `json:"acknowledged_pairs"`
	// Convergence is from commit to acknowledgement over all pairs, received
	// to when the proxy had read it, applied to when a real Envoy had it in
	// force (nil without any).
	Convergence Latency  `json:"convergence_us"`
	Received    Latency  `json:"received_us"`
	Applied     *Latency `json:"applied_us,omitempty"`
	// Percentiles and CDF are curves of convergence as those of latency.
	Percentiles []CurvePoint `json:"percentiles"`
	CDF         []CurvePoint `json:"cdf"`
	// First, median and last proxy to acknowledge a change: medians over
	// changes.
	FirstUS  float64 `json:"first_us"`
	MedianUS float64 `json:"median_us"`
	LastUS   float64 `json:"last_us"`
	// Edges has more of their distributions; nil if no proxy acknowledged any.
	Edges *Edges `json:"edges,omitempty"`
	// Changes are those of one trial, the cell's first, in their order.
	Changes []ChangePoint `json:"changes"`

	// Stages is the waterfall, means of the trials' means; MeanUS is the
	// measured mean that they add up to but for ResidualUS.
	Stages     []Stage `json:"stages"`
	MeanUS     float64 `json:"mean_us"`
	ResidualUS float64 `json:"residual_us"`
	// MissingStages names stages that no trial measured.
	MissingStages []string `json:"missing_stages,omitempty"`
	// Unexplained counts the pairs whose own stages do not add up, sums but for
	// the largest; nil where nobody looked.
	Unexplained *Unexplained `json:"unexplained,omitempty"`
	// ReportedP99US is the 99th percentile by istiod's own histogram, the mean
	// of ReportedTrials trials; ReportedFirstTrials counts those where it lies
	// in the first bucket and is but a straight line through that. Absent where
	// istiod has none.
	ReportedP99US       *float64 `json:"reported_p99_us,omitempty"`
	ReportedTrials      int      `json:"reported_trials,omitempty"`
	ReportedFirstTrials int      `json:"reported_first_bucket_trials,omitempty"`

	// Pushes are istiod's by type, means per trial.
	Pushes map[string]float64 `json:"pushes"`
	// Wire is what proxies received by type, sums.
	Wire map[string]Wire `json:"wire"`
	// ConfigBytes is what a proxy holds by type, medians over trials.
	ConfigBytes map[string]int64 `json:"config_bytes"`
	// ScopeConfigBytes is the same in the namespace that a Sidecar applies to.
	ScopeConfigBytes map[string]int64 `json:"scope_config_bytes,omitempty"`
	// JoinUS is how long a new proxy took to get its first configuration there,
	// and JoinBytes how much came by type: medians over trials; 0 and nil if
	// none joined.
	JoinUS    float64          `json:"join_us,omitempty"`
	JoinBytes map[string]int64 `json:"join_bytes,omitempty"`
	// Holdings are what single proxies held and who brought it, of one trial.
	Holdings   []Holding        `json:"holdings,omitempty"`
	Reconnects map[string]int64 `json:"reconnects,omitempty"` // sums, by why
	// IstiodCPUS and the others are CPU seconds in the windows, sums, over
	// WindowSeconds, those of the API server over APIServerSeconds; IdleCores
	// and APIServerIdleCores are what they used before, medians, the second
	// nil if nobody measured it.
	WindowSeconds float64 `json:"window_s"`
	IstiodCPU     CPU     `json:"istiod_cpu"`
	SimulatorCPU  CPU     `json:"simulator_cpu"`
	APIServerCPU  *CPU    `json:"apiserver_cpu,omitempty"`
	IdleCores     float64 `json:"idle_cores"`

	// Parts is who used the node's CPUs in the windows, mean cores by part
	// (those of a trial's cost, PartAPIServer, and PartRest: the machine less
	// all others). Without PartMachine and PartRest where they are on several
	// machines.
	Parts map[string]float64 `json:"cores_by_part,omitempty"`

	APIServerSeconds   float64  `json:"apiserver_s,omitempty"`
	APIServerIdleCores *float64 `json:"apiserver_idle_cores,omitempty"`
	// SimulatorLagP99US is how late the simulated proxies read, a median.
	SimulatorLagP99US float64 `json:"simulator_lag_p99_us"`
	StaleProxySeconds float64 `json:"stale_proxy_s"` // sum
	// Traffic is what real requests met: sums, of times the largest; nil where
	// none were sent.
	Traffic     *Traffic `json:"traffic,omitempty"`
	MemoryBytes int64    `json:"memory_bytes"` // of istiod, median; 0 if it was not read
	HeapBytes   int64    `json:"heap_bytes"`   // median
	AllocBytes  int64    `json:"alloc_bytes"`  // sum
	Goroutines  int64    `json:"goroutines"`   // median
	// Recovery is how one trial's proxies came back from a disruption, the cell's
	// first; nil without any.
	Recovery *Disruption `json:"recovery,omitempty"`
	// Profiles are istiod's, of one trial.
	Profiles []Profile `json:"profiles,omitempty"`
	// Missing lists metrics that this istiod does not have, Uncounted counters
	// of errors that no trial showed: at zero, or unknown to this version.
	Missing   []string `json:"missing_metrics,omitempty"`
	Uncounted []string `json:"uncounted_metrics,omitempty"`
}

// ChangePoint is a change in a trial: when, and how long until the first,
// the median and the last proxy had acknowledged it (-1 if none had).
type ChangePoint struct {
	AtS      float64 `json:"at_s"` // after the trial's first change
	Kind     string  `json:"kind"`
	Proxies  int     `json:"proxies"`
	FirstUS  float64 `json:"first_us"`
	MedianUS float64 `json:"median_us"`
	LastUS   float64 `json:"last_us"`
}
