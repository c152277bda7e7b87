package sections

import (
	"strings"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// fitsTable splits the cost of each part: idle use, and the cost of each request, connection and
// piece of configuration.
func fitsTable(f record.Findings) report.Table {
	t := report.Table{Title: "Fixed and marginal costs (95% interval)", Columns: []report.Column{{Head: ""}, {Head: "what"}, {Head: "of cells", Keep: 3}, {Head: "cost", Right: true}}}
	for _, d := range Kind().Findings.All() {
		if d.Section != dataplane.SectionFits {
			continue
		}
		for _, x := range f.Findings {
			if x.Name == d.Name && x.Verdict != record.VerdictInvalid {
				t.Rows = append(t.Rows, []report.Text{{S: report.PartWords(d.Part)}, {S: d.Row}, {S: varyingWords(f, x.Cell)}, {S: fitScale(x).Quantity(x.Estimate, x.Low, x.High)}})
			}
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Linear fits over all trials against rate, connections or configuration size; curvature is not modelled. What they say of no requests is extrapolated: a proxy takes less CPU at rest if the first requests of a second take the most.")
	}
	return t
}

// fitScale uses small units for small slopes.
func fitScale(x record.Finding) report.Scale {
	if base, per, ok := strings.Cut(x.Unit, "/"); ok && base == "ns" {
		return report.Scale{Div: 1, Unit: "ns per " + strings.Replace(per, "/", " and ", 1)}
	}
	return report.ScaleFor(x.Unit, x.Estimate)
}

// varyingWords lists the levels of a cell that vary between cells.
func varyingWords(f record.Findings, cell record.Cell) string {
	var out []string
	for _, l := range f.Factors {
		if level, ok := cell[l.Factor]; ok && len(l.Levels) > 1 {
			out = append(out, report.FactorName(l.Factor)+" "+level)
		}
	}
	if out == nil {
		return "all"
	}
	return strings.Join(out, ", ")
}
