// Package sections is what reports show of studies of gateways.
package sections

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
)

// Kind returns the report of studies of gateways.
func Kind() report.Kind {
	findings := ingress.Kind.Findings()
	return report.Kind{
		Name:     record.KindIngress,
		Findings: findings,
		Sections: slices.Concat([]report.Section{
			report.One(ingress.SectionServed, servedTable),
			report.Charted("differences", "Against the baseline", report.DifferenceLead, func(f record.Findings) []report.Chart {
				return report.DifferenceCharts(findings, f, func(d finding.Def, x record.Finding) bool {
					return x.Verdict != record.VerdictInvalid && d.Difference
				})
			}),
			report.One(ingress.SectionCost, costTable),
			report.Conditions(),
		}, report.Common(findings, false, false)),
		Answers: answers,
		Values:  func(record.CellSummary) []report.Value { return nil },
	}
}

func servedTable(f record.Findings) report.Table {
	t := report.FigureTable(f, "From a route's commit until the gateway serves it (95% interval)", report.FigureColumns{
		{Head: "first good request", Name: ingress.FamilyServed, Keep: 9}, {Head: "p90", Name: "route_served_p90", Keep: 4}, {Head: "slowest", Name: "route_served_max", Keep: 6},
		{Head: "known to within", Name: ingress.FindingResolution, Keep: 3}, {Head: "never served", Name: ingress.FindingUnserved, Keep: 5},
		{Head: "wrong answers, added routes", Name: ingress.FindingErrors, Keep: 7}, {Head: "existing routes", Name: ingress.FindingOldErrors, Keep: 8},
		{Head: "ready after", Name: ingress.FindingReady, Keep: 2},
	}, nil)
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "First good request: when its answer came, median over changes; each route has its own schedule of requests, which starts before it is due. "+
			"Wrong answers: per trial, any but 200, and 404 before an added route's first 200.")
	}
	return t
}

func costTable(f record.Findings) report.Table {
	return report.FigureTable(f, "What the gateway and its control plane use (95% interval)", report.FigureColumns{
		{Head: "gateway CPU", Name: ingress.FindingGatewayCPU, Keep: 8}, {Head: "memory", Name: ingress.FindingGatewayMem, Keep: 6},
		{Head: "control plane CPU", Name: ingress.FindingControlCPU, Keep: 9}, {Head: "per change", Name: ingress.FindingPerChange, Keep: 5}, {Head: "memory", Name: ingress.FindingControlMem, Keep: 7},
	}, nil)
}

// maxAnswers limits the cells that answers describe.
const maxAnswers = 8

// answers says in words when routes are served, and which answers were wrong meanwhile.
func answers(f record.Findings) []string {
	plain := report.OwnValues(f)
	return append(report.SearchAnswers(f), report.CellSentences(f, maxAnswers, func(c record.CellSummary, measured report.Lookup) string {
		served, ok := measured(ingress.FamilyServed)
		unserved := plain[ingress.FindingUnserved+"\x00"+c.Cell.Key()]
		never := unserved.Verdict == record.VerdictReal
		sentence := ""
		switch {
		case ok:
			sentence = "a new route is served " + report.WithInterval(report.ScaleOf(served), served) + " after its commit"
			if never {
				sentence += fmt.Sprintf(", and %s per trial never", report.Fixed(unserved.Estimate, 1))
			}
		case never:
			sentence = report.Fixed(unserved.Estimate, 1) + " new routes per trial are never served"
		default:
			return ""
		}
		if x, ok := measured(ingress.FindingOldErrors); ok && x.Estimate > 0 {
			sentence += fmt.Sprintf("; %s requests per trial to existing routes fail meanwhile", report.Fixed(x.Estimate, 1))
		}
		return sentence
	})...)
}
