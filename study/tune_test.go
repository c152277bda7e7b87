package study

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/record/finding"
)

func TestParseTuneGoal(t *testing.T) {
	for text, want := range map[string]TuneGoal{
		"pushes": {"pushes", 1}, "pushes*2": {"pushes", 2}, " convergence * 0.5 ": {"convergence_p99", 0.5}, "staleness": {"stale_proxy_seconds_per_change", 1},
		"cpu": {"istiod_cpu_per_change", 1}, "memory": {"istiod_memory", 1}, "bytes": {"push_bytes_per_change", 1}, "convergence_p50": {"convergence_p50", 1},
	} {
		got, err := ControlPlane.parseTuneGoal(text)
		if err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
		if again, err := ControlPlane.parseTuneGoal(got.String()); err != nil || again != got {
			t.Errorf("%q is written as %q, which is %v, %v", text, got, again, err)
		}
	}
	for text, hint := range map[string]string{"pushs": "did you mean pushes?", "": "", "pushes*0": "0.01 to 100", "pushes*x": "", "missed": "possible: ", "pushes_overhead": ""} {
		if g, err := ControlPlane.parseTuneGoal(text); err == nil || !strings.Contains(err.Hint, hint) {
			t.Errorf("%q is %v, %v", text, g, err)
		}
	}
}

func TestParseTuneBound(t *testing.T) {
	for text, want := range map[string]TuneBound{
		"convergence<=2s":       {"convergence_p99", 2e6, finding.UnitMicroseconds, false},
		"convergence <= 500 ms": {"convergence_p99", 5e5, finding.UnitMicroseconds, false},
		"staleness<=2s":         {"stale_proxy_seconds_per_change", 2, finding.UnitSecondsPerChange, false},
		"cpu<=5ms":              {"istiod_cpu_per_change", 5e3, finding.UnitPerChange, false},
		"cpu<=+10%":             {"istiod_cpu_per_change", 0.1, "", true},
		"cpu<=-20%":             {"istiod_cpu_per_change", -0.2, "", true},
		"pushes<=70 pushes":     {"pushes", 70, finding.UnitPushes, false},
		"memory<=1.5MB":         {"istiod_memory", 1.5e6, finding.UnitBytes, false},
	} {
		got, err := ControlPlane.parseTuneBound(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
		if again, err := ControlPlane.parseTuneBound(got.String()); err != nil || again != got {
			t.Errorf("%q is written as %q, which is %+v, %v", text, got, again, err)
		}
	}
	for text, says := range map[string]string{
		"cpu<=10%": "a percentage without a sign", "cpu<5ms": "not a constraint", "cpu<=+5ms": "a sign but no percent sign", "cpu<=-100%": "cannot be satisfied", "coffee<=2s": "cannot tune for",
		"convergence<=2MB": "not a unit", "convergence<=": "not a constraint", "pushes<=1e3 pushes": "not a constraint", "convergence<=2": "not a unit",
	} {
		b, err := ControlPlane.parseTuneBound(text)
		if err == nil || !strings.Contains(err.Msg, says) || err.Hint == "" {
			t.Errorf("%q is %+v, %v", text, b, err)
		}
	}
}

// Whatever parses as a constraint round-trips.
func FuzzTuneBound(f *testing.F) {
	for _, text := range []string{"cpu<=+10%", "convergence<=2s", "memory<=1.5MB", "pushes<=70 pushes", "cpu<=-0.01%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ControlPlane.parseTuneBound(text)
		if err != nil {
			return
		}
		if again, err := ControlPlane.parseTuneBound(b.String()); err != nil || again != b {
			t.Errorf("%q is written as %q, which is %+v, not %+v (%v)", text, b, again, b, err)
		}
	})
}

const tuneFile = `
name: tuned
question: Which setting is best?
control: {}
factors:
  sidecar_scope: [installed, mesh]
  debounce_after: [installed, 300ms, 1s]
tune: {objectives: [pushes, convergence*2], constraints: ["cpu<=+10%"], confirm: 3}
`

// A section tune round-trips as the same study, compares with the levers as installed, and takes a
// quarter of the cells, but at least twelve trials.
func TestTuneSection(t *testing.T) {
	plan := planOf(t, tuneFile)
	s := plan.Study
	if again := parseOK(t, string(s.Marshal())); string(again.Marshal()) != string(s.Marshal()) {
		t.Fatalf("%s", s.Marshal())
	}
	if base := plan.Cells[slices.IndexFunc(plan.Cells, plan.IsBaseline)]; base["sidecar_scope"] != LevelInstalled || base[FactorDebounceAfter] != LevelInstalled {
		t.Errorf("cells are compared with %v", base)
	}
	if n := plan.TuneTrials(); n != 12 {
		t.Errorf("%d trials for %d cells", n, len(plan.Cells))
	}
	if !s.Chooses() || s.Blocks.Max < 1000 || s.ChoicesDone(3) != TuneDone(3) {
		t.Errorf("blocks are %+v", s.Blocks)
	}
	shortest := plan.Estimate().Min
	for limit, fewest := range map[time.Duration]time.Duration{shortest: 0, shortest - 1: shortest} {
		s.Blocks.Limit = limit
		if e := plan.Estimate(); e.Fewest != fewest {
			t.Errorf("limit %v: %+v, want %v for the fewest blocks", limit, e, fewest)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		plan := planOf(t, tuneFile, "push_throttle="+rapid.SampledFrom([]string{"[installed]", `["10", "20", "30", "40"]`, `["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"]`}).Draw(r, "levels"))
		n := plan.TuneTrials()
		if e := plan.Estimate(); n < 12 || n > max(12, (len(plan.Cells)+3)/4) || e.Min > e.Max || e.Min <= 0 {
			r.Fatalf("%d trials for %d cells, %+v", n, len(plan.Cells), e)
		}
	})
}

// Errors about tuning have a position and a hint.
func TestTuneComplains(t *testing.T) {
	for set, says := range map[string]string{
		"proxies=[5, 10]":                        "proxies is not a lever",
		"measures=[convergence]":                 "pushes needs measure amplification",
		"stop={finding: pushes, half_width: 5%}": "it cannot have stop",
		"search=[{factor: debounce_after, finding: pushes, bound: 70 pushes}]": "it cannot have search",
		"baseline={}":                      "this study has 0",
		"baseline={sidecar_scope: mesh}":   "this study has 3",
		"tune.objectives=[pushes, pushes]": "an objective twice",
		"tune.objectives=[]":               "the list is empty",
		"tune.confirm=1":                   "out of range",
		"tune.trials=3":                    "out of range",
		"tune.better=0%":                   "out of range",
		"tune.constraints=[cpu]":           "not a constraint",
		"tune.what=1":                      `unknown field "what"`,
	} {
		answered(t, tuneFile, []string{set}, "", says)
	}
	answered(t, strings.Replace(tuneFile, "control: {}", "", 1), nil, "", "control plane")
	answered(t, strings.Replace(tuneFile, "factors:", "variants: {a: {}, b: {proxies: 5}}\nfactors:", 1), nil, "", "variant b sets proxies, which is not a lever")
}
