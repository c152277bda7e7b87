package record

// Verdicts of a resilience trial, and of all trials of a cell.
const (
	VerdictPass = "pass"
	VerdictFail = "fail"
	// VerdictInconclusive, as for findings: a step was not proven, the trial is invalid, or its
	// requests are unknown.
)

// ScenarioSummary is the result of a cell of a resilience study. The verdict covers all of its
// trials; the figures are from the trial named by Shown.
type ScenarioSummary struct {
	// Verdict is the expected verdict if every trial reached it. Otherwise it is the verdict of the
	// trial that deviated.
	Verdict    string         `json:"verdict"`
	Expected   string         `json:"expected"`
	AsExpected bool           `json:"as_expected"`
	Trials     []TrialVerdict `json:"trials"`

	Shown   string           `json:"shown"` // trial whose figures follow; "" if none has any
	Seconds float64          `json:"s"`     // of the timeline
	Windows []ScenarioWindow `json:"windows"`
	Total   ScenarioWindow   `json:"total"`
	Steps   []ScenarioStep   `json:"steps"`
	Ledger  ScenarioLedger   `json:"ledger"`
	// LedgerOf says which stations logged requests, as in Scenario.Ledger.
	LedgerOf string            `json:"ledger_of,omitempty"`
	Series   ScenarioSeries    `json:"series"`
	Graph    ScenarioGraph     `json:"graph"`
	CPU      map[string]CPU    `json:"cpu,omitempty"` // by part, as in Scenario
	Pods     map[string]int    `json:"pods,omitempty"`
	Memory   map[string]int64  `json:"memory_bytes,omitempty"`
	Retries  string            `json:"retries"` // what bounds the expected attempts, in words
	Levers   map[string]string `json:"levers,omitempty"`
	Planes   []ScenarioPlanes  `json:"planes,omitempty"` // as in Scenario
	Gateways []ScenarioGateway `json:"gateways,omitempty"`
}

// TrialVerdict is the verdict of one trial.
type TrialVerdict struct {
	Trial   string `json:"trial"`
	Block   int    `json:"block"`
	Repeat  int    `json:"repeat"`
	Verdict string `json:"verdict"`
	// ErrorShare is the share of its requests that failed or never ended.
	ErrorShare float64 `json:"error_share,omitempty"`
	// Why explains an inconclusive verdict.
	Why        []string            `json:"why,omitempty"`
	Assertions []ScenarioAssertion `json:"assertions"`
}

// ScenarioAssertion is the outcome of an assertion in a trial.
type ScenarioAssertion struct {
	Expr string `json:"expr"`
	// Time is the part of the timeline that the assertion covers, in words; "" for assertions about
	// the whole trial.
	Time    string `json:"time,omitempty"`
	Outcome string `json:"outcome"` // a verdict
	Detail  string `json:"detail"`  // when and by how much
}

