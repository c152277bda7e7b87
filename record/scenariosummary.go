package record

// Verdicts of a trial of resilience, and of all of a cell's.
const (
	VerdictPass = "pass"
	VerdictFail = "fail"
	// VerdictInconclusive, as of findings: a step was not proven, the trial is
	// not valid, or its requests are not known.
)

// ScenarioSummary is what a cell of a study of resilience showed. The verdict
// is of all its trials, the figures are of the one that Shown names.
type ScenarioSummary struct {
	// Verdict is what the study expects if every trial came to that. One
	// trial that did not makes it that trial's.
	Verdict    string         `json:"verdict"`
	Expected   string         `json:"expected"`
	AsExpected bool           `json:"as_expected"`
	Trials     []TrialVerdict `json:"trials"`

	Shown string `json:"shown"` // trial whose figures follow; "" if none has any
	// Values are that trial's by the names of findings, in their units.
	Values  map[string]float64 `json:"values,omitempty"`
	Seconds float64            `json:"s"` // of the timeline
	Windows []ScenarioWindow   `json:"windows"`
	Total   ScenarioWindow     `json:"total"`
	Steps   []ScenarioStep     `json:"steps"`
	Ledger  ScenarioLedger     `json:"ledger"`
	// LedgerOf says who wrote about requests, as of Scenario.Ledger.
	LedgerOf string            `json:"ledger_of,omitempty"`
	Series   ScenarioSeries    `json:"series"`
	Graph    ScenarioGraph     `json:"graph"`
	CPU      map[string]CPU    `json:"cpu,omitempty"` // by part, as of Scenario
	Pods     map[string]int    `json:"pods,omitempty"`
	Memory   map[string]int64  `json:"memory_bytes,omitempty"`
	Retries  string            `json:"retries"` // what bounds the expected attempts, in words
	Levers   map[string]string `json:"levers,omitempty"`
}

// TrialVerdict is one trial's.
type TrialVerdict struct {
	Trial   string `json:"trial"`
	Block   int    `json:"block"`
	Repeat  int    `json:"repeat"`
	Verdict string `json:"verdict"`
	// ErrorShare is of its requests that failed or never ended.
	ErrorShare float64 `json:"error_share,omitempty"`
	// Why says why it is inconclusive.
	Why        []string            `json:"why,omitempty"`
	Assertions []ScenarioAssertion `json:"assertions"`
}

// ScenarioAssertion is what an assertion came to in a trial.
type ScenarioAssertion struct {
	Expr string `json:"expr"`
	// Time is the part of the timeline that it is about, in words; "" for
	// assertions about the whole trial.
	Time    string `json:"time,omitempty"`
	Outcome string `json:"outcome"` // a verdict
	Detail  string `json:"detail"`  // when and by how much
}

// ScenarioWindow is a part of the timeline between two boundaries, which are
// begins and ends of steps as they happened. Requests are in it by the time at
// which they were due; those that a step's begin made fail while they were
// under way are in the step's window. ErrorShare is of those that failed or never
// ended.
type ScenarioWindow struct {
	Name  string   `json:"name"`
	Names []string `json:"names"` // several where steps begin or end at once
	FromS float64  `json:"from_s"`
	ToS   float64  `json:"to_s"`

	Requests   int64            `json:"requests"`
	Answered   int64            `json:"answered"` // well
	Failed     int64            `json:"failed"`
	Unfinished int64            `json:"unfinished,omitempty"`
	FailedBy   map[string]int64 `json:"failed_by,omitempty"` // by the client's kind of failure
	ErrorShare float64          `json:"error_share"`
	RateRPS    float64          `json:"rate_rps"`     // due, a second
	AnswerRPS  float64          `json:"answered_rps"` // answers within the window per second, whenever their requests were due
	Latency    Latency          `json:"latency_us"`   // of answered requests, from when they were due; 0 without any, percentiles also of too few
	// LongestFailUS is the longest time in which no request that was due
	// succeeded.
	LongestFailUS float64 `json:"longest_failing_run_us"`

	// Attempts of a request between the two services that have the most.
	Attempts float64 `json:"attempts"`
	Hidden   int64   `json:"hidden"` // attempts that failed and were made again
	// Phantom are requests to stale endpoints, PhantomAttempts attempts.
	Phantom         int64 `json:"phantom"`
	PhantomAttempts int64 `json:"phantom_attempts"`
	Unreconciled    int64 `json:"unreconciled"`
	// Keys are the values of the header that consistent hashes go by which were
	// sent in the window and before it; MovedKeys of them were answered by
	// another endpoint last.
	Keys      int64 `json:"keys,omitempty"`
	MovedKeys int64 `json:"moved_keys,omitempty"`

	Ready   map[string]int `json:"ready,omitempty"`   // the fewest endpoints by service
	Ejected map[string]int `json:"ejected,omitempty"` // the most

	Edges     []ScenarioEdge      `json:"edges,omitempty"`
	Expected  ScenarioExpectation `json:"expected"`
	Surprises []string            `json:"surprises,omitempty"`
}

