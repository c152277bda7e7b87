package findings

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Installed lever values are recorded per cell, with all values if they changed between trials.
func TestInstalled(t *testing.T) {
	run := analysistest.SimulateControl(t, analysistest.ControlStudy, 3, analysistest.Tuned)
	for i := range run.Trials {
		trial := &run.Trials[i]
		trial.Control.Installed = record.Cell{"istiod_replicas": "2", "debounce_max": "10s"}
		if trial.Cell[study.FactorVariant] != "slow" {
			trial.Control.Installed["debounce_after"] = "100ms"
		}
		if trial.Block == 2 {
			trial.Control.Installed["istiod_replicas"] = "3"
		}
	}
	for _, c := range analysistest.Analyze(t, kinds, run).Cells {
		want := record.Cell{"istiod_replicas": "2, then 3", "debounce_max": "10s", "debounce_after": "100ms"}
		if c.Cell[study.FactorVariant] == "slow" {
			delete(want, "debounce_after")
		}
		if !maps.Equal(c.Control.Installed, want) {
			t.Errorf("%s: %v, want %v", c.Label, c.Control.Installed, want)
		}
	}
}

// Analysis recovers what was put into the simulated control plane.
func TestAnalyzeControl(t *testing.T) {
	run := analysistest.SimulateControl(t, analysistest.ControlStudy, 4, analysistest.Tuned)
	f := analysistest.Analyze(t, kinds, run)
	at := func(v string) record.Cell { return record.Cell{"variant": v} }
	for _, c := range []struct {
		name, variant string
		truth, within float64
		verdict       string
	}{
		{"convergence_p50", "none", 127_000, 0.02, record.VerdictMeasured},
		{"convergence_max", "none", 133_000, 0.02, record.VerdictMeasured},
		{"convergence_first", "none", 121_000, 0.02, record.VerdictMeasured},
		{"convergence_last", "none", 133_000, 0.02, record.VerdictMeasured},
		{"convergence_first_p90", "none", 121_000, 0.02, record.VerdictMeasured},
		{"convergence_median_max", "none", 127_000, 0.02, record.VerdictMeasured},
		{"convergence_last_max", "none", 133_000, 0.02, record.VerdictMeasured},
		{"received_p50", "none", 126_000, 0.02, record.VerdictMeasured},
		{"convergence_p50_overhead", "slow", 2_400_000, 0.02, record.VerdictReal},
		{"reported_convergence_p99", "none", 99_000, 1e-9, record.VerdictMeasured},
		{"hidden_convergence_p99", "none", 34_000, 0.05, record.VerdictMeasured},
		{"stage_debounce", "slow", 2_500_000, 1e-9, record.VerdictMeasured},
		{"stage_residual", "none", 1000, 0.01, record.VerdictMeasured},
		{"pushes", "none", 520, 1e-9, record.VerdictMeasured},
		{"pushes_cds", "none", 260, 1e-9, record.VerdictMeasured},
		{"pushes_overhead", "sidecar", -460, 1e-9, record.VerdictReal},
		{"pushes_per_change", "none", 52, 1e-9, record.VerdictMeasured},
		{"push_bytes_per_change", "none", 40_000, 1e-9, record.VerdictMeasured},
		{"identical_share", "none", 0.5, 1e-9, record.VerdictMeasured},
		{"config_bytes", "none", 100_000, 1e-9, record.VerdictMeasured},
		{"config_bytes_cds", "none", 60_000, 1e-9, record.VerdictMeasured},
		{"scope_config_bytes", "none", 50_000, 1e-9, record.VerdictMeasured},
		{"scope_config_bytes_lds", "none", 20_000, 1e-9, record.VerdictMeasured},
		{"join_time", "none", 70_000, 1e-9, record.VerdictMeasured},
		{"join_bytes", "none", 52_000, 1e-9, record.VerdictMeasured},
		{"join_bytes_cds", "none", 31_000, 1e-9, record.VerdictMeasured},
		{"join_resources_cds", "none", 35, 1e-9, record.VerdictMeasured},
		{"istiod_cpu_per_change", "none", 100_000, 1e-9, record.VerdictMeasured}, // 2 s minus 25 s of 4%, over 10
		{"istiod_cpu_idle", "none", 0.04, 1e-9, record.VerdictMeasured},
		{"istiod_memory", "none", 120e6, 1e-9, record.VerdictMeasured},
		{"istiod_heap", "none", 30e6, 1e-9, record.VerdictMeasured},
		{"alloc_bytes_per_change", "none", 5e6, 1e-9, record.VerdictMeasured},
		{"alloc_bytes_per_second", "none", 2e6, 1e-9, record.VerdictMeasured},
		{"apiserver_cpu_per_change", "none", 30_000, 1e-9, record.VerdictMeasured},
		{"simulator_cpu_share", "none", 0.1, 1e-9, record.VerdictMeasured},
		{"stale_proxy_seconds_per_change", "none", 0.5, 1e-9, record.VerdictMeasured},
		{"missed", "none", 0, 0, record.VerdictMeasured},
		{"failed_changes", "slow", 0, 0, record.VerdictMeasured},
	} {
		x := analysistest.Get(t, f, c.name, at(c.variant))
		if x.Verdict != c.verdict || math.Abs(x.Estimate-c.truth) > c.within*math.Abs(c.truth) || x.Unit != study.ControlPlane.Findings().Must(c.name).Unit || x.Blocks != 4 {
			t.Errorf("%s of %s: %+v, want %s of %g", c.name, c.variant, x, c.verdict, c.truth)
		}
	}
	for _, x := range f.Findings {
		if strings.HasPrefix(x.Name, "latency") || strings.HasPrefix(x.Name, "applied") || strings.HasSuffix(x.Name, "_last_p99") || x.Name == "pushes_sds" || x.Name == "stage_queue" {
			t.Errorf("a finding of what was not measured: %+v", x)
		}
	}
	first := analysistest.Get(t, f, "reported_convergence_p99", at("none"))
	if len(first.Warnings) == 0 || !FirstBucket.In(first.Warnings) {
		t.Errorf("nothing is said about the first bucket: %v", first.Warnings)
	}
	if len(f.NoiseFloor) == 0 || len(f.Assertions) != 1 || !f.Assertions[0].Passed {
		t.Errorf("%d noise floors, assertions %+v", len(f.NoiseFloor), f.Assertions)
	}
	says := map[string][]note.Note{}
	for _, p := range f.Published {
		says[p.Claim] = p.Says
	}
	for claim, want := range map[string]struct {
		kind *note.Kind
		args map[int]any
	}{
		"with a Sidecar": {noteSameDirection, map[int]any{1: "falls to 14%", 2: "falls to 12%"}},
		"p99 of istiod":  {noteFirstBucket, nil},
		"config dump":    {noteConfigBytes, nil},
	} {
		i := slices.IndexFunc(says[claim], func(n note.Note) bool { return n.Is(want.kind) })
		if i < 0 {
			t.Errorf("%s: %q", claim, note.Codes(says[claim]))
			continue
		}
		for arg, value := range want.args {
			if got := says[claim][i].Args[arg]; got != value {
				t.Errorf("%s: argument %d is %v, want %v", claim, arg, got, value)
			}
		}
	}
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
	if again := analysistest.Analyze(t, kinds, run); !reflect.DeepEqual(f, again) {
		t.Error("the same run gave two answers")
	}
}

