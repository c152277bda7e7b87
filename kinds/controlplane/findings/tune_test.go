package findings_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

var kinds = analyses.All()

const tunedStudy = `
name: tuned
question: Which setting pushes least?
control: {}
factors:
  sidecar_scope: [installed, mesh]
  debounce_after: [installed, 300ms, 1s, 2500ms]
  push_throttle: [installed, "10", "100"]
tune: {objectives: [pushes], constraints: ["memory<=+20%"], trials: 16, confirm: 3}
measures: [amplification, cost]
`

// worldOfLevers returns a cell's result: pushes, and memory in bytes. What the debounce saves costs
// memory here, so the longest is not allowed.
func worldOfLevers(cell record.Cell) (pushes, memory float64) {
	pushes, memory = 500, 100e6
	if cell[controlplane.FactorSidecarScope] == controlplane.SidecarScopeMesh {
		pushes *= 0.15
	}
	switch cell[study.FactorDebounceAfter] {
	case "1s":
		pushes, memory = pushes*0.8, memory*1.05
	case "2.5s":
		pushes, memory = pushes*0.6, memory*1.5
	}
	return pushes, memory
}

// tuneRun runs what Next requests until it requests nothing, or stops after most trials.
func tuneRun(t testing.TB, plan *study.Plan, run record.Run, noise float64, most int, change func(block int, trial *record.Trial, pushes *float64)) record.Run {
	t.Helper()
	return carryOut(t, plan, run, most, func(trial *record.Trial) []record.Event {
		r := rand.New(rand.NewPCG(uint64(trial.Block), uint64(trial.Order)))
		pushes, memory := worldOfLevers(trial.Cell)
		trial.Memory = memoryOf(memory * math.Exp(noise*r.NormFloat64()))
		pushes *= math.Exp(noise * r.NormFloat64())
		if change != nil {
			change(trial.Block, trial, &pushes)
		}
		trial.Control = controlOf(pushes)
		return nil
	})
}

func memoryOf(bytes float64) map[string]record.Memory {
	return map[string]record.Memory{record.PartControl: {PSSBytes: int64(bytes)}}
}

func controlOf(pushes float64) *record.Control {
	return &record.Control{Committed: 10, Installed: record.Cell{study.FactorDebounceAfter: "100ms", controlplane.FactorSidecarScope: "none"},
		Istiod: map[string]float64{`pilot_xds_pushes{type="cds"}`: math.Round(pushes)}}
}

// carryOut runs the trials that Next requests; measure fills in each and returns its events.
func carryOut(t testing.TB, plan *study.Plan, run record.Run, most int, measure func(trial *record.Trial) []record.Event) record.Run {
	t.Helper()
	for block := 0; ; block++ {
		any := slices.ContainsFunc(run.Trials, func(x record.Trial) bool { return x.Block == block })
		for len(run.Trials) < most {
			order, more, err := kinds.Next(plan, run, block)
			must.OK(t, err)
			if !more {
				break
			}
			any = true
			slot, id := plan.Block(block)[order], study.TrialID(block, order)
			trial := record.Trial{ID: id, Block: block, Order: order, Repeat: slot.Repeat, Cell: plan.Cells[slot.Cell], Validity: record.Validity{Valid: true}}
			run.Events = append(run.Events, measure(&trial)...)
			run.Trials = append(run.Trials, trial)
		}
		if !any || len(run.Trials) >= most {
			return run
		}
	}
}

// analyzed carries out a whole tuning and analyzes it.
func analyzed(t *testing.T, plan *study.Plan, noise float64, change func(block int, trial *record.Trial, pushes *float64)) record.Findings {
	t.Helper()
	f, err := kinds.Analyze(tuneRun(t, plan, headerOf(plan), noise, math.MaxInt, change))
	must.OK(t, err)
	return f
}

func tunedPlan(t testing.TB, seed uint64) *study.Plan {
	t.Helper()
	return analysistest.PlanOf(t, tunedStudy, seed)
}