// ScenarioExpectation is what arithmetic says of a window.
type ScenarioExpectation struct {
	DemandRPS float64 `json:"demand_rps"`
	// Service is the one that is used most, CapacityRPS the most requests of
	// the clients that it leaves possible; 0 for no bound known.
	Service     string  `json:"service,omitempty"`
	Replicas    int     `json:"replicas,omitempty"` // that it has left
	CapacityRPS float64 `json:"capacity_rps,omitempty"`
	// ErrorShare is the least that must fail: what exceeds the capacity, and
	// what broken endpoints get, retries taken into account.
	ErrorShare float64 `json:"error_share"`
	// Broken is the share of attempts that meet an endpoint which cannot
	// answer, while nobody takes it out.
	Broken float64 `json:"broken,omitempty"`
	// Attempts is the bound of attempts per request.
	Attempts float64 `json:"attempts"`
}

// ScenarioEdge is the traffic between two services in a window.
type ScenarioEdge struct {
	From     string           `json:"from"`
	To       string           `json:"to"`
	Requests int64            `json:"requests"`
	Attempts int64            `json:"attempts"` // that left the caller's proxy
	Failed   int64            `json:"failed"`
	Flags    map[string]int64 `json:"flags,omitempty"` // of failed requests, by the telling flag; "none" for answers passed on
	Latency  Quantiles        `json:"latency_us"`      // of all requests, from the caller's proxy
}

// ScenarioStep is one turn of a step of the timeline. Times are seconds after
// the timeline's begin, durations microseconds after the step's.
type ScenarioStep struct {
	Name     string  `json:"name"`
	Op       string  `json:"op"`
	Object   string  `json:"object"`
	PlannedS float64 `json:"planned_s"`
	BeginS   float64 `json:"begin_s"`
	AppliedS float64 `json:"applied_s"`
	ProvenS  float64 `json:"proven_s,omitempty"`
	EndS     float64 `json:"end_s,omitempty"` // 0: not before the trial's end
	LateUS   float64 `json:"late_us"`
	Proof    string  `json:"proof,omitempty"`
	Error    string  `json:"error,omitempty"`

	Failed int64 `json:"failed"` // requests, those that never ended too, until the next step
	// DetectUS is until the first failure that a client was told of, EjectUS until
	// a proxy took an endpoint out, RecoverUS until the last failure before the
	// next step, or until the last request was due that never ended; nil for never. With StillFailing there were failures up to the next step.
	DetectUS     *float64 `json:"detect_us,omitempty"`
	EjectUS      *float64 `json:"eject_us,omitempty"`
	RecoverUS    *float64 `json:"recover_us,omitempty"`
	StillFailing bool     `json:"still_failing,omitempty"`
	// LongestFailUS as of windows, until the next step.
	LongestFailUS float64 `json:"longest_failing_run_us"`
}