// ScenarioWindow is a part of the timeline between two boundaries: starts and ends of steps as they
// happened. Requests belong to the window in which they were due; those in flight that the start of
// a step made fail belong to the step's window. ErrorShare is the share that failed or never ended.
type ScenarioWindow struct {
	Name  string   `json:"name"`
	Names []string `json:"names"` // several if steps begin or end at the same time
	FromS float64  `json:"from_s"`
	ToS   float64  `json:"to_s"`

	Requests   int64            `json:"requests"`
	Answered   int64            `json:"answered"` // successfully
	Failed     int64            `json:"failed"`
	Unfinished int64            `json:"unfinished,omitempty"`
	FailedBy   map[string]int64 `json:"failed_by,omitempty"` // by the client's kind of failure
	ErrorShare float64          `json:"error_share"`
	RateRPS    float64          `json:"rate_rps"`     // due per second
	AnswerRPS  float64          `json:"answered_rps"` // answers within the window per second, whenever their requests were due
	Latency    Latency          `json:"latency_us"`   // of answered requests, from when they were due; 0 without any, percentiles even of too few
	// LongestFailUS is the longest time during which no due request succeeded.
	LongestFailUS float64 `json:"longest_failing_run_us"`

	// Attempts is the number of attempts per request between the pair of services that has the
	// most.
	Attempts float64 `json:"attempts"`
	Hidden   int64   `json:"hidden"` // failed attempts that were retried
	// Phantom counts requests to stale endpoints, PhantomAttempts the attempts.
	Phantom         int64 `json:"phantom"`
	PhantomAttempts int64 `json:"phantom_attempts"`
	Unreconciled    int64 `json:"unreconciled"`
	// Keys counts the values of the consistent-hash header that were sent both in the window and
	// before it. MovedKeys counts those last answered by a different endpoint.
	Keys      int64 `json:"keys,omitempty"`
	MovedKeys int64 `json:"moved_keys,omitempty"`

	// Zones counts answered calls by the zone of the endpoint that answered, Zoned all of these, and
	// CrossZone those whose caller was in another zone. Only where the zones of pods are known.
	Zones     map[string]int64 `json:"zones,omitempty"`
	Zoned     int64            `json:"zoned,omitempty"`
	CrossZone int64            `json:"cross_zone,omitempty"`

	Ready   map[string]int `json:"ready,omitempty"`   // minimum of endpoints by service
	Ejected map[string]int `json:"ejected,omitempty"` // maximum of endpoints by service

	Edges     []ScenarioEdge      `json:"edges,omitempty"`
	Expected  ScenarioExpectation `json:"expected"`
	Surprises []string            `json:"surprises,omitempty"`
}

// ScenarioExpectation is the result predicted for a window by arithmetic.
type ScenarioExpectation struct {
	DemandRPS float64 `json:"demand_rps"`
	// Service is the most heavily used service. CapacityRPS is the highest rate of client requests
	// that it allows; 0 if no bound is known.
	Service     string  `json:"service,omitempty"`
	Replicas    int     `json:"replicas,omitempty"` // that are left
	CapacityRPS float64 `json:"capacity_rps,omitempty"`
	// ErrorShare is the minimum share that must fail: the load beyond capacity and the requests to
	// broken endpoints, with retries taken into account.
	ErrorShare float64 `json:"error_share"`
	// Broken is the share of attempts that reach an endpoint that cannot answer, as long as it is
	// not ejected.
	Broken float64 `json:"broken,omitempty"`
	// Attempts is the upper bound of attempts per request.
	Attempts float64 `json:"attempts"`
}

// ScenarioEdge is the traffic between two services in a window.
type ScenarioEdge struct {
	From     string           `json:"from"`
	To       string           `json:"to"`
	Requests int64            `json:"requests"`
	Attempts int64            `json:"attempts"` // that the caller's proxy sent
	Failed   int64            `json:"failed"`
	Flags    map[string]int64 `json:"flags,omitempty"` // of failed requests, by the most significant flag; "none" for answers passed on
	Latency  Quantiles        `json:"latency_us"`      // of all requests, from the caller's proxy
}

// ScenarioStep is one turn of a step of the timeline. Times are seconds after the start of the
// timeline; durations are microseconds after the start of the step.
type ScenarioStep struct {
	Name     string  `json:"name"`
	Op       string  `json:"op"`
	Object   string  `json:"object"`
	PlannedS float64 `json:"planned_s"`
	BeginS   float64 `json:"begin_s"`
	AppliedS float64 `json:"applied_s"`
	ProvenS  float64 `json:"proven_s,omitempty"`
	EndS     float64 `json:"end_s,omitempty"` // 0 if not before the trial's end
	LateUS   float64 `json:"late_us"`
	Proof    string  `json:"proof,omitempty"`
	Error    string  `json:"error,omitempty"`

	Failed int64 `json:"failed"` // requests until the next step, including those that never ended
	// DetectUS is the time until a client saw the first failure. EjectUS is the time until a proxy
	// ejected an endpoint. RecoverUS is the time until the last failure before the next step, or
	// until the last request was due that never ended. All are nil for never. StillFailing means
	// that failures continued until the next step.
	DetectUS     *float64 `json:"detect_us,omitempty"`
	EjectUS      *float64 `json:"eject_us,omitempty"`
	RecoverUS    *float64 `json:"recover_us,omitempty"`
	StillFailing bool     `json:"still_failing,omitempty"`
	// ShiftUS is, for a step that cuts a zone off, the time until other zones' proxies sent the last
	// attempt to an endpoint there before the step ended. Nil if they sent none.
	ShiftUS *float64 `json:"shift_us,omitempty"`
	// LongestFailUS is like that of windows, until the next step.
	LongestFailUS float64 `json:"longest_failing_run_us"`
}