// Two blocks that differ equally by less than the resolution of the measure are no evidence; for
// counts they are.
func TestDifferencesBelowTheStep(t *testing.T) {
	run := analysistest.SimulateControl(t, analysistest.ControlStudy, 2, analysistest.Tuned)
	for i := range run.Trials {
		trial := &run.Trials[i]
		slow := trial.Cell[study.FactorVariant] == "slow"
		memory := record.Memory{PSSBytes: 100 << 20}
		pushes, apiCPU := 500.0, 0.30 // seconds for 10 changes
		if slow {
			memory.PSSBytes, pushes, apiCPU = memory.PSSBytes+4096, pushes+2, apiCPU+0.01
		}
		trial.Memory[record.PartControl] = memory
		for name := range trial.Control.Istiod {
			if strings.HasPrefix(name, "pilot_xds_pushes{") {
				delete(trial.Control.Istiod, name)
			}
		}
		trial.Control.Istiod[`pilot_xds_pushes{type="cds"}`] = pushes
		trial.Control.APIServer, trial.Control.APIServerIdle = &record.CPU{UserS: apiCPU}, &record.CPU{}
	}
	f := analysistest.Analyze(t, kinds, run)
	for name, want := range map[string]string{"istiod_memory_overhead": record.VerdictInconclusive, "apiserver_cpu_per_change_overhead": record.VerdictInconclusive, "pushes_overhead": record.VerdictReal} {
		x := analysistest.Get(t, f, name, record.Cell{"variant": "slow"})
		if x.Verdict != want && (want == record.VerdictReal || x.Verdict == record.VerdictReal) {
			t.Errorf("%+v, want %s", x, want)
		}
	}
}

