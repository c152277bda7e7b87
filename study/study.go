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
	Name     string // [a-z0-9-]+, also the name of the run
	Title    string
	Question string
	Story    string // prose for the report, optional
	Mesh     string // one of Meshes

	// Settings holds the level of every factor that does not vary.
	Settings record.Cell
	// Factors are those that vary, in the file's order.
	Factors []record.FactorLevels
	// Baseline, put over a cell, gives the cell it is compared with. Empty:
	// nothing is compared.
	Baseline record.Cell
	// Variants are named sets of levels, which the factor variant chooses
	// from.
	Variants []NamedLevels
	// Made says that the kind's section makes the variants, which files then do not name.
	Made bool
	// Exclude names combinations of levels that are left out.
	Exclude []record.Cell

	// Section is what the study's kind has of its own in files; the kind's package knows its type.
	Section any

	Load   Load
	Warmup Warmup
	Blocks Blocks
	Stop   *Stop // nil: until Blocks ends the run
	// Margin is the largest difference from the baseline, as a share of the
	// baseline's value, that does not matter.
	Margin   Ratio
	Seed     uint64 // 0: chosen when the run starts, and recorded
	Measures []string
	// Search asks how far levels can go.
	Search []Search
	// Tune asks for the best setting of the levers that vary; nil: nobody asks.
	Tune   *Tune
	Assert []Expr
	// Money is the mesh whose cost findings are told in; nil: none.
	Money *money.Mesh
	// Sizing is the mesh in which ways of carrying requests are set side by side; nil:
	// none.
	Sizing *sizing.Mesh
	// Published are figures of the literature to set beside ours.
	Published []Published

	// places are where factors stand in the file; see [Study.Place].
	places map[string]Pos
	// levelsAt says where settings and factors give factors levels; see [Plan.Unmeasured].
	levelsAt map[string]Pos
	// flags says that --set flags changed the file.
	flags bool
}

// Measures: the probes a study can ask for.
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

// MeasureLedger, of studies of resilience, is what became of every request.
const MeasureLedger = "ledger"

// defaultMeasures are those of a study that names none.
func defaultMeasures(k Kind) []string {
	s := k.spec()
	return slices.DeleteFunc(slices.Clone(s.Measures), func(m string) bool { return slices.Contains(s.Unasked, m) })
}

// Distributions of service time.
const (
	DistributionFixed       = "fixed"
	DistributionExponential = "exponential"
	DistributionLognormal   = "lognormal"
	DistributionRecorded    = "recorded"
)

// Load is how the generator sends, in every cell.
type Load struct {
	Timeout time.Duration     `json:"timeout"` // a request without an answer after this has failed
	Method  string            `json:"method"`  // HTTP protocols
	Path    string            `json:"path"`    // HTTP protocols
	Headers map[string]string `json:"headers"` // HTTP protocols
	// TLS makes the generator itself speak TLS to the worker, beside what
	// the mesh does.
	TLS bool `json:"tls"`
}

// Warmup bounds the time before the window: it ends when latency and CPU
// are steady, not before Min and not after Max.
type Warmup struct {
	Min time.Duration `json:"min"`
	Max time.Duration `json:"max"`
}

// Blocks says how many passes over the cells are made.
type Blocks struct {
	Min int `json:"min"` // the stop rule is asked from here on
	Max int `json:"max"`
	// Limit is the time for all blocks: none begins that, going by the
	// longest so far, would end later, and the first always runs. In a search
	// or a tuning that holds of each trial.
	Limit time.Duration `json:"limit"`
	// Redeploy is how many blocks one set of pods serves; 0 for the whole run.
	Redeploy int `json:"redeploy"`
}

// Stop ends the run early: when in every cell that Of matches the interval
// of the finding is at most HalfWidth of the estimate to either side.
type Stop struct {
	Finding   string      `json:"finding"`
	HalfWidth Ratio       `json:"half_width"`
	Of        record.Cell `json:"of"`
}

// Expr is a CEL expression over findings and where it stands. In a study of
// resilience it may be about time: what it says of one moment is asked of
// every moment of a part of the timeline.
type Expr struct {
	Text string
	Pos  Pos
	// Timed says that it is about moments, a sliding second each.
	Timed bool
	// After and Until name steps: the part begins with the one, or with the
	// timeline, and ends with the other, or with the timeline. Windows of a
	// step that repeats are "name", "name#2" and so on.
	After, Until string
	// Within is how long after the part's begin it must come true at the
	// latest, For how long it must then stay so; without For once is enough.
	// Without either it must hold throughout.
	Within, For time.Duration
}

// Published is a figure of the literature. Figure is in the unit of the
// finding (us, us/request, bytes), whatever unit the file used.
type Published struct {
	Source  string      `json:"source"`
	Claim   string      `json:"claim"`
	Finding string      `json:"finding"`
	Cell    record.Cell `json:"cell"`
	Figure  float64     `json:"figure"`
	Unit    string      `json:"unit"`
}

// Probes are those that the study measures.
func (s *Study) Probes() []string {
	return slices.DeleteFunc(probe.Names(), func(name string) bool { return !s.Measured(name) })
}

// Measured reports whether the study asks for a measure.
func (s *Study) Measured(measure string) bool {
	for _, m := range s.Measures {
		if m == measure {
			return true
		}
	}
	return false
}
