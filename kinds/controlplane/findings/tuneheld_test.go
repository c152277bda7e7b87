package findings_test

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/testing/must"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

const heldStudy = `
name: held
question: Which setting pushes least, and still converges?
control: {changes: 10}
settings: {change: service, services: 5, proxies: 20}
factors:
  debounce_after: [2500ms, 1s, 300ms]
  push_throttle: [installed, "10"]
tune: {objectives: [pushes], constraints: ["convergence<=1500ms"], trials: 12, confirm: 3}
`

// changesOf returns ten changes to 20 proxies, each of which has them after some time; the last
// missed proxies never do.
func changesOf(trial *record.Trial, seconds float64, missed int) []record.Event {
	var out []record.Event
	for i := range 10 {
		e := record.Event{Trial: trial.ID, Change: i, Kind: "service", CommittedNS: int64(i+1) * 1e9, Expected: 20}
		for p := range 20 {
			if p >= 20-missed {
				e.Missed = append(e.Missed, int32(p))
				continue
			}
			us := int64(seconds * 1e6 * (1 + 0.01*math.Sin(float64(trial.Order+p))))
			e.Seen.Proxy, e.Seen.ReceivedUS, e.Seen.AckedUS = append(e.Seen.Proxy, int32(p)), append(e.Seen.ReceivedUS, us), append(e.Seen.AckedUS, us)
		}
		out = append(out, e)
	}
	return out
}

// debounced is the effect of a debounce here: fewer pushes, and later ones.
func debounced(cell record.Cell) (pushes, seconds float64) {
	switch cell[study.FactorDebounceAfter] {
	case "2.5s":
		return 100, 3
	case "1s":
		return 200, 1.2
	}
	return 400, 0.4
}

// heldTuning carries out a tuning in which some proxies of a trial miss every change.
func heldTuning(t *testing.T, text string, missed func(trial *record.Trial) int) *record.Tuning {
	t.Helper()
	plan := analysistest.PlanOf(t, text, 5)
	run := carryOut(t, plan, headerOf(plan), math.MaxInt, func(trial *record.Trial) []record.Event {
		pushes, seconds := debounced(trial.Cell)
		trial.Window.Seconds, trial.Control = 20, controlOf(pushes)
		return changesOf(trial, seconds, missed(trial))
	})
	f, err := kinds.Analyze(run)
	must.OK(t, err)
	return f.Tuning
}

func noneMissed(*record.Trial) int { return 0 }

// If the current setting breaks a constraint, one that meets it is recommended regardless of its
// cost in the objectives.
func TestTuningMends(t *testing.T) {
	got := heldTuning(t, heldStudy, noneMissed)
	if got.Recommended[study.FactorDebounceAfter] != "1s" || got.Verdict != record.VerdictReal || got.Confirmed[0].Estimate < 50 {
		t.Fatalf("recommended is %v: %s", got.Recommended, got.Verdict)
	}
	if len(got.Kept) != 1 || got.Kept[0].Verdict != record.TunedMet || got.Kept[0].Present != record.TunedBroken {
		t.Errorf("the constraint is %+v", got.Kept)
	}
	if got.Refuted() || !strings.HasPrefix(got.Mends(), "convergence_p99<=1.5") {
		t.Errorf("refuted %v, mends %q", got.Refuted(), got.Mends())
	}
}

// Changes that never arrive in the comparison break a constraint on their duration, however soon
// the others arrived.
func TestTuningMissed(t *testing.T) {
	compared := false
	got := heldTuning(t, heldStudy, func(trial *record.Trial) int {
		if compared = compared || trial.Repeat == 1 || trial.Block > 2; compared && trial.Cell[study.FactorDebounceAfter] == "1s" {
			return 4
		}
		return 0
	})
	if got.Recommended[study.FactorDebounceAfter] != "1s" || len(got.Kept) != 1 {
		t.Fatalf("recommended is %v, kept %+v", got.Recommended, got.Kept)
	}
	if k := got.Kept[0]; k.Verdict != record.TunedBroken || k.Says.Code != "unreached_share" || k.Says.Args[1] != "proxies" || !got.Refuted() {
		t.Errorf("more than a hundredth never arrived, and the constraint is %+v", k)
	}
}

// A cell whose changes never arrived in the search must not count as a cell without a value, which
// leaves room for hope.
func TestTuningNothingArrives(t *testing.T) {
	text := strings.Replace(heldStudy, "objectives: [pushes]", "objectives: [convergence]", 1)
	got := heldTuning(t, text, func(trial *record.Trial) int {
		if trial.Cell[study.FactorDebounceAfter] == "300ms" {
			return 20
		}
		return 0
	})
	seen := false
	for _, c := range got.Cells {
		if c.Cell[study.FactorDebounceAfter] == "300ms" {
			seen = true
			if c.Objective.Estimate < 5 || c.Allowed > 0.1 {
				t.Errorf("a setting in which nothing arrives is %.2f more and meets the constraint by %.2f", c.Objective.Estimate, c.Allowed)
			}
		}
	}
	if !seen || got.Recommended[study.FactorDebounceAfter] != "1s" {
		t.Errorf("recommended is %v", got.Recommended)
	}
}

// A search for a value that no trial has, or that is zero in all of them, ends and reports that it
// has no answer.
func TestTuningLacks(t *testing.T) {
	for lacking, text := range map[string]string{
		"istiod_memory":                  strings.Replace(heldStudy, "convergence<=1500ms", "memory<=+20%", 1), // not measured
		"stale_proxy_seconds_per_change": strings.Replace(heldStudy, "objectives: [pushes]", "objectives: [pushes, staleness]", 1),
	} {
		if got := heldTuning(t, text, noneMissed); got.Lacking != lacking || len(got.Recommended) > 0 || got.ConfirmBlocks > 0 || !strings.Contains(got.Stop, lacking) {
			t.Errorf("trials say nothing of %s, and the tuning lacks %q: it ended since %s", lacking, got.Lacking, got.Stop)
		}
	}
}