// ScenarioLedger is the reconciled log of clients, proxies and workers.
type ScenarioLedger struct {
	Requests   int64            `json:"requests"`
	Reconciled bool             `json:"reconciled"`
	Classes    map[string]int64 `json:"classes"`
	Orphans    int64            `json:"orphans,omitempty"`
	// Unwritten counts attempts that a worker saw but its proxy's log lacks.
	Unwritten    int64            `json:"unwritten,omitempty"`
	Duplicates   int64            `json:"duplicates,omitempty"`
	Equations    []LedgerEquation `json:"equations"`
	Faults       []LedgerFault    `json:"faults,omitempty"`
	HiddenBy     map[string]int64 `json:"hidden_by,omitempty"`
	Unreconciled []LedgerRequest  `json:"unreconciled,omitempty"` // all of them, up to a limit
	Failures     []LedgerRequest  `json:"failures,omitempty"`     // the first few
}

// LedgerEquation is the balance between two stations: Left must equal Arrived plus Lost. It holds
// if it is true of every single request.
type LedgerEquation struct {
	Name    string           `json:"name"`
	Service string           `json:"service"`
	Left    int64            `json:"left"`
	Arrived int64            `json:"arrived"`
	Lost    map[string]int64 `json:"lost,omitempty"` // by cause: a response flag, a kind of failure, or one of our own words
	// Missing counts requests that should have arrived but did not, Surplus those that arrived
	// without being sent.
	Missing int64 `json:"missing,omitempty"`
	Surplus int64 `json:"surplus,omitempty"`
	Holds   bool  `json:"holds"`
	// Open means that services without a proxy also call, so more may arrive.
	Open bool `json:"open,omitempty"`
}

// LedgerFault is the number of requests that failed at one place in one way.
type LedgerFault struct {
	Hop     string `json:"hop"`
	Service string `json:"service,omitempty"`
	Flag    string `json:"flag,omitempty"`
	Seen    string `json:"seen,omitempty"` // flags from the client's proxy
	Count   int64  `json:"count"`
	Meaning string `json:"meaning,omitempty"`
	Cause   string `json:"cause,omitempty"`
}

// LedgerRequest is one request, by ID.
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

// ScenarioSeries is the timeline in bins of BinS seconds.
type ScenarioSeries struct {
	BinS     float64            `json:"bin_s"`
	Requests []int64            `json:"requests"`
	Failed   map[string][]int64 `json:"failed,omitempty"` // by kind
	// P50US and P99US are latencies of answered requests; 0 if there were none.
	P50US []float64 `json:"p50_us"`
	P99US []float64 `json:"p99_us"`
	MaxUS []float64 `json:"max_us"`
	// Ejected is the largest number of ejected endpoints of all services in the bin.
	Ejected []int `json:"ejected,omitempty"`
}

// ScenarioGraph is the layout of the service graph, in units of one service.
type ScenarioGraph struct {
	Entry   string         `json:"entry"`
	Clients int            `json:"clients"`
	Width   float64        `json:"width"`
	Height  float64        `json:"height"`
	Nodes   []ScenarioNode `json:"nodes"`
	Lines   []ScenarioLine `json:"lines"`
}

// ScenarioNode is the position of a service.
type ScenarioNode struct {
	Service  string  `json:"service"`
	Replicas int     `json:"replicas"`
	X        float64 `json:"x"`
	Y        float64 `json:"y"`
}

// ScenarioLine connects a caller to a service.
type ScenarioLine struct {
	From string       `json:"from"`
	To   string       `json:"to"`
	Via  [][2]float64 `json:"via,omitempty"`
}
