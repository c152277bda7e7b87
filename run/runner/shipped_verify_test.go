//go:build verify

package runner_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/meshtrial/meshtrial/testing/must"
)

// brief has overrides that shorten a shipped study. Its intervals are then too wide to
// mean much, but all figures are present.
var brief = []string{"--set", "blocks.min=2", "--set", "blocks.max=2", "--set", "blocks.limit=20m", "--set", "warmup.min=0s", "--set", "warmup.max=500ms", "--set", "window=1s"}

// shippedStudy returns a shipped study as the program reads it.
func (b *bench) shippedStudy(t *testing.T, out string) *study.Study {
	t.Helper()
	run, notes, err := store.Load(t.Context(), out)
	if err != nil || len(notes) > 0 {
		t.Fatalf("%v, %v", notes, err)
	}
	return mustParse(t, run.StudyYAML)
}

// TestShippedHops verifies that every part of a request's path has its figures, which
// add up to the total. A few blocks may be too short for a p99.
func TestShippedHops(t *testing.T) {
	b := newBench(t)
	// Parts add up over blocks with a valid trial of each cell, of which two are
	// needed.
	said, out := b.attempt(t, "hops", append(slices.Clone(brief), "--set", "blocks.max=6")...)
	f := readFindings(t, out)
	t.Log(said)
	if len(f.Hops) != 1 || len(f.Hops[0].Terms) < 6 || len(f.Hops[0].Apart) > 0 {
		t.Fatalf("the way is %+v", f.Hops)
	}
	terms := f.Hops[0].Terms
	whole, parts := terms[len(terms)-1], terms[:len(terms)-1]
	for _, of := range dataplane.HopMeasures() {
		if of == dataplane.HopP99 && whole.Figures[of].Verdict == record.VerdictInvalid { // 30 requests beyond it require a longer window
			continue
		}
		sum := 0.0
		for _, term := range parts {
			if _, ok := term.Figures[of]; !ok {
				t.Errorf("%s has no %s: %+v", term.Name, of, term.Figures)
			}
			sum += term.Figures[of].Estimate
		}
		if w := whole.Figures[of].Estimate; w <= 0 || sum < 0.98*w || sum > 1.02*w {
			t.Errorf("%s of the parts is %v, of %s %v", of, sum, whole.Name, w)
		}
	}
	b.gone(t)
}

// TestShippedBill verifies that every part of a sidecar has a price, and that the part
// that burns 50 us per request has at least half of that.
func TestShippedBill(t *testing.T) {
	b := newBench(t)
	_, out := b.attempt(t, "filter-bill", brief...)
	want := dataplane.Of(b.shippedStudy(t, out)).Bill
	f := readFindings(t, out)
	if len(f.Bills) != 1 || f.Bills[0].Together == nil {
		t.Fatalf("the bill is %+v", f.Bills)
	}
	if len(f.Bills[0].Parts) != len(want.Parts) {
		t.Errorf("%d parts of %d have a price", len(f.Bills[0].Parts), len(want.Parts))
	}
	planted := slices.IndexFunc(f.Bills[0].Parts, func(p record.BillPart) bool { return p.Name == "planted-50" })
	if planted < 0 || f.Bills[0].Parts[planted].Figures["cpu"].Estimate < 25 {
		t.Errorf("what was planted costs %+v", f.Bills[0].Parts)
	}
	b.gone(t)
}

// TestShippedCallouts verifies that each filter that asks a service has a price, and that the service
// has its own CPU in the cells that ask it.
func TestShippedCallouts(t *testing.T) {
	b := newBench(t)
	_, out := b.attempt(t, "callouts", brief...)
	f := readFindings(t, out)
	if len(f.Bills) != 1 || f.Bills[0].Together == nil || len(f.Bills[0].Parts) != 5 {
		t.Fatalf("the bill is %+v", f.Bills)
	}
	for _, p := range f.Bills[0].Parts {
		if slices.Contains(study.Callouts(), p.Name) {
			if p.Figures["cpu"].Estimate <= 0 {
				t.Errorf("%s costs %+v", p.Name, p.Figures["cpu"])
			}
			plain(t, f, "cpu_sink_per_request", p.Name)
		}
	}
	b.gone(t)
}