// Changes that proxies never saw, changes that the API server rejected, and waterfalls that do not
// add up are reported, even for a single block.
func TestControlFaults(t *testing.T) {
	run := analysistest.SimulateControl(t, analysistest.ControlStudy, 1, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		if c[study.FactorVariant] == "sidecar" {
			w.Spoil = func(trial *record.Trial, events []record.Event) {
				e := &events[2]
				e.Seen = record.Sightings{Proxy: e.Seen.Proxy[:5], ReceivedUS: e.Seen.ReceivedUS[:5], AckedUS: []int64{record.Never, 5000, 5000, 5000, 5000}}
				e.Missed = []int32{5, 6, 7, 8, 9, 10, 11, 12}
				events[3].Error, events[3].Seen = "admission webhook: no", record.Sightings{}
				trial.Control.Stages[0].MeanUS -= 50_000
			}
		}
		return w
	})
	f := analysistest.Analyze(t, kinds, run)
	missed := analysistest.Get(t, f, "missed", record.Cell{"variant": "sidecar"})
	if missed.Estimate != 8 || missed.Verdict != record.VerdictReal || !strings.Contains(note.Words(missed.Warnings), "proxies 5, 6, 7, 8, 9, and 3 more") {
		t.Errorf("%+v", missed)
	}
	if in := missed.Trials; in == nil || *in != (record.FaultTrials{With: 1, Of: 1}) {
		t.Errorf("in %+v", in)
	}
	failed := analysistest.Get(t, f, "failed_changes", record.Cell{"variant": "sidecar"})
	if failed.Estimate != 1 || failed.Verdict != record.VerdictReal || !strings.Contains(note.Words(failed.Warnings), "admission webhook: no") {
		t.Errorf("%+v", failed)
	}
	if x := analysistest.Get(t, f, "missed", record.Cell{"variant": "none"}); x.Estimate != 0 || x.Verdict != record.VerdictMeasured || len(x.Warnings) != 0 || *x.Trials != (record.FaultTrials{Of: 2}) {
		t.Errorf("%+v", x)
	}
	if x := analysistest.Get(t, f, "convergence_p50", record.Cell{"variant": "none"}); x.Verdict != record.VerdictMeasured && x.Verdict != record.VerdictInvalid {
		t.Errorf("%+v", x)
	}
	c := f.Cells[1].Control
	if c.Missed != 8 || c.Unacked != 1 || c.Failed != 1 || c.Pairs != 8*13+5 {
		t.Errorf("%+v", c)
	}
	two := analysistest.SimulateControl(t, analysistest.ControlStudy, 2, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		w.Spoil = func(trial *record.Trial, _ []record.Event) { trial.Control.Stages[0].MeanUS -= 50_000 }
		return w
	})
	if x := analysistest.Get(t, analysistest.Analyze(t, kinds, two), "stage_residual", record.Cell{"variant": "none"}); !noteResidual.In(x.Warnings) {
		t.Errorf("%+v", x)
	}
}

