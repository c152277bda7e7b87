package gather

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/study"
)

func outcome(r advice.Report, rule string) (advice.Judgement, bool) {
	for _, list := range [][]advice.Judgement{r.Advice, r.Undecided, r.RuledOut} {
		if i := slices.IndexFunc(list, func(j advice.Judgement) bool { return j.Rule == rule }); i >= 0 {
			return list[i], true
		}
	}
	return advice.Judgement{}, false
}

// Where pushes take little of the time, other CPU is not taken for theirs: neither is an
// idle istiod used up, nor does it excuse slow readers.
func TestRarePushes(t *testing.T) {
	w := healthy()
	w.rounds, w.queue, w.push, w.cpu = 1, 1, 0.4, 0.06 // p99 is seconds, CPU 3%
	if j, ok := outcome(judged(t, w.run()), "saturated_out"); !ok || j.Outcome != advice.RuledOut {
		t.Errorf("p99 of seconds, 3%% CPU: %+v", j)
	}
	w = healthy()
	w.rounds, w.queue, w.push, w.send, w.cpu = 1, 0.3, 0.5, 0.45, 0.06
	if j, _ := outcome(judged(t, w.run()), "slow_readers"); j.Outcome != advice.Holds {
		t.Errorf("3%% CPU: %+v", j)
	}
	w.cpu = 0.5 // by whom, nobody can tell
	j, _ := outcome(judged(t, w.run()), "slow_readers")
	if j.Outcome != advice.NotEnough || !slices.ContainsFunc(j.Missing, func(g advice.Gap) bool { return strings.Contains(g.Measure, "a twentieth of the time") }) {
		t.Errorf("25%% CPU: %+v", j)
	}
	w.rounds, w.cpu = 50, 1.9 // it pushes half of the time, and nearly all CPU is used
	if j, _ := outcome(judged(t, w.run()), "slow_readers"); j.Outcome != advice.RuledOut {
		t.Errorf("95%% CPU: %+v", j)
	}
}

// What is promised says what it rests on: half as much memory again makes the share two
// thirds, one replica more its part of the proxies, and the rest is a rule of thumb.
func TestPromises(t *testing.T) {
	near := func(got, want float64) bool { return math.Abs(got-want) < 0.01*want }
	for rule, from := range map[string]string{"memory_limit": "arithmetic", "debounce_long": "arithmetic", "reconnects": "rule of thumb", "rejected": "rule of thumb", "saturated_out": "rule of thumb"} {
		j, _ := outcome(judged(t, planted()[rule].run()), rule)
		if j.Expect == nil || !strings.HasPrefix(j.Expect.From, from) {
			t.Errorf("%s: %+v", rule, j.Expect)
			continue
		}
		if e := j.Expect; rule == "memory_limit" && !near(e.Low, 0.85*e.Now/1.5) {
			t.Errorf("%+v", e)
		}
		if rule != "saturated_out" {
			continue
		}
		i := slices.IndexFunc(j.Try, func(s advice.Step) bool { return s.Lever == study.FactorIstiodReplicas })
		if i < 0 || j.Try[i].Expect == nil {
			t.Fatalf("%+v", j.Try)
		}
		if e := j.Try[i].Expect; !near(e.Low, 0.475*e.Now) || !near(e.High, 0.525*e.Now) || !strings.HasPrefix(e.From, "arithmetic") {
			t.Errorf("%+v", e)
		}
	}
}

// No step sets less than there is where more is asked for, or more where less is.
func TestLevelsFromPresent(t *testing.T) {
	step := func(rule, lever string, w world) (advice.Step, bool) {
		j, _ := outcome(judged(t, w.run()), rule)
		if j.Outcome != advice.Holds || len(j.Try) == 0 {
			t.Errorf("%s: %+v", rule, j)
			return advice.Step{}, false
		}
		i := slices.IndexFunc(j.Try, func(s advice.Step) bool { return s.Lever == lever })
		if i < 0 {
			return advice.Step{}, false
		}
		return j.Try[i], true
	}
	for most, want := range map[string]bool{"10s": true, "600ms": false} {
		w := planted()["debounce_restless"].with(study.FactorDebounceMax, most)
		w.debounce = 0.6
		if s, ok := step("debounce_restless", study.FactorDebounceMax, w); ok != want || ok && s.Level != "1s" {
			t.Errorf("of %s: %+v", most, s)
		}
	}
	for limit, want := range map[string]bool{"100": true, "10": false, "default": false} {
		if s, ok := step("reconnects", study.FactorRequestLimit, planted()["reconnects"].with(study.FactorRequestLimit, limit)); ok != want {
			t.Errorf("of %s: %+v", limit, s)
		}
	}
	for rule, want := range map[string]string{"workers": "  concurrency: 12", "proxy_cpu": "proxyCPU: 3000m\nsidecar.istio.io/proxyCPULimit: 6000m"} {
		w := planted()[rule]
		w.workers, w.quota = 6, 3
		if s, _ := step(rule, "", w); !strings.Contains(s.YAML, want) || len(s.Unknown) > 0 {
			t.Errorf("%s: %+v", rule, s)
		}
		w.workers, w.quota = 0, 0
		if s, _ := step(rule, "", w); s.YAML != "" || len(s.Unknown) == 0 {
			t.Errorf("%s of an unknown number: %+v", rule, s)
		}
	}
}

// Where Sidecars of their own namespaces hold for proxies, they do not hold the whole
// mesh's configuration for want of one; what goes to the root namespace goes to that of
// this mesh.
func TestScopedProxies(t *testing.T) {
	facts := map[*advice.Quantity]float64{advice.ConfigBytes: 2e6, advice.UnusedShare: 0.9, advice.UnusedClusters: 500}
	for share, want := range map[float64]string{0: "no_scope", 1: "unused_config"} {
		facts := maps.Clone(facts)
		facts[advice.ScopedShare] = share
		r := advice.Judge(&advice.Evidence{Facts: facts, Levers: map[string]string{study.FactorSidecarScope: "none"}})
		if len(r.Advice) != 1 || r.Advice[0].Rule != want {
			t.Errorf("%g: %+v", share, r.Advice)
		}
	}
	facts[advice.AccessLogShare], facts[advice.ScopedShare] = 0.3, 0
	r := advice.Judge(&advice.Evidence{Root: "mesh-root", Facts: facts, Levers: map[string]string{study.FactorSidecarScope: "none"}})
	j, _ := outcome(r, "no_scope")
	if s := j.Try[0]; !strings.Contains(s.YAML, "namespace: mesh-root}") || !strings.Contains(s.YAML, `"istio-system/*"`) || s.Back != "kubectl -n mesh-root delete sidecar default" {
		t.Errorf("%+v", s)
	}
	if j, _ = outcome(r, "access_log"); !strings.Contains(j.Try[0].YAML, "namespace: mesh-root}") || !strings.Contains(j.Try[0].Back, "-n mesh-root ") {
		t.Errorf("%+v", j)
	}
	if e := j.Expect; e == nil || e.From != "rule of thumb" {
		t.Errorf("%+v", e)
	}
}
