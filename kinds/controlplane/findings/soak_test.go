package findings

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const soakStudy = `
name: soak
question: Does it leak?
control: {soak: true, changes: 1}
settings: {proxies: 200, real_pods: 2, istiod_memory: 2Gi}
margin: 5%
blocks: {min: 18, max: 1000, limit: 2h}
`

// A soakWorld defines the behaviour of istiod and sidecars by the hour of the run.
type soakWorld struct {
	memory, live, sidecar, convergence func(h float64) float64 // bytes, microseconds
	life                               func(h float64) string
	lost                               func(window int) bool
}

func steady(v float64) func(float64) float64 { return func(float64) float64 { return v } }

func calmSoak() soakWorld {
	return soakWorld{memory: steady(200e6), live: steady(60e6), sidecar: steady(50e6), convergence: steady(150e3),
		life: func(float64) string { return "istiod-a/0" }, lost: func(int) bool { return false }}
}

// soakRun returns a run with this number of windows of a minute each.
func soakRun(t testing.TB, w soakWorld, windows int) record.Run {
	t.Helper()
	plan := analysistest.PlanOf(t, soakStudy, 1)
	r := rand.New(rand.NewPCG(4, 4))
	noisy := func(v float64) float64 { return v * math.Exp(0.02*r.NormFloat64()) }
	run := record.Run{Header: record.Header{Schema: record.Schema, Kind: string(study.ControlPlane), RunID: "r", Study: "soak", Seed: 1, Machine: record.Machine{CPUs: 4, MemoryBytes: 8e9}}, StudyYAML: plan.Study.Marshal()}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range windows {
		h, id := float64(i)/60, study.TrialID(i, 0)
		run.Trials = append(run.Trials, record.Trial{Schema: record.Schema, ID: id, Block: i, Cell: plan.Cells[0], Validity: record.Validity{Valid: !w.lost(i)},
			Window: record.Window{Start: begin.Add(time.Duration(i) * time.Minute), Seconds: 40},
			Memory: map[string]record.Memory{record.PartControl: {PSSBytes: int64(noisy(w.memory(h)))}, record.PartServerProxy: {PSSBytes: 2 * int64(noisy(w.sidecar(h)))}},
			Control: &record.Control{Proxies: 200, RealProxies: 2, Changes: 1, Committed: 1, Life: w.life(h), SidecarLife: "a,b", LiveBytes: int64(noisy(w.live(h))),
				Istiod: map[string]float64{}, Wire: map[string]record.Wire{}}})
		e := record.Event{Schema: record.Schema, Trial: id, CommittedNS: 1, Expected: 200}
		scale := noisy(w.convergence(h))
		for p := range 200 {
			at := int64(scale * (0.8 + 0.4*float64(p)/200))
			e.Seen.Proxy, e.Seen.ReceivedUS, e.Seen.AckedUS = append(e.Seen.Proxy, int32(p)), append(e.Seen.ReceivedUS, at), append(e.Seen.AckedUS, at)
		}
		run.Events = append(run.Events, e)
	}
	return run
}

// told returns the growths that analysis finds in a world, by name.
func (w soakWorld) told(t testing.TB, windows int) (map[string]record.Finding, record.Findings) {
	t.Helper()
	f, err := kinds.Analyze(soakRun(t, w, windows))
	must.OK(t, err)
	out := map[string]record.Finding{}
	for _, x := range f.Findings {
		if strings.HasSuffix(x.Name, "_slope") {
			out[x.Name] = x
		}
	}
	return out, f
}

var allSlopes = []string{controlplane.SlopeMemory, controlplane.SlopeHeap, controlplane.SlopeSidecar, controlplane.SlopeP50, controlplane.SlopeP99}

