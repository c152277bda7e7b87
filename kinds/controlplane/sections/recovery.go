package sections

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// ofRecovery returns a value of a cell's first trial, NaN without a disruption.
func ofRecovery(of func(d *record.Disruption) float64) func(c *record.ControlSummary) float64 {
	return func(c *record.ControlSummary) float64 {
		if c.Recovery == nil {
			return math.NaN()
		}
		return of(c.Recovery)
	}
}

// recoveredAt returns when the proxy at a rank, counted from the end, had everything.
func recoveredAt(share float64) func(c *record.ControlSummary) float64 {
	return ofRecovery(func(d *record.Disruption) float64 {
		rank := max(1, int(math.Ceil(share*float64(d.Lost)-1e-9)))
		if rank > len(d.RecoveredUS) {
			return math.NaN()
		}
		return float64(d.RecoveredUS[rank-1])
	})
}

// recoveryTables lists the effects of a disruption on the proxies and on istiod, and the spread of
// connections over several replicas as time passed.
func recoveryTables(f record.Findings) []report.Table {
	proxies := valueTable(f, "From the disruption until proxies had all of their configuration again (95% interval)", []valueColumn{
		{"first", "recovery_first", 4, recoveredAt(0)}, {"p50", "recovery_p50", 8, recoveredAt(0.5)}, {"p99", "recovery_p99", 7, recoveredAt(0.99)}, {"last", "recovery_last", 9, recoveredAt(1)},
		{"without a stream p50", "without_p50", 5, ofRecovery(func(d *record.Disruption) float64 { return d.Without.At(0.5) })},
		{"p99", "without_p99", 3, ofRecovery(func(d *record.Disruption) float64 { return d.Without.At(0.99) })},
		{"streams lost", "streams_lost", 2, ofRecovery(func(d *record.Disruption) float64 { return float64(d.Losses) })},
		{"refused", "streams_refused", 6, ofRecovery(func(d *record.Disruption) float64 { return float64(d.Refused) })},
		{"other failures", "streams_failed", 2, ofRecovery(func(d *record.Disruption) float64 { return float64(d.Failed) })},
	})
	if len(proxies.Rows) > 0 {
		proxies.Notes = append(proxies.Notes, "Refused: new streams beyond istiod's limit of requests per second. A proxy that is refused, or finds nobody, tries again after Envoy's back-off: a random part of 0.5 s, doubled each time up to 30 s.")
	}
	istiod := valueTable(f, "istiod after the disruption, all replicas together (95% interval)", []valueColumn{
		{"until ready", "istiod_ready_time", 6, ofRecovery(func(d *record.Disruption) float64 {
			if d.ReadyUS <= 0 {
				return math.NaN()
			}
			return float64(d.ReadyUS)
		})},
		{"peak CPU", "istiod_cpu_peak", 8, ofRecovery(func(d *record.Disruption) float64 { return d.CPUPeak })},
		{"CPU per returning proxy", "istiod_cpu_per_return", 5, nil},
		{"peak memory", "istiod_memory_peak", 9, ofRecovery(func(d *record.Disruption) float64 { return float64(d.MemoryPeakBytes) })},
		{"fullest replica beyond its share", "connection_imbalance", 7, ofRecovery(func(d *record.Disruption) float64 {
			if d.Imbalance == nil {
				return math.NaN()
			}
			return *d.Imbalance
		})},
		{"even after", "balance_time", 6, ofRecovery(func(d *record.Disruption) float64 {
			if d.BalancedUS == nil {
				return math.NaN()
			}
			return float64(*d.BalancedUS)
		})},
	})
	return []report.Table{proxies, istiod, spreadTable(f)}
}

// spreadRows is the number of moments per cell in the table of connections.
const spreadRows = 6

// spreadTable lists the connections of each replica at a few moments of a cell's first trial, for
// cells that ever had several replicas.
func spreadTable(f record.Findings) report.Table {
	t := report.Table{Title: "Connections of istiod's replicas after the disruption, fullest first, in one trial", Columns: append(report.FactorColumns(f),
		report.Column{Head: "after, s", Right: true, Keep: 8}, report.Column{Head: "connections", Keep: 9}, report.Column{Head: "fullest beyond its share", Right: true, Keep: 7},
		report.Column{Head: "proxies with all", Right: true, Keep: 4})}
	for _, c := range f.Cells {
		if c.Control == nil || c.Control.Recovery == nil {
			continue
		}
		points := slices.DeleteFunc(slices.Clone(c.Control.Recovery.Points), func(p record.DisruptionPoint) bool { return len(connectionsOf(p)) == 0 })
		if !slices.ContainsFunc(points, func(p record.DisruptionPoint) bool { return len(connectionsOf(p)) > 1 }) {
			continue
		}
		rows := min(spreadRows, len(points))
		for i := range rows {
			p := points[i*(len(points)-1)/max(1, rows-1)]
			row := report.FactorTexts(f, c.Cell)
			if i > 0 { // name the cell once
				for k := range row {
					row[k] = report.Text{}
				}
			}
			counts := connectionsOf(p)
			t.Rows = append(t.Rows, append(row, report.Text{S: report.Fixed(math.Max(0, float64(p.AtUS)/1e6), 0)}, report.Text{S: joined(counts)}, beyondShare(counts), report.Text{S: report.Count(p.Synced)}))
		}
	}
	return t
}

// connectionsOf returns the connections of the replicas that report them, in descending order.
func connectionsOf(p record.DisruptionPoint) []int {
	var out []int
	for _, r := range p.Replicas {
		if r.Connections != nil {
			out = append(out, *r.Connections)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

func joined(counts []int) string {
	var parts []string
	for _, n := range counts {
		parts = append(parts, report.Count(n))
	}
	return strings.Join(parts, " / ")
}

// beyondShare formats the excess of the fullest of several replicas over their mean.
func beyondShare(counts []int) report.Text {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if len(counts) < 2 || sum == 0 {
		return report.Text{S: "–", Style: report.StyleDim}
	}
	return report.Text{S: fmt.Sprintf("%.0f%%", 100*(float64(counts[0])*float64(len(counts))/float64(sum)-1))}
}

// maxRecoveryAnswers limits the number of cells with a sentence each; the tables have all.
const maxRecoveryAnswers = 4

// recoveryAnswers describes how long proxies took to recover in each cell.
func recoveryAnswers(f record.Findings) []string {
	in := measuredIn(f)
	var out []string
	for _, c := range f.Cells {
		measured := func(name string) (record.Finding, bool) { return in(c.Cell, name) }
		last, ok := measured("recovery_last")
		if !ok || len(out) == maxRecoveryAnswers {
			continue
		}
		sentence := "the last proxy had its configuration again " + report.WithInterval(report.ScaleOf(last), last) + " after the disruption"
		if x, ok := measured("recovery_p50"); ok {
			sentence += ", half of them after " + report.ScaleOf(x).Value(x.Estimate)
		}
		if x, ok := measured("istiod_memory_peak"); ok {
			sentence += "; istiod needed up to " + report.ScaleOf(x).Value(x.Estimate)
		}
		if len(f.Cells) > 1 {
			sentence = "with " + c.Label + ", " + sentence
		}
		out = append(out, report.UpperFirst(sentence+"."))
	}
	return out
}