// ScenarioLedger is what client, proxies and workers wrote, reconciled.
type ScenarioLedger struct {
	Requests   int64            `json:"requests"`
	Reconciled bool             `json:"reconciled"`
	Classes    map[string]int64 `json:"classes"`
	Orphans    int64            `json:"orphans,omitempty"`
	// Unwritten counts attempts that a worker knows and its proxy's log leaves
	// out.
	Unwritten    int64            `json:"unwritten,omitempty"`
	Duplicates   int64            `json:"duplicates,omitempty"`
	Equations    []LedgerEquation `json:"equations"`
	Faults       []LedgerFault    `json:"faults,omitempty"`
	HiddenBy     map[string]int64 `json:"hidden_by,omitempty"`
	Unreconciled []LedgerRequest  `json:"unreconciled,omitempty"` // each, up to a bound
	Failures     []LedgerRequest  `json:"failures,omitempty"`     // the first of them
	Phantoms     []LedgerPhantom  `json:"phantoms,omitempty"`
}

// LedgerEquation is the balance between two stations: Left went out, and it is
// Arrived and Lost together. It holds if that is so for every single request.
type LedgerEquation struct {
	Name    string           `json:"name"`
	Service string           `json:"service"`
	Left    int64            `json:"left"`
	Arrived int64            `json:"arrived"`
	Lost    map[string]int64 `json:"lost,omitempty"` // by cause: a response flag, a kind of failure, or a word of ours
	// Missing had to arrive and did not; Surplus arrived and was not sent.
	Missing int64 `json:"missing,omitempty"`
	Surplus int64 `json:"surplus,omitempty"`
	Holds   bool  `json:"holds"`
	// Open: services without a proxy call too, so more may arrive.
	Open bool `json:"open,omitempty"`
}

// LedgerFault is how many requests failed at one place in one way.
type LedgerFault struct {
	Hop     string `json:"hop"`
	Service string `json:"service,omitempty"`
	Flag    string `json:"flag,omitempty"`
	Seen    string `json:"seen,omitempty"` // flags at the client's proxy
	Count   int64  `json:"count"`
	Meaning string `json:"meaning,omitempty"`
	Cause   string `json:"cause,omitempty"`
}

// LedgerRequest is one request by its id.
type LedgerRequest struct {
	ID      string   `json:"id"`
	AtS     float64  `json:"at_s"`
	Outcome string   `json:"outcome"`
	Status  int      `json:"status,omitempty"`
	Hop     string   `json:"hop,omitempty"`
	Service string   `json:"service,omitempty"`
	Host    string   `json:"host,omitempty"`
	Flag    string   `json:"flag,omitempty"`
	Detail  string   `json:"detail,omitempty"`
	Lacks   []string `json:"lacks,omitempty"`
}

// LedgerPhantom is what was sent to an address after it was gone.
type LedgerPhantom struct {
	Address  string  `json:"address"`
	Attempts int64   `json:"attempts"`
	LastUS   float64 `json:"last_us"` // after it was gone
}

// ScenarioSeries is the timeline in bins of BinS seconds.
type ScenarioSeries struct {
	BinS     float64            `json:"bin_s"`
	Requests []int64            `json:"requests"`
	Failed   map[string][]int64 `json:"failed,omitempty"` // by kind
	// Latency of answered requests; 0 where none was.
	P50US []float64 `json:"p50_us"`
	P99US []float64 `json:"p99_us"`
	MaxUS []float64 `json:"max_us"`
	// Ejected endpoints of all services, the most in the bin.
	Ejected []int `json:"ejected,omitempty"`
}

// ScenarioGraph is the service graph as it is drawn, in units of one service.
type ScenarioGraph struct {
	Entry   string         `json:"entry"`
	Clients int            `json:"clients"`
	Width   float64        `json:"width"`
	Height  float64        `json:"height"`
	Nodes   []ScenarioNode `json:"nodes"`
	Lines   []ScenarioLine `json:"lines"`
}

// ScenarioNode is a service's place.
type ScenarioNode struct {
	Service  string  `json:"service"`
	Replicas int     `json:"replicas"`
	X        float64 `json:"x"`
	Y        float64 `json:"y"`
}

// ScenarioLine leads from a caller to a service.
type ScenarioLine struct {
	From string       `json:"from"`
	To   string       `json:"to"`
	Via  [][2]float64 `json:"via,omitempty"`
}
