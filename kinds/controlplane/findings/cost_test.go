package findings

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// costStudy has one cell in some blocks.
const costStudy = `
name: cost
question: What does a change cost?
control: {changes: 10}
settings: {proxies: 5}
blocks: {min: 3, max: 12}
`

func costOf(t *testing.T, blocks int, spoil func(block int, t *record.Trial)) *analysis.Observations {
	t.Helper()
	block := -1
	run := analysistest.SimulateControl(t, costStudy, blocks, func(record.Cell) analysistest.ControlWorld {
		block++
		return analysistest.ControlWorld{DebounceMS: 100, Pushes: 50, Spoil: func(t *record.Trial, _ []record.Event) { spoil(block, t) }}
	})
	o, err := kinds.Observe(run)
	must.OK(t, err)
	return o
}

func plainCost(t *testing.T, o *analysis.Observations, name string) record.Finding {
	t.Helper()
	i := slices.IndexFunc(costMeasures(), func(m analysis.Measure) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no measure %s", name)
	}
	m := costMeasures()[i]
	m.Def = study.ControlPlane.Findings().Must(name)
	f, ok := o.Plain(0, m)
	if !ok {
		t.Fatalf("no finding %s", name)
	}
	return f
}

// One idle period with a garbage collection in it must not set the base, so the cell's median does.
// With so few trials that the median is uncertain, the cost is uncertain too.
func TestIdleIsTheCellsMedian(t *testing.T) {
	collected := func(block int, trial *record.Trial) {
		trial.Control.IdleSeconds, trial.Control.Idle = 1, record.CPU{UserS: 0.02}
		trial.Control.APIServer, trial.Control.APIServerSeconds = &record.CPU{UserS: 1}, 25
		trial.Control.APIServerIdle, trial.Control.APIServerIdleSeconds = &record.CPU{UserS: 0.02}, 1
		if block == 1 {
			trial.Control.Idle, trial.Control.APIServerIdle = record.CPU{UserS: 0.5}, &record.CPU{UserS: 0.5}
		}
	}
	few, o := costOf(t, 3, collected), costOf(t, 9, collected)
	// 2 s for istiod and 1 s for the API server, minus 25 s of 2%, over 10 changes.
	for name, want := range map[string]float64{"istiod_cpu_per_change": 150_000, "apiserver_cpu_per_change": 50_000} {
		if f := plainCost(t, o, name); math.Abs(f.Estimate-want) > 1e-6 || f.Verdict != record.VerdictMeasured || strings.Contains(note.Codes(f.Warnings), "idle") {
			t.Errorf("%s: %+v", name, f)
		}
		if f := plainCost(t, few, name); math.Abs(f.Estimate-want) > 1e-6 || f.Verdict != record.VerdictInconclusive {
			t.Errorf("%s of three trials: %+v", name, f)
		}
	}
}

// The error of a cell's idle use affects all of its costs equally. It shows in their interval,
// which is as wide as the median's own times the window, although all windows are equal, and in the
// noise floor between identical baselines.
func TestErrorOfIdle(t *testing.T) {
	o := costOf(t, 9, func(block int, trial *record.Trial) {
		trial.Control.IdleSeconds, trial.Control.Idle = 1, record.CPU{UserS: 0.02 + 0.002*float64(block)}
	})
	f := plainCost(t, o, "istiod_cpu_per_change")
	var all []float64
	for block := range 9 {
		all = append(all, 0.02+0.002*float64(block))
	}
	idle := stat.Typical(all, stat.Options{})
	want := (2 - 25*idle.Value) * 1e6 / 10 // 2 s in 25 s, 10 changes
	half := (idle.High - idle.Low) / 2 * 25 * 1e6 / 10
	if math.Abs(f.Estimate-want) > 1e-6 || math.Abs((f.High-f.Low)/2-half) > 1e-6*half || half < 10_000 {
		t.Errorf("%+v, want %g ± %g", f, want, half)
	}
	// Twins with equal windows differ by the uncertainty of their idle periods.
	run := analysistest.SimulateControl(t, analysistest.ControlStudy, 5, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		w.Spoil = func(trial *record.Trial, _ []record.Event) {
			trial.Control.Idle = record.CPU{UserS: 0.08 + 0.01*float64((3*trial.Block+5*trial.Order)%7)}
		}
		return w
	})
	g := analysistest.Analyze(t, kinds, run)
	i := slices.IndexFunc(g.NoiseFloor, func(n record.NoiseFloor) bool { return n.Measure == "istiod_cpu_per_change" })
	if i < 0 || g.NoiseFloor[i].Floor < 5_000 {
		t.Errorf("%+v", g.NoiseFloor)
	}
	for _, variant := range []string{"sidecar", "slow"} {
		if x := analysistest.Get(t, g, "istiod_cpu_per_change_overhead", record.Cell{"variant": variant}); x.Verdict == record.VerdictReal || !(x.Low < x.Estimate && x.Estimate < x.High) {
			t.Errorf("of the same windows: %+v", x)
		}
	}
}

