package study

import (
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/probe"
	"github.com/meshtrial/meshtrial/stat/money"
	"github.com/meshtrial/meshtrial/stat/sizing"
)

// Study is a parsed study file with every default filled in.
type Study struct {
	Kind     Kind
	Name     string // [a-z0-9-]+, also the run's name
	Title    string
	Question string
	Story    string // prose for the report, optional
	Mesh     string // one of Meshes

	// Settings holds the level of every factor that does not vary.
	Settings record.Cell
	// Factors lists the factors that vary, in the file's order.
	Factors []record.FactorLevels
	// Baseline, put over a cell, gives the cell to compare it with. If it is empty, nothing is
	// compared.
	Baseline record.Cell
	// Variants are named sets of levels for the factor variant to choose from.
	Variants []NamedLevels
	// Made means that the kind's section generates the variants, so files do not name them.
	Made bool
	// Exclude lists combinations of levels to leave out.
	Exclude []record.Cell

	// Section holds the part of files that is specific to the study's kind; the kind's package
	// knows its type.
	Section any

	Load   Load
	Warmup Warmup
	Blocks Blocks
	Stop   *Stop // nil: run until Blocks ends it
	// Margin is the largest irrelevant difference from the baseline, as a share of the baseline's
	// value.
	Margin   Ratio
	Seed     uint64 // 0: chosen at the start of the run and recorded
	Measures []string
	// Search lists searches for the limits of levels.
	Search []Search
	// Tune asks for the best setting of the levers that vary; nil: no tuning.
	Tune   *Tune
	Assert []Expr
	// Money is the mesh in whose terms costs are reported; nil: none.
	Money *money.Mesh
	// Sizing is the mesh in which ways of carrying requests are compared; nil: none.
	Sizing *sizing.Mesh
	// Published lists figures from the literature to compare with ours.
	Published []Published

	// places holds the positions of factors in the file; see [Study.Place].
	places map[string]Pos
	// levelsAt holds the positions where settings and factors give factors levels; see
	// [Plan.Unmeasured].
	levelsAt map[string]Pos
	// flags means that --set flags changed the file.
	flags bool
}

// Measures that a study can request.
const (
	MeasureLatency     = "latency"
	MeasureCPU         = "cpu"
	MeasureMemory      = "memory"
	MeasureConnections = "connections"
	MeasureEnvoy       = "envoy"
	MeasurePressure    = "pressure"
	MeasureThreads     = "threads"
	MeasureProfile     = "profile"
)

// MeasureLedger, in resilience studies, is the outcome of every request.
const MeasureLedger = "ledger"

// defaultMeasures returns the measures of a study that names none.
func defaultMeasures(k Kind) []string {
	s := k.spec()
	return slices.DeleteFunc(slices.Clone(s.Measures), func(m string) bool { return slices.Contains(s.Unasked, m) })
}

// Service time distributions.
const (
	DistributionFixed       = "fixed"
	DistributionExponential = "exponential"
	DistributionLognormal   = "lognormal"
	DistributionRecorded    = "recorded"
)

// Load configures the generator, in every cell.
type Load struct {
	Timeout time.Duration     `json:"timeout"` // a request without a response fails after this time
	Method  string            `json:"method"`  // HTTP protocols
	Path    string            `json:"path"`    // HTTP protocols
	Headers map[string]string `json:"headers"` // HTTP protocols
	// TLS makes the generator itself speak TLS to the worker, in addition to the mesh.
	TLS bool `json:"tls"`
}

// Warmup bounds the time before the window: it ends once latency and CPU are steady, after at least
// Min and at most Max.
type Warmup struct {
	Min time.Duration `json:"min"`
	Max time.Duration `json:"max"`
}

// Blocks limits the number of passes over the cells.
type Blocks struct {
	Min int `json:"min"` // the stop rule applies from here on
	Max int `json:"max"`
	// Limit is the time for all blocks. A block does not start if it would end later, judging by
	// the longest so far; the first always runs. In a search or a tuning this applies to each
	// trial.
	Limit time.Duration `json:"limit"`
	// Redeploy is the number of blocks that one set of pods serves; 0 for the whole run.
	Redeploy int `json:"redeploy"`
}

// Stop ends the run early, once the finding's interval extends at most HalfWidth of the estimate to
// either side in every cell that Of matches.
type Stop struct {
	Finding   string      `json:"finding"`
	HalfWidth Ratio       `json:"half_width"`
	Of        record.Cell `json:"of"`
}

// Expr is a CEL expression over findings, with its position. In a resilience study it may cover
// time: a condition on one moment is then evaluated at every moment of a part of the timeline.
type Expr struct {
	Text string
	Pos  Pos
	// Timed means that it is evaluated per moment, a sliding second each.
	Timed bool
	// After and Until name steps: the part begins with After, or with the timeline, and ends with
	// Until, or with the timeline. Windows of a repeating step are "name", "name#2" and so on.
	After, Until string
	// Within is the latest time after the part's start by which it must become true. For is how
	// long it must then stay true; without For, once is enough. Without either it must hold
	// throughout.
	Within, For time.Duration
}

// Published is a figure from the literature. Figure is in the unit of the finding (us, us/request,
// bytes), whatever unit the file used.
type Published struct {
	Source  string      `json:"source"`
	Claim   string      `json:"claim"`
	Finding string      `json:"finding"`
	Cell    record.Cell `json:"cell"`
	Figure  float64     `json:"figure"`
	Unit    string      `json:"unit"`
}

// Probes returns the probes that the study measures.
func (s *Study) Probes() []string {
	return slices.DeleteFunc(probe.Names(), func(name string) bool { return !s.Measured(name) })
}

// Measured reports whether the study requests a measure.
func (s *Study) Measured(measure string) bool {
	return slices.Contains(s.Measures, measure)
}