func headerOf(plan *study.Plan) record.Run {
	return record.Run{Header: record.Header{Schema: record.Schema, Kind: string(study.ControlPlane), RunID: "r", Study: plan.Study.Name, Seed: plan.Seed, Machine: record.Machine{CPUs: 4}},
		StudyYAML: plan.Study.Marshal()}
}

// A tuning finds the best setting within the constraint, and compares it with the current one in
// separate blocks.
func TestTuning(t *testing.T) {
	plan := tunedPlan(t, 7) // by three blocks of this scatter the constraint is met in most seeds, and undecided in some
	f := analyzed(t, plan, 0.03, nil)
	got := f.Tuning
	if got == nil || got.Stop == "" || got.Trials > 16 || got.ConfirmBlocks != 3 {
		t.Fatalf("the tuning is %+v", got)
	}
	if got.Recommended[controlplane.FactorSidecarScope] != "mesh" || got.Recommended[study.FactorDebounceAfter] != "1s" || got.Present[study.FactorDebounceAfter] != "100ms" {
		t.Errorf("recommended are %v, present %v", got.Recommended, got.Present)
	}
	if d := got.Confirmed[0]; d.Name != "pushes_overhead" || got.Verdict != record.VerdictReal || d.Blocks != 3 || math.Abs(d.Relative.Estimate+0.88) > 0.05 {
		t.Errorf("the comparison says %+v", d)
	}
	if len(got.Kept) != 1 || got.Kept[0].Verdict != record.TunedMet {
		t.Errorf("the constraint is %+v", got.Kept)
	}
	if i := slices.IndexFunc(f.Findings, func(x record.Finding) bool { return x.Name == controlplane.FindingTuned }); i < 0 || f.Findings[i].Estimate != got.Confirmed[0].Relative.Estimate || f.Findings[i].Verdict != record.VerdictReal {
		t.Errorf("the finding is number %d", i)
	}
	front := 0
	for i, c := range got.Cells {
		if c.Front {
			front++
		}
		if i > 0 && c.Objective.Estimate < got.Cells[i-1].Objective.Estimate {
			t.Errorf("cell %d is better than the one before", i)
		}
	}
	if front == 0 {
		t.Error("nothing is on the front")
	}
	if len(got.Settings) == 0 || len(got.Steps) < 9 || len(got.Watch) == 0 {
		t.Errorf("%d settings, %d steps, %d signals to watch", len(got.Settings), len(got.Steps), len(got.Watch))
	}
	if f.Stop != study.TuneDone(got.Blocks+3) {
		t.Errorf("the run ended since %q", f.Stop)
	}
}

// The comparison excludes the search's results: if the recommended setting was lucky throughout the
// search and never again, the comparison finds no effect.
func TestTuningComparesAnew(t *testing.T) {
	plan := tunedPlan(t, 6)
	lucky := func(blocks int) (*record.Tuning, map[int]bool) {
		compared := map[int]bool{}
		f := analyzed(t, plan, 0.02, func(block int, trial *record.Trial, pushes *float64) {
			if compared[block] = trial.Repeat == 1 || compared[block]; !compared[block] {
				delete(compared, block)
			}
			*pushes = 500 + float64(trial.Order%5)
			if block < blocks && trial.Cell[controlplane.FactorSidecarScope] == "mesh" {
				*pushes -= 400
			}
		})
		return f.Tuning, compared
	}
	always, _ := lucky(math.MaxInt)
	if always.Verdict != record.VerdictReal {
		t.Fatalf("an effect that lasts is %+v", always.Confirmed[0])
	}
	once, compared := lucky(always.Blocks)
	if once.Recommended[controlplane.FactorSidecarScope] != "mesh" || once.Blocks != always.Blocks || len(compared) != 3 {
		t.Fatalf("the search found %v in %d blocks, and blocks %v compare", once.Recommended, once.Blocks, compared)
	}
	if once.Verdict != record.VerdictNoEffect {
		t.Errorf("an effect that only the search saw is %+v", once.Confirmed[0])
	}
}