// Use below idle is noise, not a saving. Without an idle period the figure includes idle use, and
// the finding says so.
func TestNetCostsBelowNothing(t *testing.T) {
	o := costOf(t, 3, func(block int, trial *record.Trial) {
		trial.Control.IdleSeconds, trial.Control.Idle = 1, record.CPU{UserS: 0.1 + 0.001*float64(block)}
		trial.Control.APIServerIdle, trial.Control.APIServerIdleSeconds = nil, 0
	})
	f := plainCost(t, o, "istiod_cpu_per_change")
	if f.Estimate >= 0 || f.Verdict != record.VerdictInconclusive || !slices.ContainsFunc(f.Warnings, func(n note.Note) bool { return n.Code == "below_idle" }) {
		t.Errorf("%+v", f)
	}
	f = plainCost(t, o, "apiserver_cpu_per_change")
	if f.Verdict != record.VerdictMeasured || !noteIdleIncluded.In(f.Warnings) {
		t.Errorf("%+v", f)
	}
}

// A stage that some trials did not measure yields a warning, and one that none measured is missing;
// the rest adds up.
func TestMissingStages(t *testing.T) {
	o := costOf(t, 2, func(block int, trial *record.Trial) {
		if block == 0 {
			check := trial.Control.Stages[0].MeanUS + 9000
			trial.Control.Stages[0].CheckUS, trial.Control.Stages[0].CheckSource = &check, "another clock"
			return
		}
		trial.Control.Stages = trial.Control.Stages[:1] // no wire
	})
	if got := stageApart(record.StageWire)(o, 0); len(got) != 1 || !reflect.DeepEqual(got[0], noteStageLacks.Of(1, 2)) {
		t.Errorf("wire: %q", got)
	}
	if got := stageApart(record.StageDebounce)(o, 0); len(got) != 1 || !got[0].Is(noteStageApart) {
		t.Errorf("debounce: %q", got)
	}
	s := controlSummary(o, o.Valid(0))
	if len(s.Stages) != 2 || !slices.Contains(s.MissingStages, record.StageQueue) || slices.Contains(s.MissingStages, record.StageWire) {
		t.Fatalf("%+v, missing %v", s.Stages, s.MissingStages)
	}
	sum := s.ResidualUS
	for _, stage := range s.Stages {
		sum += stage.MeanUS
	}
	if math.Abs(sum-s.MeanUS) > 1 {
		t.Errorf("stages and residual make %g of %g", sum, s.MeanUS)
	}
	if check := s.Stages[0].CheckUS; check == nil || math.Abs(*check-s.Stages[0].MeanUS-9000) > 1e-6 {
		t.Errorf("check %v", check)
	}
}

// The users of the machine add up, whichever counters are missing or have other windows. One node's
// machine is not the sum of parts on several nodes.
func TestCoresByPart(t *testing.T) {
	fill := func(_ int, trial *record.Trial) {
		trial.CPU = map[string]record.CPU{record.PartControl: {UserS: 1, SystemS: 0.25}, record.PartSimulator: {UserS: 0.5},
			record.PartServerProxy: {UserS: 12.5}, record.PartMachine: {UserS: 20, SystemS: 5}}
		trial.Control.APIServer, trial.Control.APIServerSeconds = &record.CPU{UserS: 5}, 50 // twice the window
	}
	o := costOf(t, 3, fill)
	want := map[string]float64{record.PartControl: 0.05, record.PartSimulator: 0.02, record.PartServerProxy: 0.5,
		record.PartAPIServer: 0.1, record.PartMachine: 1, record.PartRest: 0.33}
	check := func(got, want map[string]float64) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("%v, want %v", got, want)
		}
		for part, cores := range want {
			if v, ok := got[part]; !ok || math.Abs(v-cores) > 1e-9 {
				t.Errorf("%s: %g, want %g", part, v, cores)
			}
		}
	}
	check(coresByPart(o, o.Valid(0)), want)
	if s := controlSummary(o, o.Valid(0)); s.Parts[record.PartRest] != coresByPart(o, o.Valid(0))[record.PartRest] {
		t.Errorf("%v", s.Parts)
	}
	o.Run.Header.Machine.Nodes = 3
	delete(want, record.PartMachine)
	delete(want, record.PartRest)
	check(coresByPart(o, o.Valid(0)), want)
	// Counters read at other times leave no negative remainder.
	o = costOf(t, 2, func(_ int, trial *record.Trial) {
		trial.CPU = map[string]record.CPU{record.PartControl: {UserS: 10}, record.PartMachine: {UserS: 9.5}}
		trial.Control.APIServer = nil
	})
	if rest := coresByPart(o, o.Valid(0))[record.PartRest]; rest != 0 {
		t.Errorf("the rest is %g", rest)
	}
}

