package findings

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

const sidecarStudy = `
name: idle
question: What does an idle sidecar use?
control: {changes: 10}
settings: {proxies: 5, real_pods: 4}
measures: [sidecars, cost]
blocks: {min: 3, max: 12}
published:
- {source: vendor, claim: 0.2 vCPU, finding: sidecar_cpu_idle, cell: {proxies: 5}, figure: 200, unit: mCPU}
- {source: vendor, claim: 60 MB, finding: sidecar_memory_idle, cell: {proxies: 5}, figure: 60, unit: MB}
`

// Four sidecars, 15 s each idle and 20 s with ten changes: 4 mCPU, then 10, which is 12 ms per
// change.
func idleRun(t *testing.T, spoil func(*record.Sidecars)) record.Findings {
	t.Helper()
	return analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, sidecarStudy, 3, func(record.Cell) analysistest.ControlWorld {
		return analysistest.ControlWorld{DebounceMS: 100, Pushes: 50, Spoil: func(trial *record.Trial, _ []record.Event) {
			noise := 1 + 0.01*float64(trial.Block-1)
			trial.Control.Sidecars = &record.Sidecars{
				Idle: &record.SidecarUse{Sidecars: 4, SidecarSeconds: 60, CPU: record.CPU{UserS: 0.24 * noise}, PSSBytes: 4 * 70e6,
					Processes: map[string]record.PartUse{record.ProcessEnvoy: {CPUS: 0.18 * noise, PSSBytes: 4 * 50e6}, record.ProcessAgent: {CPUS: 0.06 * noise, PSSBytes: 4 * 20e6}}},
				Changing: &record.SidecarUse{Sidecars: 4, SidecarSeconds: 80, CPU: record.CPU{UserS: 0.8 * noise}, PSSBytes: 4 * 72e6},
			}
			if spoil != nil {
				spoil(trial.Control.Sidecars)
			}
		}}
	}))
}

func TestSidecarFindings(t *testing.T) {
	f := idleRun(t, nil)
	for name, want := range map[string]float64{"sidecar_cpu_idle": 4, "envoy_cpu_idle": 3, "agent_cpu_idle": 1, "sidecar_cpu_changing": 10, "sidecar_cpu_per_change": 12_000,
		"sidecar_memory_idle": 70e6, "envoy_memory_idle": 50e6, "agent_memory_idle": 20e6, "sidecar_memory_changing": 72e6} {
		i := slices.IndexFunc(f.Findings, func(x record.Finding) bool { return x.Name == name })
		if i < 0 || f.Findings[i].Verdict != record.VerdictMeasured || math.Abs(f.Findings[i].Estimate/want-1) > 1e-6 {
			t.Errorf("%s: want %v of %+v", name, want, f.Findings)
		}
	}
	for _, x := range f.Findings { // the processes were neither separated nor measured
		if slices.Contains([]string{"envoy_cpu_changing", "agent_cpu_changing", "envoy_memory_changing"}, x.Name) && x.Verdict != record.VerdictInvalid {
			t.Errorf("%+v", x)
		}
	}
	cpu, memory := f.Published[0].Says, f.Published[1].Says
	if note.Codes(cpu) != "published_differs published_cpu" || cpu[0].Args[1] != "2% of" || cpu[0].Args[2] != "200 mCPU" {
		t.Errorf("CPU: %q", note.Words(cpu))
	}
	if !noteMemoryOfPod.In(memory) {
		t.Errorf("memory: %q", note.Words(memory))
	}
}

// If a trial's counters were lost there is no figure, also not per change.
func TestSidecarFindingsThatAreMissing(t *testing.T) {
	for _, x := range idleRun(t, func(s *record.Sidecars) { s.Idle = nil }).Findings {
		if (strings.HasSuffix(x.Name, "_idle") && !strings.HasPrefix(x.Name, "istiod") && !strings.HasPrefix(x.Name, "apiserver") || x.Name == "sidecar_cpu_per_change") && x.Verdict != record.VerdictInvalid {
			t.Errorf("%+v", x)
		}
	}
}