// An interrupted tuning continues with the same trials: after the first, within its search, at the
// start of the comparison and before the last.
func TestTuningGoesOn(t *testing.T) {
	plan := tunedPlan(t, 9)
	whole := tuneRun(t, plan, headerOf(plan), 0.05, math.MaxInt, nil)
	compared := slices.IndexFunc(whole.Trials, func(x record.Trial) bool { return x.Repeat > 0 })
	for _, at := range []int{1, compared / 2, compared, len(whole.Trials) - 1} {
		part := whole
		part.Trials = slices.Clone(whole.Trials[:at])
		again := tuneRun(t, plan, part, 0.05, math.MaxInt, nil)
		if !slices.EqualFunc(again.Trials, whole.Trials, func(a, b record.Trial) bool { return a.ID == b.ID }) {
			t.Errorf("after %d of %d trials it goes on to %d others", at, len(whole.Trials), len(again.Trials))
		}
		if _, err := kinds.Analyze(part); err != nil {
			t.Error(err)
		}
	}
}

// Invalid trials are counted, and only affect the number of trials.
func TestTuningWithoutValidTrials(t *testing.T) {
	got := analyzed(t, tunedPlan(t, 3), 0.03, func(_ int, trial *record.Trial, _ *float64) { trial.Validity.Valid = false }).Tuning
	if got.Trials > 16 || got.Recommended != nil || got.ConfirmBlocks != 0 {
		t.Errorf("recommended is %+v", got)
	}
}

// A cell without valid trials has no values and is not on a front: the prediction for it, which is
// low if similar cells did well, was not measured.
func TestTunedCellWithoutValidTrials(t *testing.T) {
	lost := 0
	f := analyzed(t, tunedPlan(t, 5), 0.03, func(_ int, trial *record.Trial, _ *float64) {
		if trial.Cell[study.FactorDebounceAfter] == "2.5s" {
			trial.Validity.Valid = false
		}
	})
	for _, c := range f.Tuning.Cells {
		if c.Cell[study.FactorDebounceAfter] != "2.5s" {
			continue
		}
		lost++
		if c.Front || slices.ContainsFunc(c.Values, func(v record.TunedValue) bool { return v.Known }) {
			t.Errorf("none of its %d trials is valid: %+v", c.Trials, c)
		}
	}
	if lost == 0 || !slices.ContainsFunc(f.Tuning.Cells, func(c record.TunedCell) bool { return c.Front }) {
		t.Errorf("%d of %d cells have no valid trial, and one is on the front at least", lost, len(f.Tuning.Cells))
	}
}

// A cell that only one of two tunings tried does not count as a cell whose trials the other lost,
// which would say nothing about their similarity.
func TestCompareTunings(t *testing.T) {
	tried := map[uint64]map[string]bool{}
	tuned := func(seed uint64) record.Run {
		tried[seed] = map[string]bool{}
		plan := tunedPlan(t, seed)
		return tuneRun(t, plan, headerOf(plan), 0.02, math.MaxInt, func(_ int, trial *record.Trial, _ *float64) {
			tried[seed][trial.Cell.Key()] = true
			trial.CPU = map[string]record.CPU{record.PartControl: {UserS: 1 + 0.01*float64(trial.Order%3)}}
		})
	}
	a, b := tuned(5), record.Run{}
	alone := 0
	for seed := uint64(6); seed < 30 && alone == 0; seed++ {
		b = tuned(seed)
		for cell := range tried[5] {
			if !tried[seed][cell] {
				alone++
			}
		}
	}
	if alone == 0 {
		t.Fatal("all tried the same cells")
	}
	got, err := analysistest.Compare(t, kinds, a, b, 0.2)
	must.OK(t, err)
	deciding := 0
	for _, c := range got.Changes {
		if c.Decides {
			deciding++
		}
		none := func(f record.Finding) bool { return f.Verdict == record.VerdictInvalid && f.Blocks == 0 }
		if none(c.A) != none(c.B) { // not measured in either
			t.Errorf("%s at %v of a cell that a run did not try: %s", c.Name, c.Cell, c.Why)
		}
	}
	if deciding == 0 {
		t.Error("nothing decides")
	}
}