// Every constant figure is reported not to grow.
func TestSoakCalm(t *testing.T) {
	got, f := calmSoak().told(t, 120)
	for _, name := range allSlopes {
		x := got[name]
		if x.Verdict != record.VerdictNoEffect || x.Reason != record.ReasonWithinMargin || !(x.Low < 0 && x.High > 0) || x.Relative == nil || x.Relative.High > 0.05 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if f.Soak == nil || f.Soak.Windows != 120 || f.Soak.Lives != 1 || math.Abs(f.Soak.Hours-119.0/60) > 1e-6 || f.Soak.LimitBytes != 2<<30 || len(f.Soak.Growths) != 5 || len(f.Soak.Growths[0].Points) != 120 {
		t.Errorf("the soak is %+v", f.Soak)
	}
}

// Planted leaks are found, each in its own figure and with its rate, and with the time until the
// limit.
func TestSoakLeaks(t *testing.T) {
	rising := func(v, perHour float64) func(float64) float64 {
		return func(h float64) float64 { return v + perHour*h }
	}
	for _, c := range []struct {
		name string
		leak func(w *soakWorld)
		rate float64
	}{
		{controlplane.SlopeMemory, func(w *soakWorld) { w.memory = rising(200e6, 60e6) }, 60e6},
		{controlplane.SlopeHeap, func(w *soakWorld) { w.live = rising(60e6, 12e6) }, 12e6},
		{controlplane.SlopeSidecar, func(w *soakWorld) { w.sidecar = rising(50e6, 15e6) }, 15e6},
		{controlplane.SlopeP50, func(w *soakWorld) {
			w.convergence = func(h float64) float64 { return 150e3 * math.Pow(1.2, h) }
		}, 0.2},
	} {
		w := calmSoak()
		c.leak(&w)
		got, f := w.told(t, 120)
		for _, name := range allSlopes {
			x, leaks := got[name], name == c.name || c.name == controlplane.SlopeP50 && name == controlplane.SlopeP99
			if leaks != (x.Verdict == record.VerdictReal) {
				t.Errorf("a leak in %s: %s is %+v", c.name, name, x)
			}
			if leaks && (x.Low > c.rate || x.High < c.rate) {
				t.Errorf("%s grows by %v (%v to %v), truly by %v", name, x.Estimate, x.Low, x.High, c.rate)
			}
		}
		if g := f.Soak.Growths[0]; c.name == controlplane.SlopeMemory {
			if hours := (2<<30 - 300e6) / 60e6; math.Abs(g.FullHours/hours-1) > 0.15 || !(g.FullLowHours < g.FullHours && g.FullHours < g.FullHighHours) {
				t.Errorf("the limit comes after %v h (%v to %v), not some %v", g.FullHours, g.FullLowHours, g.FullHighHours, hours)
			}
		} else if g.FullHours != 0 {
			t.Errorf("without a leak of istiod's memory its limit comes after %v h", g.FullHours)
		}
	}
}

// Filling caches are not a leak, whether they are full at the end or not.
func TestSoakWarmsUp(t *testing.T) {
	for _, c := range []struct {
		minutes float64
		verdict string
		reason  string
	}{{10, record.VerdictNoEffect, record.ReasonWithinMargin}, {40, record.VerdictInconclusive, record.ReasonSettling}} {
		w := calmSoak()
		w.memory = func(h float64) float64 { return 80e6 + 200e6*(1-math.Exp(-h*60/c.minutes)) }
		got, f := w.told(t, 120)
		if x := got[controlplane.SlopeMemory]; x.Verdict != c.verdict || x.Reason != c.reason {
			t.Errorf("a cache that fills within %v minutes: %+v", c.minutes, x)
		}
		if g := f.Soak.Growths[0]; (g.NeedsHours > 3) != (c.reason == record.ReasonSettling) {
			t.Errorf("it would take %v h", g.NeedsHours)
		}
	}
}

// No slope spans two lives: the step from one istiod to the next is not growth, and the shorter
// life is ignored.
func TestSoakLives(t *testing.T) {
	w := calmSoak()
	w.life = func(h float64) string {
		if h < 0.5 {
			return "istiod-a/0"
		}
		return "istiod-b/0"
	}
	w.memory = func(h float64) float64 {
		if h < 0.5 {
			return 400e6
		}
		return 200e6
	}
	got, f := w.told(t, 150)
	if x := got[controlplane.SlopeMemory]; x.Verdict != record.VerdictNoEffect {
		t.Errorf("a life after another: %+v", x)
	}
	if f.Soak.Lives != 2 || f.Soak.Windows != 120 || f.Soak.Elsewhere != 30 || !slices.ContainsFunc(f.Warnings, noteLives.Of(2, 30).Like) {
		t.Errorf("%+v, %q", f.Soak, f.Warnings)
	}
	if x := got[controlplane.SlopeSidecar]; x.Blocks != 100 { // two thirds of all: sidecars live on
		t.Errorf("sidecars' growth is of %d windows", x.Blocks)
	}
}

// Too few windows, lost ones and none at all give no answer, and say what is missing.
func TestSoakOfLittle(t *testing.T) {
	w := calmSoak()
	got, f := w.told(t, 20)
	if x := got[controlplane.SlopeMemory]; x.Verdict == record.VerdictReal || x.Verdict == record.VerdictNoEffect && x.High > x.Margin {
		t.Errorf("20 minutes tell %+v", x)
	}
	for _, g := range f.Soak.Growths {
		if x := got[g.Finding]; x.Verdict == record.VerdictInconclusive && x.Open == "" && !(g.NeedsHours > f.Soak.Hours) {
			t.Errorf("%s is inconclusive, and takes %v h", g.Finding, g.NeedsHours)
		}
	}
	got, _ = w.told(t, 4)
	if x := got[controlplane.SlopeMemory]; x.Verdict != record.VerdictInconclusive || x.Open != record.OpenBoth {
		t.Errorf("4 windows tell %+v", x)
	}
	if got, _ = w.told(t, 1); got[controlplane.SlopeMemory].Verdict != record.VerdictInvalid {
		t.Errorf("1 window tells %+v", got[controlplane.SlopeMemory])
	}
	w.lost = func(i int) bool { return i%3 == 0 }
	got, f = w.told(t, 120)
	if x := got[controlplane.SlopeMemory]; f.Soak.Windows != 80 || x.Verdict != record.VerdictNoEffect {
		t.Errorf("a third is lost: %d windows, %+v", f.Soak.Windows, x)
	}
	w.lost = func(int) bool { return true }
	if _, f = w.told(t, 10); f.Soak != nil {
		t.Errorf("no valid window: %+v", f.Soak)
	}
}

// Two soaks are compared by the difference of their growth, in percentage points per hour.
func TestSoaksCompared(t *testing.T) {
	leaks := calmSoak()
	leaks.memory = func(h float64) float64 { return 200e6 + 60e6*h }
	noisy := calmSoak()
	noisy.memory = func(h float64) float64 { return 200e6 * (1 + 0.4*math.Sin(40*h*h)) }
	for _, c := range []struct {
		name, want string
		b          soakWorld
	}{{"a leak", record.VerdictWorse, leaks}, {"the same", record.VerdictSame, calmSoak()}, {"one that scatters", record.VerdictInconclusive, noisy}} {
		before, after := soakRun(t, calmSoak(), 120), soakRun(t, c.b, 120)
		after.Header.RunID = "s"
		both, err := analysistest.Compare(t, kinds, before, after, 0.05)
		must.OK(t, err)
		i := slices.IndexFunc(both.Changes, func(x comparison.Change) bool { return x.Name == controlplane.SlopeMemory })
		if i < 0 {
			t.Fatalf("%s: growth is not compared: %+v", c.name, both.Changes)
		}
		got := both.Changes[i]
		if got.Verdict != c.want || !got.Decides || got.Bounded || !strings.Contains(got.Why, "percentage points an hour more") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// Trials with other levels of these factors run on other machines on purpose, so their machines are
// not compared.
func TestFactorsThatPlacePods(t *testing.T) {
	if got := Kind().Places; !slices.Equal(got, []string{controlplane.FactorSimulators, controlplane.FactorRealPods, controlplane.FactorIstiodReplicas}) {
		t.Errorf("%q", got)
	}
}
