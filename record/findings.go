package record

import (
	"encoding/json"

	"github.com/meshtrial/meshtrial/internal/note"
)

// Findings is the document findings.json and the output of `report --format json`: the
// results of a run and everything a report needs to present them.
type Findings struct {
	Schema   int    `json:"schema"`
	Kind     string `json:"kind"` // of its study: KindDataPlane or another
	Study    string `json:"study"`
	Question string `json:"question"`
	Story    string `json:"story,omitempty"` // paragraphs, separated by empty lines
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
	// Rules are the validity rules that the trials were judged by.
	Rules Rules `json:"rules"`
	// Stop says why the run ended: "interval narrow enough", "limit"...
	Stop       string       `json:"stop"`
	NoiseFloor []NoiseFloor `json:"noise_floor"`
	Findings   []Finding    `json:"findings"`
	Assertions []Assertion  `json:"assertions"`
	// Cells has one entry per measured cell, in the plan's order.
	Cells     []CellSummary  `json:"cells"`
	Published []Published    `json:"published,omitempty"`
	Factors   []FactorLevels `json:"factors"` // the factors that vary, in the study's order
	Warnings  []note.Note    `json:"warnings,omitempty"`
	// Money says which mesh and which prices the findings in money are based on.
	Money     string `json:"money,omitempty"`
	StudyYAML string `json:"study_yaml"` // resolved
	// Bills has the costs of the parts of a study's bill, one entry per combination of
	// its other factors.
	Bills []Bill `json:"bills,omitempty"`
	// Hops is the cost breakdown of the request path, likewise.
	Hops []Hops `json:"hops,omitempty"`
	// Sizings compares ways of carrying requests in a described mesh, likewise.
	Sizings []Sizing `json:"sizings,omitempty"`
	// Tuning is the best setting of levers, in a study that searches for it.
	Tuning *Tuning `json:"tuning,omitempty"`
	// Soak is what grew during a run with a single istiod.
	Soak *Soak `json:"soak,omitempty"`
	// Profiles show where proxies spent their CPU time, by cell and part, in the form
	// the page draws: each is a profile.View.
	Profiles []json.RawMessage `json:"profiles,omitempty"`

	// Samples and LeftOut are for output formats of programs that do their own
	// comparison of runs. Findings documents omit them: trials.jsonl has the data.
	Samples []Sample  `json:"-"`
	LeftOut []LeftOut `json:"-"`
}

// FactorLevels is a varying factor with its levels, in the study's order.
type FactorLevels struct {
	Factor string   `json:"factor"`
	Levels []string `json:"levels"`
	Unit   string   `json:"unit,omitempty"`
}

// ValiditySummary counts trials and explains why some are invalid.
type ValiditySummary struct {
	Trials  int `json:"trials"`
	Valid   int `json:"valid"`
	Invalid int `json:"invalid"`
	Blocks  int `json:"blocks"`
	// Reasons counts failed checks by name, with one example each.
	Reasons []InvalidReason `json:"reasons,omitempty"`
}

// ScheduleSummary describes how well the generator kept its schedule in a cell's
// windows, and how informative its requests are.
type ScheduleSummary struct {
	// Distance is the distance of the gaps between the generator's actions from the
	// requested arrivals ([Schedule]). AchievedRatio is its rate as a share of the
	// requested rate.
	Distance      float64 `json:"distance"`
	AchievedRatio float64 `json:"achieved_ratio"`
	// Autocorrelation is that of consecutive requests' latencies. EffectiveRequests is
	// the number of independent requests that would be as informative as a window's
	// requests.
	Autocorrelation   float64 `json:"autocorrelation"`
	EffectiveRequests float64 `json:"effective_requests"`
}

// InvalidReason is a failed check, how often it failed, and an example.
type InvalidReason struct {
	Check   string `json:"check"`
	Trials  int    `json:"trials"`
	Example string `json:"example"`
}