// TestShippedSaturation verifies that every variant has its highest rate, or the
// reason why not, and that nothing above a rate that broke the bound was measured.
func TestShippedSaturation(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(b.dir, "saturation")
	code, said := b.meshtrial(t, "run", "saturation", "--out", out, "--set", "blocks.min=1", "--set", "blocks.max=1", "--set", "blocks.limit=20m",
		"--set", "warmup.max=500ms", "--set", "window=1s", "--set", "rate=[500,2000,8000,32000]")
	measured(t, code, said)
	f := readFindings(t, out)
	var variants []string
	for _, one := range f.Findings {
		if one.Name == study.Highest+study.FactorRate {
			variants = append(variants, one.Cell[study.FactorVariant])
			if one.Estimate <= 0 && len(one.Warnings) == 0 {
				t.Errorf("no highest rate, and no reason: %+v", one)
			}
		}
	}
	if slices.Sort(variants); !slices.Equal(variants, []string{"no-sidecars", "one-thread", "quarter-cpu", "two-threads"}) {
		t.Errorf("the highest rates are of %q\n%s", variants, said)
	}
	b.gone(t)
}

// TestShippedProfiles verifies that both sidecars' profiles are stored, readable and
// in the report.
func TestShippedProfiles(t *testing.T) {
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("pods are profiled by the kernel's perf, which is not installed")
	}
	b := newBench(t)
	_, out := b.attempt(t, "sidecar-cpu", "--set", "blocks.min=1", "--set", "blocks.max=1", "--set", "blocks.limit=20m", "--set", "warmup.max=500ms", "--set", "window=1s",
		"--set", "variant=[baseline,none-both]", "--set", "concurrency=1", "--set", "rate=500")
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	parts := map[string]bool{}
	for _, trial := range run.Trials {
		for _, p := range trial.Profiles {
			parts[p.Part] = true
			if p.Error != "" || p.Samples == 0 {
				t.Errorf("trial %s, %s: %d samples, %s", trial.ID, p.Part, p.Samples, p.Error)
				continue
			}
			file, err := os.Open(filepath.Join(out, p.File))
			if err != nil {
				t.Error(err)
				continue
			}
			if _, err := profile.ReadPprof(file); err != nil {
				t.Errorf("%s: %v", p.File, err)
			}
			file.Close()
		}
	}
	if !parts[record.PartClientProxy] || !parts[record.PartServerProxy] {
		t.Errorf("profiles of %v", parts)
	}
	if f := readFindings(t, out); len(f.Profiles) == 0 || !json.Valid(f.Profiles[0]) {
		t.Errorf("%d profiles in the findings", len(f.Profiles))
	}
	b.gone(t)
}

// TestShippedScenarios verifies that steps that add pods, restart a service and
// replace certificates are begun and proven.
func TestShippedScenarios(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct {
		study, variant string
		fails          bool     // whether requests fail by design
		steps          []string // with their actions
	}{
		{"consistent-hash", "hashed", false, []string{"more add", "fewer remove"}},
		{"rolling-restart", "drain", false, []string{"restart restart"}},
		{"gateway-restart", "kept-connections", false, []string{"restart restart"}},
		{"callout-away", "open", false, []string{"slow worker", "away remove"}},
		{"callout-away", "closed", true, []string{"slow worker", "away remove"}},
		{"certificate-rotation", "rotated", false, []string{"rotate certificates"}},
		{"certificate-rotation", "expired", true, []string{"expire certificates"}},
	} {
		t.Run(tt.study+" "+tt.variant, func(t *testing.T) {
			out := filepath.Join(b.dir, tt.study+"-"+tt.variant)
			code, said := b.meshtrial(t, "run", tt.study, "--out", out, "--set", "variant="+tt.variant, "--set", "expect={}")
			if !tt.fails || code != errs.CodeAssertion {
				measured(t, code, said)
			}
			run, notes, err := store.Load(t.Context(), out)
			if err != nil || len(notes) > 0 || len(run.Trials) != 1 || run.Trials[0].Scenario == nil || run.Trials[0].Scenario.Scheduled == 0 {
				t.Fatalf("%d trials, %v, %v:\n%s", len(run.Trials), notes, err, said)
			}
			for _, step := range tt.steps {
				i := slices.IndexFunc(run.Events, func(e record.Event) bool { return e.Step+" "+e.Op == step })
				if i < 0 || run.Events[i].Error != "" || run.Events[i].Proof == "" {
					t.Errorf("%s is not proven: %+v", step, run.Events)
				}
			}
			b.gone(t)
		})
	}
}