// An invalid trial yields no finding, and not counted does not mean zero.
func TestControlWithoutFigures(t *testing.T) {
	run := analysistest.SimulateControl(t, analysistest.ControlStudy, 3, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		w.Spoil = func(trial *record.Trial, _ []record.Event) {
			switch c[study.FactorVariant] {
			case "slow":
				trial.Validity = record.Validity{Checks: []record.Check{{Name: "simulator_lag", Detail: "too late"}}}
			case "sidecar":
				trial.Control.Istiod, trial.Control.IdleSeconds, trial.Control.APIServer, trial.Control.Config = nil, 0, nil, nil
				trial.Control.ScopeConfig, trial.Control.Join = nil, nil
			}
		}
		return w
	})
	f := analysistest.Analyze(t, kinds, run)
	for _, x := range f.Findings {
		switch v := x.Cell["variant"]; {
		case v == "slow" && x.Verdict != record.VerdictInvalid:
			t.Errorf("invalid trials have a finding: %+v", x)
		case v == "sidecar" && x.Verdict != record.VerdictInvalid && (strings.HasPrefix(x.Name, "pushes") || strings.HasPrefix(x.Name, "reported") ||
			strings.HasPrefix(x.Name, "istiod_cpu_idle") || strings.HasPrefix(x.Name, "apiserver") || strings.HasPrefix(x.Name, "config") ||
			strings.HasPrefix(x.Name, "scope_config") || strings.HasPrefix(x.Name, "join")):
			t.Errorf("a figure of what was not measured: %+v", x)
		}
	}
	for _, p := range f.Published {
		if p.Claim == "with a Sidecar" && (p.Measured != nil || note.Codes(p.Says) != "published_no_trial") {
			t.Errorf("%+v", p)
		}
	}
	if f.Validity.Invalid != 3 || len(f.Validity.Reasons) != 1 {
		t.Errorf("%+v", f.Validity)
	}
}

// Series of a metric are not confused with those whose names only begin alike, in any spelling.
func TestPushesBySeries(t *testing.T) {
	series := map[string]float64{
		`pilot_xds_pushes{type="cds"}`: 3, `pilot_xds_pushes{type="cds",pod="x\"}{"}`: 4, `pilot_xds_pushes{pod="a",type="eds",}`: 5,
		`pilot_xds_pushes{type="cds_senderr"}`: 100, `pilot_xds_pushes_other{type="cds"}`: 100, `pilot_xds_pushes{type="cds"`: 100,
		"pilot_xds_config_size_bytes_sum": 10, `pilot_xds_config_size_bytes_sum{type="cds"}`: 20,
	}
	for kind, want := range map[string]float64{"": 12, "cds": 7, "eds": 5, "lds": math.NaN()} {
		if got := pushes(series, kind); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("pushes of %q: %g, want %g", kind, got, want)
		}
	}
	if got := pushedBytes(series); got != 30 {
		t.Errorf("%g bytes", got)
	}
	if got := pushedBytes(nil); !math.IsNaN(got) {
		t.Errorf("%g bytes of none", got)
	}
}

// The percentile is over all series of the histogram, and is given with its bucket.
func TestReportedP99(t *testing.T) {
	of := func(counts ...float64) map[string]float64 {
		out := map[string]float64{"pilot_proxy_convergence_time_sum": 7}
		for i, le := range []string{"0.1", "0.5", "+Inf"}[:len(counts)] {
			out[`pilot_proxy_convergence_time_bucket{le="`+le+`"}`] = counts[i]
		}
		return out
	}
	two := of(5, 10, 10)
	two[`pilot_proxy_convergence_time_bucket{pod="b",le="0.5"}`] = 90
	two[`pilot_proxy_convergence_time_bucket{pod="b",le="+Inf"}`] = 90
	for _, c := range []struct {
		series          map[string]float64
		p99, from, upto float64
	}{
		{of(10, 10, 10), 0.099, 0, 0.1},
		{of(0, 10, 10), 0.1 + 0.4*0.99, 0.1, 0.5},
		{of(5, 8, 10), 0.5, 0.1, 0.5}, // beyond the last finite bucket
		{two, 0.1 + 0.4*94/95, 0.1, 0.5},
	} {
		p99, from, upto := reportedP99(&record.Trial{Control: &record.Control{Istiod: c.series}})
		if math.Abs(p99-c.p99) > 1e-9 || from != c.from || upto != c.upto {
			t.Errorf("%v: %g in %g to %g, want %g in %g to %g", c.series, p99, from, upto, c.p99, c.from, c.upto)
		}
	}
	for _, none := range []map[string]float64{nil, of(0, 0, 0), of(3, 3)} {
		if p99, _, _ := reportedP99(&record.Trial{Control: &record.Control{Istiod: none}}); !math.IsNaN(p99) {
			t.Errorf("%v has a percentile %g", none, p99)
		}
	}
}