// Intervals of costs have 95% coverage in simulated studies, whatever the idle periods. Subtracting
// the median alone gave one in four.
func TestErrorOfIdleCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, trials := range []int{2, 5, 10} {
		const runs = 1000
		covered := 0
		for range runs {
			var idle, cost []float64
			for range trials {
				idle = append(idle, 0.03+0.005*r.NormFloat64())
			}
			for _, own := range idle {
				gross := 1 + 25*0.03 + 0.02*r.NormFloat64() // 1 s of changes in 25 s
				cost = append(cost, gross-25*(medianOrNaN(idle)+errorShare(idle, own)))
			}
			if !stat.Mean(cost, stat.Options{}).Excludes(1) {
				covered++
			}
		}
		if share := float64(covered) / runs; share < 0.92 || share > 0.98 {
			t.Errorf("%d trials: %g of the intervals hold the cost", trials, share)
		}
	}
}

// Costs of simulated sidecars state what real ones add, depending on how the simulated ones
// connect. A study with only real sidecars in some cell makes the comparison itself.
func TestRemarks(t *testing.T) {
	o := costOf(t, 3, func(int, *record.Trial) {})
	c := controlplane.Of(o.Plan.Study)
	said := func(want string) {
		t.Helper()
		if got := note.Words(remarks(o)); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	said("cost it 1.18 times as much over mutual TLS, each on a connection of its own (95% interval 1.10 to 1.28);")
	c.AnswerAfter = 20e6
	said("cost it 1.11 times as much")
	c.Security = controlplane.SecurityPlaintext
	said("is unknown")
	c.StreamsPerConnection = 50
	said("cost it 1.34 times as much")
	c.Security = controlplane.SecurityTLS
	said("is unknown")
	for _, trial := range o.Valid(0) {
		trial.Control.Proxies, trial.Control.Gateways, trial.Control.RealProxies = 0, 0, 16
	}
	said("")
}

// If more than 1% of the requests failed, the 99th percentile over all requests is not that of an
// answered one.
func TestTrafficLatencyOfFailed(t *testing.T) {
	for lost, want := range map[int64]bool{0: true, 10: true, 11: false} {
		all := trafficMeasures()
		m := all[slices.IndexFunc(all, func(m analysis.Measure) bool { return m.Name == "traffic_latency_p99" })]
		o := costOf(t, 3, func(block int, trial *record.Trial) {
			x := &record.Traffic{Requests: 1000, Completed: 1000, Latency: record.LatencyAt(0.99, 5000)}
			if block == 1 {
				x.Completed, x.Failed, x.Unfinished = 1000-lost, map[string]int64{"status": lost / 2}, lost-lost/2
			}
			trial.Control.Traffic = x
		})
		m.Def = study.ControlPlane.Findings().Must(m.Name)
		f, ok := o.Plain(0, m)
		if got := f.Verdict == record.VerdictMeasured && f.Estimate == 5000; !ok || got != want {
			t.Errorf("%d lost: %+v", lost, f)
		}
		if !want && (f.Reason != record.ReasonNotReached || !strings.Contains(f.Warnings[0].String(), "in 1 of 3 trials more than 1% of the requests failed or never ended")) {
			t.Errorf("%d lost: %+v", lost, f)
		}
	}
}

// The share of single-pair errors that cancel in the mean is reported, with a warning if they are
// many. Nothing is reported if they were not counted.
func TestUnexplainedPairs(t *testing.T) {
	run := analysistest.SimulateControl(t, analysistest.ControlStudy, 3, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		w.Spoil = func(trial *record.Trial, _ []record.Event) {
			switch c[study.FactorVariant] {
			case "none":
				trial.Control.Unexplained = &record.Unexplained{Pairs: 40, Beyond: 8, Unlogged: 3, LargestUS: -8e6}
			case "sidecar":
				trial.Control.Unexplained = &record.Unexplained{Pairs: 40, Beyond: 2, LargestUS: 20_000}
			}
		}
		return w
	})
	f := analysistest.Analyze(t, kinds, run)
	at := func(v string) record.Cell { return record.Cell{"variant": v} }
	many := analysistest.Get(t, f, "stage_residual_share", at("none"))
	want := "48 of 240 change-proxy pairs differ from their own stages by more than 5% of their time or 2 ms, one by -8.0 s; such errors cancel in the mean; 18 of them belong to pushes that istiod does not log per proxy"
	if many.Estimate != 0.2 || many.Unit != finding.UnitRatio || !strings.Contains(note.Words(many.Warnings), want) {
		t.Errorf("%+v", many)
	}
	if few := analysistest.Get(t, f, "stage_residual_share", at("sidecar")); few.Estimate != 0.05 || notePairsApart.In(few.Warnings) {
		t.Errorf("%+v", few)
	}
	if x := analysistest.Get(t, f, "stage_residual", at("none")); noteResidual.In(x.Warnings) {
		t.Errorf("the mean is within its bound: %+v", x)
	}
	for _, x := range f.Findings {
		if x.Name == "stage_residual_share" && x.Cell["variant"] == "slow" {
			t.Errorf("a share of what nobody counted: %+v", x)
		}
	}
}
