package sections

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// sidecarTables have what a real sidecar without requests uses, while nothing
// changes and while changes are made.
func sidecarTables(f record.Findings) []report.Table {
	cpu := valueTable(f, "CPU of a sidecar without requests, mCPU (95% interval)", []valueColumn{
		{"idle", "sidecar_cpu_idle", 9, nil}, {"Envoy idle", "envoy_cpu_idle", 6, nil}, {"agent idle", "agent_cpu_idle", 5, nil},
		{"with changes", "sidecar_cpu_changing", 8, nil}, {"Envoy with changes", "envoy_cpu_changing", 4, nil}, {"agent with changes", "agent_cpu_changing", 3, nil},
		{"beyond idle per change", "sidecar_cpu_per_change", 7, nil},
	})
	memory := valueTable(f, "Memory of a sidecar without requests, PSS (95% interval)", []valueColumn{
		{"idle", "sidecar_memory_idle", 9, nil}, {"Envoy idle", "envoy_memory_idle", 6, nil}, {"agent idle", "agent_memory_idle", 5, nil},
		{"after changes", "sidecar_memory_changing", 8, nil}, {"Envoy after changes", "envoy_memory_changing", 4, nil}, {"agent after changes", "agent_memory_changing", 3, nil},
	})
	if len(cpu.Rows) > 0 {
		cpu.Notes = append(cpu.Notes, "Means over the real sidecars of a cell, whose pods are made anew for each trial. Idle: nothing changes in the mesh. With changes: from the first to the last push.")
	}
	if len(memory.Rows) > 0 {
		memory.Notes = append(memory.Notes, "PSS: pages that the sidecars of a node share, such as their programs' code, are divided among them.")
	}
	return []report.Table{cpu, memory}
}

// maxSidecarAnswers is how many cells have a sentence each; the table has all.
const maxSidecarAnswers = 4

// sidecarAnswers say what a sidecar without requests uses in each cell.
func sidecarAnswers(f record.Findings) []string {
	plain := report.OwnValues(f)
	var out []string
	for _, c := range f.Cells {
		measured := func(name string) (record.Finding, bool) {
			x, ok := plain[name+"\x00"+c.Cell.Key()]
			return x, ok && x.Verdict == record.VerdictMeasured
		}
		whole, ok := measured("sidecar_cpu_idle")
		if !ok || len(out) == maxSidecarAnswers {
			continue
		}
		s := report.ScaleOf(whole)
		sentence := "an idle sidecar uses " + report.WithInterval(s, whole)
		envoy, okEnvoy := measured("envoy_cpu_idle")
		agent, okAgent := measured("agent_cpu_idle")
		if okEnvoy && okAgent {
			sentence += fmt.Sprintf(", %s of it in Envoy and %s in its agent,", s.Plain(envoy.Estimate), s.Plain(agent.Estimate))
		}
		if m, ok := measured("sidecar_memory_idle"); ok {
			sentence += " and " + report.ScaleOf(m).Value(m.Estimate)
		}
		if x, ok := measured("sidecar_cpu_changing"); ok && c.Control != nil && c.Control.WindowSeconds > 0 {
			sentence += fmt.Sprintf("; with %s changes per second it uses %s", report.Fixed(float64(c.Control.Committed)/c.Control.WindowSeconds, 1), s.Value(x.Estimate))
		}
		if len(f.Cells) > 1 {
			sentence = "with " + c.Label + ", " + sentence
		}
		out = append(out, report.UpperFirst(sentence+"."))
	}
	return out
}
