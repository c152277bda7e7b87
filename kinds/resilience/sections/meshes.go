package sections

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// meshAnswers state the cost of each mesh in a study that compares several: the resources of
// control plane and proxies, and the added latency.
func meshAnswers(f record.Findings) []string {
	at := slices.IndexFunc(f.Factors, func(x record.FactorLevels) bool { return x.Factor == "mesh" })
	if at < 0 || len(f.Factors[at].Levels) < 2 {
		return nil
	}
	by := map[string]record.Finding{}
	for _, x := range f.Findings {
		if x.Verdict != record.VerdictInvalid {
			by[x.Name+"\x00"+x.Cell.Key()] = x
		}
	}
	var out []string
	for _, c := range judged(f) {
		value := func(name string) string {
			x, ok := by[name+"\x00"+c.Cell.Key()]
			if !ok {
				return ""
			}
			return report.ScaleOf(x).Quantity(x.Estimate, x.Low, x.High)
		}
		var parts []string
		add := func(format, name string) {
			if v := value(name); v != "" {
				parts = append(parts, fmt.Sprintf(format, v))
			}
		}
		add("its control plane uses %s", "cpu_control_plane")
		add("a client's proxy %s", "cpu_client_proxy")
		add("one of the first service %s", "cpu_entry_proxy")
		add("one of the last %s", "cpu_last_proxy")
		add("a proxy has %s of memory", "memory_server_proxy")
		add("a node's proxy uses %s", "cpu_node_proxy")
		add("it has %s of memory", "memory_node_proxy")
		add("the waypoint uses %s", "cpu_waypoint")
		add("it has %s of memory", "memory_waypoint")
		if x, ok := by["latency_p50_overhead\x00"+c.Cell.Key()]; ok {
			against, added := cellLabel(f, x.Against), report.ScaleOf(x).Quantity(x.Estimate, x.Low, x.High)
			switch x.Verdict {
			case record.VerdictReal:
				parts = append(parts, fmt.Sprintf("half of the requests take %s longer than with %s", added, against))
			case record.VerdictNoEffect:
				parts = append(parts, fmt.Sprintf("the median latency is higher by %s than with %s, which does not matter", added, against))
			default:
				parts = append(parts, fmt.Sprintf("the median latency differs from that with %s by %s, which is inconclusive", against, added))
			}
		}
		if len(parts) > 0 && value("cpu_client_proxy")+value("cpu_node_proxy") != "" {
			out = append(out, fmt.Sprintf("%s: %s.", report.UpperFirst(c.Label), strings.Join(parts, ", ")))
		}
	}
	return out
}

// meshOverheads states in a sentence what each mesh adds to the CPU of the whole machine under one
// load; "" if that was not compared or is unknown.
func meshOverheads(f record.Findings) string {
	if !slices.ContainsFunc(f.Factors, func(x record.FactorLevels) bool { return x.Factor == "mesh" }) {
		return ""
	}
	var each []string
	for _, c := range judged(f) {
		for _, x := range f.Findings {
			if x.Name == "cpu_machine_overhead" && x.Verdict == record.VerdictReal && x.Cell.Key() == c.Cell.Key() {
				each = append(each, fmt.Sprintf("%s adds %s", c.Label, report.ScaleOf(x).Quantity(x.Estimate, x.Low, x.High)))
			}
		}
	}
	if len(each) == 0 {
		return ""
	}
	return report.UpperFirst(fmt.Sprintf("%s to what the machine uses under the same load.", words.List(each)))
}

// cellLabel returns the label of a cell of the findings.
func cellLabel(f record.Findings, cell record.Cell) string {
	for _, c := range f.Cells {
		if c.Cell.Key() == cell.Key() {
			return c.Label
		}
	}
	return cell.Key()
}
