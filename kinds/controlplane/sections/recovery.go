package sections

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// recoveryTables lists the effects of a disruption on the proxies and on istiod.
func recoveryTables(f record.Findings) []report.Table {
	proxies := figureTable(f, "From the disruption until proxies had all of their configuration again (95% interval)", report.FigureColumns{
		{"first", "recovery_first", 4}, {"p50", "recovery_p50", 8}, {"p99", "recovery_p99", 7}, {"last", "recovery_last", 9},
		{"without a stream p50", "without_p50", 5}, {"p99", "without_p99", 3},
		{"streams lost", "streams_lost", 2}, {"refused", "streams_refused", 6}, {"other failures", "streams_failed", 2},
	})
	proxies = noted(proxies, "Refused: new streams beyond istiod's limit of requests per second. A proxy that is refused, or finds nobody, tries again after Envoy's back-off: a random part of 0.5 s, doubled each time up to 30 s.")
	istiod := figureTable(f, "istiod after the disruption, all replicas together (95% interval)", report.FigureColumns{
		{"until ready", "istiod_ready_time", 6}, {"peak CPU", "istiod_cpu_peak", 8}, {"CPU per returning proxy", "istiod_cpu_per_return", 5},
		{"peak memory", "istiod_memory_peak", 9}, {"fullest replica beyond its share", "connection_imbalance", 7}, {"even after", "balance_time", 6},
	})
	return []report.Table{proxies, istiod}
}

// recoveryAnswers describes how long proxies took to recover in each cell.
func recoveryAnswers(f record.Findings) []string {
	return cellSentences(f, func(_ record.CellSummary, measured lookup) string {
		last, ok := measured("recovery_last")
		if !ok {
			return ""
		}
		sentence := "the last proxy had its configuration again " + report.WithInterval(report.ScaleOf(last), last) + " after the disruption"
		if x, ok := measured("recovery_p50"); ok {
			sentence += ", half of them after " + report.ScaleOf(x).Value(x.Estimate)
		}
		if x, ok := measured("istiod_memory_peak"); ok {
			sentence += "; istiod needed up to " + report.ScaleOf(x).Value(x.Estimate)
		}
		return sentence
	})
}
