package sections

import (
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// sidecarTables lists what a real sidecar without requests uses, with and without changes.
func sidecarTables(f record.Findings) []report.Table {
	idle := figureTable(f, "CPU of a sidecar without requests while nothing changes (95% interval)", report.FigureColumns{
		{"sidecar", "sidecar_cpu_idle", 9}, {"Envoy", "envoy_cpu_idle", 6}, {"agent", "agent_cpu_idle", 5},
	})
	changing := figureTable(f, "CPU of a sidecar without requests while the mesh changes (95% interval)", report.FigureColumns{
		{"sidecar", "sidecar_cpu_changing", 9}, {"Envoy", "envoy_cpu_changing", 6}, {"agent", "agent_cpu_changing", 5},
		{"beyond idle per change", "sidecar_cpu_per_change", 7},
	})
	memory := figureTable(f, "Memory of a sidecar without requests, PSS (95% interval)", report.FigureColumns{
		{"idle", "sidecar_memory_idle", 9}, {"Envoy idle", "envoy_memory_idle", 6}, {"agent idle", "agent_memory_idle", 5},
		{"after changes", "sidecar_memory_changing", 8}, {"Envoy after changes", "envoy_memory_changing", 4}, {"agent after changes", "agent_memory_changing", 3},
	})
	return []report.Table{idle, changing, noted(memory, "PSS: pages that the sidecars of a node share, such as their programs' code, are divided among them.")}
}

// sidecarAnswers describes what a sidecar without requests uses in each cell.
func sidecarAnswers(f record.Findings) []string {
	return cellSentences(f, func(c record.CellSummary, measured lookup) string {
		whole, ok := measured("sidecar_cpu_idle")
		if !ok {
			return ""
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
		if x, ok := measured("sidecar_cpu_changing"); ok && c.Control.WindowSeconds > 0 {
			sentence += fmt.Sprintf("; with %s changes per second it uses %s", report.Fixed(float64(c.Control.Committed)/c.Control.WindowSeconds, 1), s.Value(x.Estimate))
		}
		return sentence
	})
}

// maxCellAnswers limits the number of cells with a sentence each; the tables have all.
const maxCellAnswers = 4

// lookup finds a cell's own measured value by finding.
type lookup func(name string) (record.Finding, bool)

// measuredIn returns the lookup in a cell.
func measuredIn(plain map[string]record.Finding, cell record.Cell) lookup {
	return func(name string) (record.Finding, bool) {
		x, ok := plain[name+"\x00"+cell.Key()]
		return x, ok && x.Verdict == record.VerdictMeasured
	}
}

// cellSentences returns a sentence about each of the first cells for which of returns one, without
// the cell's name and the full stop.
func cellSentences(f record.Findings, of func(c record.CellSummary, measured lookup) string) []string {
	plain := report.OwnValues(f)
	var out []string
	for _, c := range f.Cells {
		sentence := of(c, measuredIn(plain, c.Cell))
		if sentence == "" || len(out) == maxCellAnswers {
			continue
		}
		if len(f.Cells) > 1 {
			sentence = "with " + c.Label + ", " + sentence
		}
		out = append(out, report.UpperFirst(sentence+"."))
	}
	return out
}
