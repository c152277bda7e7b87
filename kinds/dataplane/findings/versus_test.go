package findings

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

const versionsStudy = `
name: versions
title: Versions
question: Is it faster?
mesh: istio
settings: {rate: 1000, connections: 16}
factors:
  sidecars: [none, both]
  envoy: [1.9.9, 1.10.0, 1.11.0]
baseline: {sidecars: none}
blocks: {min: 8, max: 8}
stop: none
measures: [latency, cpu, memory]
`

// Versions are compared in numeric order. A planted regression is found, and nothing where there is
// none.
func TestVersions(t *testing.T) {
	w := analysistest.Quiet()
	plain := w.CPU
	w.CPU = func(c record.Cell, part string, rps float64) float64 {
		v := plain(c, part, rps)
		if part == record.PartServerProxy && c[study.FactorEnvoy] == "1.11.0" {
			v *= 1.25
		}
		return v
	}
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, versionsStudy, 8, 3, w))
	cell := func(version string) record.Cell {
		return record.Cell{study.FactorSidecars: study.SidecarsBoth, study.FactorEnvoy: version}
	}
	for name, want := range map[string]struct {
		version string
		change  float64
	}{
		"cpu_server_proxy_change_since_1_10_0": {"1.11.0", 0.25},
		"cpu_server_proxy_change_since_1_9_9":  {"1.11.0", 0.25},
		"cpu_client_proxy_change_since_1_10_0": {"1.11.0", 0},
	} {
		x := analysistest.Get(t, f, name, cell(want.version))
		if math.Abs(x.Estimate-want.change) > 0.06 || (x.Verdict == record.VerdictReal) != (want.change != 0) || x.Unit != finding.UnitRatio || x.Against[study.FactorEnvoy] == "" || x.Blocks != 8 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if x := analysistest.Get(t, f, "latency_p50_change_since_1_9_9", cell("1.10.0")); math.Abs(x.Estimate) > 0.05 {
		t.Errorf("%+v", x)
	}
	for _, x := range f.Findings {
		if x.Probe == study.ProbeVersus && x.Cell[study.FactorEnvoy] == "1.9.9" {
			t.Errorf("the oldest has nothing before it: %s", x.Name)
		}
		if x.Probe == study.ProbeVersus && !study.IsFinding(x.Name) {
			t.Errorf("assertions do not know %s", x.Name)
		}
	}
}

const partsStudy = `
name: parts
title: Parts
question: What do they take?
mesh: istio
settings: {rate: 1000}
variants:
  plain: {connections: 16, filters: none}
  many: {connections: 64, filters: none}
  wasm: {connections: 16, filters: wasm}
  lua: {connections: 16, filters: lua}
  some: {connections: 16, filters: clusters-100}
  more: {connections: 16, filters: clusters-1000}
factors:
  variant: [plain, many, wasm, lua, some, more]
baseline: {variant: plain}
blocks: {min: 8, max: 8}
stop: none
measures: [latency, cpu, memory]
published:
  - {source: s, claim: c, finding: cpu_server_proxy_saved_by_none, cell: {variant: wasm}, figure: 0.2, unit: ratio}
`

// Filters are compared with none and with each other; numeric ones yield slopes, even if variants
// set them.
func TestFiltersAndSizes(t *testing.T) {
	w := analysistest.Quiet()
	plain := w.CPU
	w.CPU = func(c record.Cell, part string, rps float64) float64 {
		v := plain(c, part, rps)
		if part == record.PartServerProxy {
			v *= 1 + map[string]float64{"wasm": 0.25, "lua": 0.125}[c[dataplane.FactorFilters]]
			if n, _, ok := dataplane.PartNumber(c[dataplane.FactorFilters], dataplane.PartClusters); ok {
				v += rps * float64(n) * 10e-9 // 10 ns per request and cluster
			}
		}
		return v
	}
	w.Spoil = func(trial *record.Trial) {
		n, _, _ := dataplane.PartNumber(trial.Cell[dataplane.FactorFilters], dataplane.PartClusters)
		m := trial.Memory[record.PartServerProxy]
		m.PSSBytes += int64(20_000 * n)
		trial.Memory[record.PartServerProxy] = m
	}
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, partsStudy, 8, 5, w))
	one := func(name, variant string) record.Finding {
		t.Helper()
		i := slices.IndexFunc(f.Findings, func(x record.Finding) bool {
			return x.Name == name && (variant == "" || x.Cell[study.FactorVariant] == variant)
		})
		if i < 0 {
			t.Fatalf("there is no %s", name)
		}
		return f.Findings[i]
	}
	for name, want := range map[string]struct {
		variant     string
		value, near float64
	}{
		"cpu_server_proxy_saved_by_none":  {"wasm", 0.2, 0.04},
		"cpu_server_proxy_saved_by_lua":   {"wasm", 0.1, 0.04},
		"cpu_server_proxy_per_cluster":    {"", 10, 3},
		"memory_server_proxy_per_cluster": {"", 20_000, 1000},
	} {
		if x := one(name, want.variant); math.Abs(x.Estimate-want.value) > want.near || x.Low > want.value+want.near || x.High < want.value-want.near {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if x := one("memory_server_proxy_per_connection", ""); x.Low > 0 || x.High < 0 {
		t.Errorf("connections cost nothing here: %+v", x)
	}
	if len(f.Published) != 1 || f.Published[0].Measured == nil || note.Codes(f.Published[0].Says) != "published_agrees" {
		t.Errorf("%+v", f.Published)
	}
	if x := one("cpu_server_proxy_per_cluster", ""); !study.IsFinding(x.Name) || x.Cell[dataplane.FactorFilters] != "" {
		t.Errorf("%+v", x)
	}
}

// Versions without any difference are reported as a regression in few runs.
func TestSimulationVersionsAreOneFamily(t *testing.T) {
	areOneFamily(t, strings.Replace(versionsStudy, "rate: 1000", "rate: 250", 1), analysistest.Quiet(), study.ProbeVersus)
}

// Latency that a lagging generator may have caused is no change.
func TestVersionsDoubtTheGenerator(t *testing.T) {
	w := analysistest.Quiet()
	plain := w.Latency
	w.Latency = func(c record.Cell) float64 {
		if c[study.FactorEnvoy] == "1.11.0" {
			return 1.2 * plain(c) // 100 µs more
		}
		return plain(c)
	}
	for lag, want := range map[float64]string{10: record.VerdictReal, 40: record.VerdictInconclusive} {
		w.Spoil = func(tr *record.Trial) { tr.Load.Lag = record.LatencyAt(0.5, lag, 0.99, lag) }
		f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, versionsStudy, 8, 3, w))
		x := analysistest.Get(t, f, "latency_p50_change_since_1_10_0", record.Cell{study.FactorSidecars: study.SidecarsBoth, study.FactorEnvoy: "1.11.0"})
		if x.Verdict != want || (x.Reason == record.ReasonLateLoad) != (want != record.VerdictReal) {
			t.Errorf("late by %g µs: %+v", lag, x)
		}
	}
}
