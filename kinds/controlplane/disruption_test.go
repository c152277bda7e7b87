package controlplane

import (
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const stormFile = `
name: storm
question: How long until all are back?
control: {changes: 1, settle: 2s, aftermath: 30s}
settings: {proxies: 100, change: no-op}
factors:
  disruption: [drop, restart]
baseline: {disruption: drop}
measures: [recovery, cost]
blocks: {min: 2, max: 4}
`

// A trial takes as long as its disruption is watched, and cells name the disruption.
func TestDisruption(t *testing.T) {
	p := studytest.Plan(t, stormFile)
	kinds := map[string]bool{}
	for _, c := range p.Cells {
		l, err := LevelsOf(c)
		must.OK(t, err)
		kinds[l.Disruption.Kind] = l.Disruption.Restarts()
		short, long := controlTrial(p.Study, c)
		if long-short < 20*time.Second || long < 30*time.Second {
			t.Errorf("%s: a trial takes %v to %v", c.Key(), short, long)
		}
	}
	if restarts, ok := kinds[DisruptionRestart]; len(kinds) != 2 || !ok || !restarts || kinds[DisruptionDrop] {
		t.Errorf("%v", kinds)
	}
	if l, _ := LevelsOf(p.Cells[0].With(map[string]string{FactorDisruption: "scale:3"})); l.Disruption != (Disruption{DisruptionScale, 3}) {
		t.Errorf("%+v", l.Disruption)
	}
	if l, _ := LevelsOf(p.Cells[0].With(map[string]string{FactorDisruption: study.LevelNone})); l.Disruption != (Disruption{}) {
		t.Errorf("%+v", l.Disruption)
	}
}

// Disruptions that cannot be measured or recovered from are rejected.
func TestDisruptionsRefused(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, want string }{
		"nobody measures it":      {"measures: [recovery, cost]", "measures: [cost]", "no measure records the effect of its disruption"},
		"nothing to recover from": {"disruption: [drop, restart]\nbaseline: {disruption: drop}", "xds: [delta, sotw]\nbaseline: {xds: delta}", "no cell has a disruption"},
		"nobody to come back":     {"proxies: 100", "proxies: 0, real_pods: 1", "without simulated proxies"},
		"misbehaving":             {"change: no-op", "change: no-op, clients: rejects", "never recover"},
		"scaled from who knows":   {"[drop, restart]", "[drop, \"scale:3\"]", "needs istiod_replicas set to fewer"},
		"scaled to as many":       {"change: no-op}\nfactors:\n  disruption: [drop, restart]", "change: no-op, istiod_replicas: 3}\nfactors:\n  disruption: [drop, \"scale:3\"]", "set to fewer"},
		"to one":                  {"[drop, restart]", "[drop, \"scale:1\"]", "scale"},
		"of another kind":         {"[drop, restart]", "[drop, flood]", "is not a disruption"},
	} {
		text := strings.Replace(stormFile, tt.from, tt.to, 1)
		if text == stormFile {
			t.Fatalf("%s: nothing was replaced", name)
		}
		s, err := study.Parse([]byte(text), "storm.yaml", nil)
		if err == nil {
			_, err = study.NewPlan(s, 1)
		}
		if err == nil || name != "to one" && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