// plain returns a variant's figure, which must exist.
func plain(t *testing.T, f record.Findings, name, variant string) float64 {
	t.Helper()
	i := slices.IndexFunc(f.Findings, func(x record.Finding) bool {
		return x.Name == name && x.Against == nil && x.Cell[study.FactorVariant] == variant
	})
	if i < 0 || !(f.Findings[i].Estimate > 0) {
		t.Fatalf("no %s of %s", name, variant)
	}
	t.Logf("%s of %s: %.4g %s", name, variant, f.Findings[i].Estimate, f.Findings[i].Unit)
	return f.Findings[i].Estimate
}

// TestShippedIdleSidecars verifies that Envoy and its agent have CPU and memory,
// separately and together, and that pushes cost a sidecar that sees all Services more
// than one that sees none.
func TestShippedIdleSidecars(t *testing.T) {
	b := newBench(t)
	_, out := b.attempt(t, "idle-sidecars", "--set", "blocks.min=2", "--set", "blocks.max=2", "--set", "blocks.limit=20m", "--set", "real_pods=4", "--set", "services=100")
	f := readFindings(t, out)
	value := func(name, variant string) float64 { return plain(t, f, name, variant) }

	for _, variant := range []string{"whole-mesh", "own-namespace", "istio-system-only"} {
		for _, when := range []string{"idle", "changing"} {
			for _, what := range []string{"cpu", "memory"} {
				whole, parts := value("sidecar_"+what+"_"+when, variant), value("envoy_"+what+"_"+when, variant)+value("agent_"+what+"_"+when, variant)
				if parts > 1.01*whole || parts < 0.9*whole {
					t.Errorf("%s %s of %s: Envoy and agent have %v of %v", what, when, variant, parts, whole)
				}
			}
		}
		if idle := value("sidecar_cpu_idle", variant); idle > 200 {
			t.Errorf("%s: a sidecar without requests uses %v mCPU, as one with a thousand a second", variant, idle)
		}
	}
	if all, none := value("sidecar_cpu_changing", "whole-mesh"), value("sidecar_cpu_changing", "istio-system-only"); all <= none {
		t.Errorf("changes of endpoints cost a sidecar that sees them %v mCPU, one that does not %v", all, none)
	}
	b.gone(t)
}

// TestShippedSimulatedAgainstReal verifies that simulated sidecars cause the same work
// in istiod as real ones: pushes and bytes within 1%, and no whole interval of its CPU
// time or memory beyond 10%. (The study itself requires whole intervals within that,
// which few blocks alongside other tests do not yield.) If one fails, so does the run,
// with exit code 3. An interval wider than the bound would let anything pass.
func TestShippedSimulatedAgainstReal(t *testing.T) {
	b := newBench(t)
	text, err := studies.Read("simulated-against-real")
	must.OK(t, err)
	loose := strings.NewReplacer("relative.low >= -0.1", "relative.high >= -0.1", "relative.high <= 0.1", "relative.low <= 0.1").Replace(string(text))
	file := b.file(t, "simulated-against-real", loose)
	_, out := b.attempt(t, file, "--set", "blocks.min=4", "--set", "blocks.max=4")
	f := readFindings(t, out)
	for name, most := range map[string]float64{"istiod_cpu_per_change_overhead": 0.25, "istiod_memory_overhead": 0.15} {
		i := slices.IndexFunc(f.Findings, func(one record.Finding) bool { return one.Name == name })
		if i < 0 || f.Findings[i].Relative == nil {
			t.Errorf("no %s", name)
			continue
		}
		r := f.Findings[i].Relative
		t.Logf("%s: %+.3f (%+.3f to %+.3f) of real sidecars', %d blocks", name, r.Estimate, r.Low, r.High, f.Findings[i].Blocks)
		if width := r.High - r.Low; !(width <= 2*most) {
			t.Errorf("%s is known to within %.3f only: the comparison says nothing", name, width/2)
		}
	}
	b.gone(t)
}
