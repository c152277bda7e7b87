package sections

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// sidecarTables lists what a real sidecar without requests uses, with and without changes.
func sidecarTables(f record.Findings) []report.Table {
	idle := valueTable(f, "CPU of a sidecar without requests while nothing changes, mCPU (95% interval)", []valueColumn{
		{"sidecar", "sidecar_cpu_idle", 9, nil}, {"Envoy", "envoy_cpu_idle", 6, nil}, {"agent", "agent_cpu_idle", 5, nil},
	})
	changing := valueTable(f, "CPU of a sidecar without requests while the mesh changes, mCPU (95% interval)", []valueColumn{
		{"sidecar", "sidecar_cpu_changing", 9, nil}, {"Envoy", "envoy_cpu_changing", 6, nil}, {"agent", "agent_cpu_changing", 5, nil},
		{"beyond idle per change", "sidecar_cpu_per_change", 7, nil},
	})
	memory := valueTable(f, "Memory of a sidecar without requests, PSS (95% interval)", []valueColumn{
		{"idle", "sidecar_memory_idle", 9, nil}, {"Envoy idle", "envoy_memory_idle", 6, nil}, {"agent idle", "agent_memory_idle", 5, nil},
		{"after changes", "sidecar_memory_changing", 8, nil}, {"Envoy after changes", "envoy_memory_changing", 4, nil}, {"agent after changes", "agent_memory_changing", 3, nil},
	})
	if len(memory.Rows) > 0 {
		memory.Notes = append(memory.Notes, "PSS: pages that the sidecars of a node share, such as their programs' code, are divided among them.")
	}
	return []report.Table{idle, changing, memory}
}

// maxSidecarAnswers limits the number of cells with a sentence each; the table has all.
const maxSidecarAnswers = 4

// sidecarAnswers describes what a sidecar without requests uses in each cell.
func sidecarAnswers(f record.Findings) []string {
	in := measuredIn(f)
	var out []string
	for _, c := range f.Cells {
		measured := func(name string) (record.Finding, bool) { return in(c.Cell, name) }
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

// measuredIn returns a lookup of the cells' own measured values.
func measuredIn(f record.Findings) func(cell record.Cell, name string) (record.Finding, bool) {
	plain := report.OwnValues(f)
	return func(cell record.Cell, name string) (record.Finding, bool) {
		x, ok := plain[name+"\x00"+cell.Key()]
		return x, ok && x.Verdict == record.VerdictMeasured
	}
}
