package comparison_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// usualLevers names all levers with istiod's built-in levels or those a study sets.
var usualLevers = record.Cell{"sidecar_scope": "none", "sidecar_hosts": "./*,istio-system/*", "outbound_policy": "ALLOW_ANY", "export_to": "*", "discovery_selectors": "none",
	"dns_capture": "false", "debounce_after": "100ms", "debounce_max": "10s", "eds_debounce": "true", "push_throttle": "default", "request_limit": "default", "istiod_replicas": "1",
	"istiod_cpu": "none", "istiod_memory": "none", "istiod_cpu_request": "installed", "istiod_memory_request": "installed", "delta": "true", "xds_cache": "true", "istiod_env": "installed", "istiod": "installed"}

// debounced is a study with two levels of debounce_after.
const debounced = `
name: tuning
question: Which debounce?
control: {changes: 10}
settings: {proxies: 11, LEVERS}
factors: {debounce_after: [FIRST, 2500ms]}
baseline: {debounce_after: FIRST}
`

// debouncedRun returns a run of it with the levers that settings name, in an
// installation in which it found others.
func debouncedRun(t *testing.T, id, first string, levers, installed record.Cell) *analysis.RunFigures {
	t.Helper()
	levers = levers.With(nil)
	delete(levers, study.FactorDebounceAfter)
	var named []string
	for factor, level := range levers {
		named = append(named, factor+`: "`+level+`"`)
	}
	text := strings.NewReplacer("LEVERS", strings.Join(named, ", "), "FIRST", first).Replace(debounced)
	run := analysistest.SimulateControl(t, text, 3, func(c record.Cell) analysistest.ControlWorld {
		if c[study.FactorDebounceAfter] == "2.5s" {
			return analysistest.ControlWorld{DebounceMS: 2500, Pushes: 50}
		}
		return analysistest.ControlWorld{DebounceMS: 100, Pushes: 500}
	})
	run.Header.RunID = id
	for i := range run.Trials {
		trial := &run.Trials[i]
		found := maps.Clone(installed)
		if trial.Cell[study.FactorDebounceAfter] != study.LevelInstalled {
			delete(found, study.FactorDebounceAfter)
		}
		trial.Control.Installed = found
	}
	return analysistest.Figures(t, kinds, run)[0]
}

// A lever named by one run and found at the same level by another, which left it as
// installed, is the same; differences are named.
func TestCompareAsInstalled(t *testing.T) {
	usual := usualLevers.With(record.Cell{"istiod": "hub/pilot:2", "istiod_env": "A=1", "istiod_cpu_request": "500m", "istiod_memory_request": "2Gi"})
	delete(usual, "sidecar_hosts") // without a Sidecar none are found
	named := debouncedRun(t, "named", "100ms", usualLevers, nil)
	other := func(factor, level string) record.Cell { return usual.With(record.Cell{factor: level}) }
	for _, c := range []struct {
		name, first string
		installed   record.Cell
		want        string // part of the error; "" for none
	}{
		{"installed as it was set", "installed", usual, ""},
		{"named as it was set", "100ms", usual, ""},
		{"another image", "installed", other("istiod", "hub/pilot:3"), ""},
		{"another debounce", "installed", other("debounce_after", "1s"), "debounce_after is 100ms, 2.5s in named; and 1s, 2.5s in newer"},
		{"replicas", "installed", other("istiod_replicas", "3"), "istiod_replicas is 1 in named; and 3 in newer"},
		{"selectors that no level says", "installed", other("discovery_selectors", `[{"matchLabels":{"a":"b","c":"d"}}]`), "discovery_selectors is none in named; and [{"},
		{"not known", "installed", nil, "sidecar_scope is none in named; and installed in newer"},
	} {
		newer := debouncedRun(t, "newer", c.first, nil, c.installed)
		got, err := comparison.Compare([]*analysis.RunFigures{named}, []*analysis.RunFigures{newer}, comparison.CompareOptions{MarginRatio: 0.05})
		if c.want != "" {
			if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		compared := 0
		for _, change := range got.Changes {
			if change.Name == "pushes" && change.Cell[study.FactorDebounceAfter] == "100ms" && change.B.Estimate == 500 {
				compared++
			}
		}
		if compared != 1 || len(got.Joined) > 0 || len(got.Warnings) > 1 {
			t.Errorf("%s: %d of its baselines compared; %q, %q", c.name, compared, got.Joined, got.Warnings)
		}
	}
}
