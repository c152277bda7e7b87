package sections

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
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
	return report.CellSentences(f, maxCellAnswers, func(_ record.CellSummary, measured report.Lookup) string {
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

// routeAnswers describes when routes are served, and when the Gateway's status has them.
func routeAnswers(f record.Findings) []string {
	served := report.CellSentences(f, maxCellAnswers, func(_ record.CellSummary, measured report.Lookup) string {
		served, ok := measured("route_served")
		if !ok {
			return ""
		}
		s := report.ScaleOf(served)
		sentence := "a new route is served " + report.WithInterval(s, served) + " after its commit"
		if acked, ok := measured("route_acked"); ok {
			sentence += ", and acknowledged after " + s.Value(acked.Estimate)
		}
		return sentence
	})
	return append(served, report.CellSentences(f, maxCellAnswers, func(_ record.CellSummary, measured report.Lookup) string {
		all, ok := measured("attached_all")
		if !ok {
			return ""
		}
		sentence := "the Gateway's status has all routes " + report.WithInterval(report.ScaleOf(all), all) + " after the last one's commit"
		if writes, ok := measured("gateway_status_writes"); ok {
			sentence += fmt.Sprintf(", in %s writes", report.Fixed(writes.Estimate, 0))
		}
		if none, ok := measured("attached_none"); ok {
			sentence += ", and none " + report.WithInterval(report.ScaleOf(none), none) + " after the last deletion"
		}
		return sentence
	})...)
}

// trafficAnswers describes what real requests met, in each of the first cells.
func trafficAnswers(f record.Findings) []string {
	return report.CellSentences(f, maxCellAnswers, func(c record.CellSummary, _ report.Lookup) string {
		if c.Valid == 0 || c.Control.Traffic == nil || c.Control.Traffic.Requests == 0 {
			return ""
		}
		x := c.Control.Traffic
		if x.PhantomRequests == 0 {
			return fmt.Sprintf("none of %s requests went to a stale endpoint, while %s went", report.Count(x.Requests), words.Plural(x.Gone, "endpoint"))
		}
		hidden := "were saved by a retry"
		if x.HiddenMaxUS >= 1e6 {
			hidden += ", after up to " + report.ScaleFor("us", x.HiddenMaxUS).Value(x.HiddenMaxUS)
		}
		var fates []string
		for _, fate := range []struct {
			n    int64
			what string
		}{
			{x.PhantomFailures, "failed for the caller"}, {x.PhantomHidden, hidden}, {x.PhantomServed, "were still served by a terminating pod"}, {x.PhantomOpen, "have an unknown outcome"},
		} {
			if fate.n > 0 {
				fates = append(fates, report.Count(fate.n)+" "+fate.what)
			}
		}
		return fmt.Sprintf("%s of %s requests (%s) went to a stale endpoint, the last %s after it had: %s", report.Count(x.PhantomRequests), report.Count(x.Requests),
			shareWords(float64(x.PhantomRequests)/float64(x.Requests)), report.ScaleFor("us", x.LastPhantomUS).Value(x.LastPhantomUS), strings.Join(fates, "; "))
	})
}

// shareWords formats a share in percent with two significant digits.
func shareWords(v float64) string {
	return report.Fixed(100*v, report.Clamp(1-report.Magnitude(100*v), 0, 4)) + "%"
}

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
	return report.CellSentences(f, maxCellAnswers, func(c record.CellSummary, measured report.Lookup) string {
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