// NoiseFloor is the difference between two identical baselines of a block. No overhead
// below it is real.
type NoiseFloor struct {
	Measure string  `json:"measure"` // "latency_p50", "cpu_worker"...
	Cell    Cell    `json:"cell"`    // the baseline cell, varying factors only
	Floor   float64 `json:"floor"`   // absolute difference
	Unit    string  `json:"unit"`
	Blocks  int     `json:"blocks"`
	// RelativeRatio is the floor divided by the baseline's own value.
	RelativeRatio float64 `json:"relative_ratio"`
	// Standard deviations, as shares of the value: between blocks (which cancels within
	// a block), between identical deployments, and between trials of one deployment.
	// TrialsRatio is 0 if each block has its own deployments; DeploymentsRatio then
	// covers both. All are 0 if unknown.
	BlocksRatio      float64 `json:"between_blocks_ratio,omitempty"`
	DeploymentsRatio float64 `json:"between_deployments_ratio,omitempty"`
	TrialsRatio      float64 `json:"between_trials_ratio,omitempty"`
}

// Verdicts of a finding.
const (
	VerdictReal         = "real"         // the interval excludes zero, also after correction for the study's other findings, and the estimate exceeds the noise floor
	VerdictNoEffect     = "no_effect"    // the whole interval lies within the margin
	VerdictInconclusive = "inconclusive" // neither of these: see the reason
	VerdictInvalid      = "invalid"      // too few valid trials
	VerdictMeasured     = "measured"     // a plain value with interval, not compared
	// Verdicts of `compare`.
	VerdictBetter = "better"
	VerdictWorse  = "worse"
	VerdictSame   = "same"
)

// Finding is an estimate with interval, unit, the cells compared and a verdict. Cell
// and Against contain only the factors that vary in the study.
type Finding struct {
	Name  string `json:"name"`  // "latency_p50_overhead", "cpu_client_proxy_per_request"...
	Probe string `json:"probe"` // latency, cpu, memory...
	Cell  Cell   `json:"cell"`
	// Against is the baseline cell; absent for plain values.
	Against  Cell    `json:"against,omitempty"`
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"` // 95% interval; see Trials
	High     float64 `json:"high"`
	// Open says which ends of the result of a search or a knee are unknown: OpenHigh
	// and others; absent if both are known. An unknown upper end equals the lower one;
	// an unknown lower end is 0.
	Open    string `json:"open,omitempty"`
	Unit    string `json:"unit"`   // us, ms, us/request, bytes, ratio
	Blocks  int    `json:"blocks"` // or deployments, if one served several blocks
	Verdict string `json:"verdict"`
	// Relative is the overhead as a share of the baseline's own value,
	// test/baseline - 1; absent for plain values.
	Relative *Ratio `json:"relative,omitempty"`
	// Margin is the largest difference, in either direction and in the finding's unit,
	// that the study considers irrelevant; absent for plain values.
	Margin float64 `json:"margin,omitempty"`
	// MDE is the smallest effect that this run would have detected in 80% of cases.
	MDE      float64     `json:"minimum_detectable_effect,omitempty"`
	Warnings []note.Note `json:"warnings,omitempty"`
	// Reason explains the verdict as a code: ReasonWithinFloor and others. The first of
	// Warnings has the details.
	Reason string `json:"reason,omitempty"`
	// Trials is set for findings that must not happen: the number of trials in which
	// they did. Low and High are then the minimum and maximum count in one of those
	// trials, not an interval.
	Trials *FaultTrials `json:"trials,omitempty"`
}

// Because sets the reason for a finding's verdict, as a code and as a warning.
func (f *Finding) Because(reason string, why note.Note) {
	f.Reason, f.Warnings = reason, append([]note.Note{why}, f.Warnings...)
}

