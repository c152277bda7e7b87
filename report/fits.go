package report

import (
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// fitWords are what findings of fits mean, by the end of their names. Those of
// what a cost is made of come in their order.
var fitWords = []struct{ end, memory, cpu string }{
	{"_idle", "memory without requests", "CPU without requests"},
	{"_slope", "", "CPU of each request on top of that"},
	{"_per_rps", "memory for each request a second", ""},
	{"_per_connection", "memory for each connection", "CPU of a request for each connection"},
	{"_per_cluster", "memory for each cluster configured", "CPU of a request for each cluster configured"},
	{"_per_listener", "memory for each listener configured", "CPU of a request for each listener configured"},
	{"_per_route", "memory for each route before the one taken", "CPU of a request for each route before the one taken"},
}

// fitsTable says what the cost of each part is made of: what it uses idle, and
// what each request, connection and piece of configuration adds.
func fitsTable(f record.Findings) table {
	t := table{Title: "What costs are made of (95% interval)", Columns: []column{{"", false, 0}, {"what", false, 0}, {"of cells", false, 3}, {"cost", true, 0}}}
	for _, part := range []string{record.PartClientProxy, record.PartServerProxy} {
		for _, w := range fitWords {
			for _, kind := range []struct{ name, words string }{{"cpu_" + part + w.end, w.cpu}, {"memory_" + part + w.end, w.memory}} {
				if kind.words == "" {
					continue
				}
				for _, x := range f.Findings {
					if x.Name != kind.name || x.Probe != "fit" || x.Verdict == record.VerdictInvalid {
						continue
					}
					t.Rows = append(t.Rows, []text{{S: partWords(part)}, {S: kind.words}, {S: varyingWords(f, x.Cell)}, {S: fitScale(x).quantity(x.Estimate, x.Low, x.High)}})
				}
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
