package findings

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// A run with CPU from kubelets states its precision, and reports user and kernel time together;
// memory is the working set.
func TestSampledCPU(t *testing.T) {
	run := analysistest.Simulate(t, analysistest.QuickStudy, 4, 3, analysistest.Quiet())
	if got := sampledWarning(analysistest.Analyze(t, kinds, run)); got != "" {
		t.Errorf("counters read at the edges: %s", got)
	}
	run.Header.Observed = record.ObservedKubelet
	for i := range run.Trials {
		trial := &run.Trials[i]
		trial.Sampled, trial.Memory = map[string]record.Sampled{}, map[string]record.Memory{}
		for part, cpu := range trial.CPU {
			used := cpu.TotalS()
			trial.CPU[part] = record.CPU{UserS: used}
			trial.Sampled[part] = record.Sampled{ErrorS: 0.0025 * used, LowS: 0.9 * used, HighS: 1.2 * used, GapS: 1.5}
			trial.Memory[part] = record.Memory{WorkingSetBytes: 7e6}
		}
	}
	run.Trials[0].Sampled[record.PartWorker] = record.Sampled{ErrorS: 0.013 * run.Trials[0].CPU[record.PartWorker].TotalS(), HighS: 1.2 * run.Trials[0].CPU[record.PartWorker].TotalS()}
	run.Trials[1].Validity.Valid = false
	run.Trials[1].Sampled[record.PartWorker] = record.Sampled{ErrorS: 1000}
	f := analysistest.Analyze(t, kinds, run)
	if got, want := sampledWarning(f), "CPU is interpolated between samples up to 1.5 s apart: a trial's figure has a standard error of 0.25% (median; the largest 1.3%), and a maximum error of 100%"; !strings.Contains(got, want) {
		t.Errorf("%s", got)
	}
	both := record.Cell{study.FactorSidecars: study.SidecarsBoth}
	for _, c := range f.Cells {
		for part, cpu := range c.CPUPerRequest {
			if !cpu.Whole || cpu.SystemUS != 0 || cpu.UserUS <= 0 {
				t.Errorf("%s: %+v", part, cpu)
			}
		}
	}
	if m := analysistest.Get(t, f, "memory_client_proxy", both); m.Estimate != 7e6 {
		t.Errorf("%+v", m)
	}
}

func sampledWarning(f record.Findings) string {
	for _, w := range f.Warnings {
		if w.Is(noteKubelets) {
			return w.String()
		}
	}
	return ""
}