// Reasons for verdicts.
const (
	ReasonWithinMargin = "within_margin"   // no_effect: the whole interval lies within the margin
	ReasonWithinFloor  = "within_floor"    // inconclusive: the interval excludes zero, but identical baselines differ by as much
	ReasonIncludesZero = "includes_zero"   // inconclusive: the interval includes zero and reaches beyond the margin
	ReasonNoInterval   = "no_interval"     // inconclusive: too few blocks for an interval
	ReasonFloorUnknown = "floor_unknown"   // inconclusive: the difference between identical baselines is unknown
	ReasonMany         = "many_findings"   // inconclusive (no_effect if the margin contains all of it): the interval excludes zero, but among this many findings some do by chance
	ReasonLateLoad     = "late_generator"  // inconclusive: the generator's own lateness may explain the effect
	ReasonTooFew       = "too_few_counted" // invalid: too few counted events lie beyond this percentile
	ReasonOneBlock     = "one_block"       // inconclusive: a search of one block, whose answer has no interval
	ReasonNotSure      = "not_sure"        // of a search: an end of the interval is open because no level there is far enough from the bound
	ReasonTooShort     = "too_short"       // of a soak, inconclusive: growth may exceed the margin or be zero
	ReasonSettling     = "settling"        // of a soak, inconclusive: it still rises, but ever more slowly
	ReasonNotReached   = "not_reached"     // invalid: this percentile falls among failed requests, or the timed event never came in some trial
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

// CellSummary is the result of a cell's valid trials, over all blocks.
type CellSummary struct {
	Cell     Cell   `json:"cell"`  // the factors that vary
	Label    string `json:"label"` // short, for legends: "both · 16 connections"
	Baseline bool   `json:"baseline"`
	Trials   int    `json:"trials"`
	Valid    int    `json:"valid"`
	// Way is the path of the cell's requests.
	Way      Way   `json:"way,omitempty"`
	Requests int64 `json:"requests"`
	Failed   int64 `json:"failed"`
	// Unfinished counts requests that had not ended when the trial did. Percentiles
	// treat them as failed.
	Unfinished int64 `json:"unfinished,omitempty"`
	// Intended and Send cover all valid trials, in microseconds. A percentile with too
	// few requests beyond it is 0.
	Intended Latency `json:"latency_intended_us"`
	// NotReached lists percentiles (p99...) that fall among requests that failed or did
	// not end: their value is infinite.
	NotReached []string `json:"not_reached,omitempty"`
	Send       Latency  `json:"latency_send_us"`
	// Percentiles is the latency percentile curve (intended time): points of
	// percentile (0..100) and microseconds, dense in the tail.
	Percentiles []CurvePoint `json:"percentiles"`
	// CDF has microseconds as X and the cumulative share of requests (0..1) as Y.
	CDF []CurvePoint `json:"cdf"`
	// CPUPerRequest is microseconds of CPU per request by part.
	CPUPerRequest map[string]CPUPerRequest `json:"cpu_us_per_request"`
	MemoryBytes   map[string]int64         `json:"memory_bytes"` // PSS by part, median over trials
	LagP99US      float64                  `json:"schedule_lag_p99_us"`
	// Schedule describes how well the generator kept the requested arrivals, each
	// number a median over trials; absent if the trials did not record it.
	Schedule *ScheduleSummary `json:"schedule,omitempty"`
	// Connections has the connections by pod (PartGenerator, PartWorker) and by node
	// proxy, each number a median over trials.
	Connections map[string]Connections `json:"connections,omitempty"`
	// Pressure is the machine's state in the cell's windows, each number a median over
	// trials; absent if it was not recorded.
	Pressure *Pressure `json:"pressure,omitempty"`
	// Threads describes the threads of each part, as means over trials; absent if not
	// measured.
	Threads map[string]ThreadsSummary `json:"threads,omitempty"`
	// BlockP50US has the cell's median latency in each valid block, to show drift. In
	// control-plane studies it has the median convergence.
	BlockP50US []BlockValue `json:"block_p50_us"`
	// Heat is the latency of a data-plane cell over the run; absent in other studies.
	Heat *LatencyByBlock `json:"latency_by_block,omitempty"`
	// Values has the cell's values by finding, in the findings' units, if its trials are in
	// too few blocks for intervals.
	Values map[string]float64 `json:"values,omitempty"`
	// Control has the results of a control-plane study's trials, in place of latency
	// and CPU per request; nil in others.
	Control *ControlSummary `json:"control,omitempty"`
	// Scenario has the results of a resilience study's trials; nil in others.
	Scenario *ScenarioSummary `json:"scenario,omitempty"`
}

// LatencyByBlock counts a cell's answered requests by the block in which they were sent
// and by their latency from intended send time.
type LatencyByBlock struct {
	Blocks []int `json:"blocks"` // with a valid trial, ascending
	// EdgesUS has the edges of the latency ranges, ascending, one more than there are
	// ranges. Counts has one number per range in each block.
	EdgesUS []float64 `json:"edges_us"`
	Counts  [][]int64 `json:"counts"`
}

// ControlSummary has the results of a control-plane cell's valid trials. Sums run over
// all trials; means are means of the trials' values. Apart from the outcome of changes
// it holds only what the study measures; the rest is zero.
type ControlSummary struct {
	Trials      int `json:"trials"`  // that these figures cover
	Proxies     int `json:"proxies"` // of one trial
	Gateways    int `json:"gateways"`
	Ztunnels    int `json:"ztunnels,omitempty"`
	RealProxies int `json:"real_proxies"`
	// Installed has the observed values of levers that the cell leaves as installed. If
	// a lever differed between trials, it has all its values.
	Installed Cell `json:"installed,omitempty"`

	Committed int `json:"committed"` // changes, sum
	Failed    int `json:"failed"`    // changes that the API server rejected, sum
	// Counts of change-proxy pairs: those that received the change, those never
	// acknowledged, those superseded by a later change that arrived with it, and those
	// that needed it and never received it. All are sums.
	Pairs      int64 `json:"pairs"`
	Unacked    int64 `json:"unacked"`
	Superseded int64 `json:"superseded"`
	Missed     int64 `json:"missed"`

	// Acknowledged counts the pairs in Convergence. Percentiles with less than one pair
	// beyond them are present but meaningless.
	Acknowledged int64 `json:"acknowledged_pairs"`
	// Convergence is the time from commit to acknowledgement over all pairs. Applied
	// ends when the change is in force in a real Envoy (nil without one).
	Convergence Latency  `json:"convergence_us"`
	Applied     *Latency `json:"applied_us,omitempty"`
	// Percentiles and CDF are the curves of convergence, in the form of those of
	// latency.
	Percentiles []CurvePoint `json:"percentiles"`
	CDF         []CurvePoint `json:"cdf"`
	// Followed counts the changes that a simulated proxy acknowledged or should have; sum.
	Followed int `json:"followed_changes"`
	// Changes has the changes of one trial, the cell's first, in order.
	Changes []ChangePoint `json:"changes"`

	// Stages is the waterfall: means of the trials' means. They add up to the measured
	// MeanUS, apart from ResidualUS.
	Stages     []Stage `json:"stages"`
	MeanUS     float64 `json:"mean_us"`
	ResidualUS float64 `json:"residual_us"`
	// MissingStages names stages that no trial measured.
	MissingStages []string `json:"missing_stages,omitempty"`

	// Wire is what proxies received, by type, as sums.
	Wire map[string]Wire `json:"wire"`
	// ConfigBytes is the configuration size of one proxy by type, as medians over
	// trials.
	ConfigBytes map[string]int64 `json:"config_bytes"`
	// ScopeConfigBytes is the same for the namespace to which a Sidecar applies.
	ScopeConfigBytes map[string]int64 `json:"scope_config_bytes,omitempty"`
	// Holdings has the configuration that individual proxies held and its owners, from
	// one trial.
	Holdings      []Holding        `json:"holdings,omitempty"`
	Reconnects    map[string]int64 `json:"reconnects,omitempty"` // sums, by reason
	WindowSeconds float64          `json:"window_s"`             // sum
	// Parts is the use of the node's CPUs in the windows, in mean cores by part: the
	// parts of a trial's cost, PartAPIServer, and PartRest (the machine less all
	// others). PartMachine and PartRest are left out if the parts run on several
	// machines.
	Parts map[string]float64 `json:"cores_by_part,omitempty"`
	// Traffic is the outcome of real requests. Its values are sums, and maxima of
	// times; nil if none were sent.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Profiles has istiod's profiles from one trial.
	Profiles []Profile `json:"profiles,omitempty"`
	// Missing lists metrics that this version of istiod does not have.
	Missing []string `json:"missing_metrics,omitempty"`
}

// ChangePoint is a change in a trial: when it happened, and the time until the first,
// the median and the last proxy acknowledged it (-1 if none did).
type ChangePoint struct {
	AtS      float64 `json:"at_s"` // after the trial's first change
	Kind     string  `json:"kind"`
	Proxies  int     `json:"proxies"`
	FirstUS  float64 `json:"first_us"`
	MedianUS float64 `json:"median_us"`
	LastUS   float64 `json:"last_us"`
}
