package report

import (
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// fitsTable says what the cost of each part is made of: what it uses idle, and
// what each request, connection and piece of configuration adds.
func fitsTable(f record.Findings) table {
	t := table{Title: "What costs are made of (95% interval)", Columns: []column{{"", false, 0}, {"what", false, 0}, {"of cells", false, 3}, {"cost", true, 0}}}
	for _, d := range dataKind().Findings.All() {
		if d.Section != study.SectionFits {
			continue
		}
		for _, x := range f.Findings {
			if x.Name == d.Name && x.Verdict != record.VerdictInvalid {
				t.Rows = append(t.Rows, []text{{S: partWords(d.Part)}, {S: d.Row}, {S: varyingWords(f, x.Cell)}, {S: fitScale(x).quantity(x.Estimate, x.Low, x.High)}})
			}
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Straight lines through all trials along rate, connections or configuration, whatever bends they have.")
	}
	return t
}

// fitScale shows small slopes in small units.
func fitScale(x record.Finding) scale {
	if base, per, ok := strings.Cut(x.Unit, "/"); ok && base == "ns" {
		return scale{1, "ns a " + strings.Replace(per, "/", " and ", 1)}
	}
	return scaleFor(x.Unit, max(x.Estimate, -x.Estimate))
}

// varyingWords are the levels of a cell that others differ in.
func varyingWords(f record.Findings, cell record.Cell) string {
	var out []string
	for _, l := range f.Factors {
		if level, ok := cell[l.Factor]; ok && len(l.Levels) > 1 {
			out = append(out, strings.ReplaceAll(l.Factor, "_", " ")+" "+level)
		}
	}
	if out == nil {
		return "all"
	}
	return strings.Join(out, ", ")
}
