package sections

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// planeTable lists the use of two control planes while both ran.
func planeTable(f record.Findings) report.Table {
	t := report.Table{Title: "Two control planes at once", Columns: append(report.FactorColumns(f), report.Column{Head: "revision"}, report.Column{Head: "version", Keep: 5}, report.Column{Head: "side by side", Right: true, Keep: 6},
		report.Column{Head: "CPU", Right: true}, report.Column{Head: "memory", Right: true}, report.Column{Head: "then", Keep: 4})}
	for _, c := range judged(f) {
		for _, p := range c.Scenario.Planes {
			then := "stayed"
			if p.Removed {
				then = "removed"
			}
			for i, plane := range []record.ScenarioPlane{p.First, p.Second} {
				cpu, bytes := dash, float64(plane.MemoryBytes)
				if p.Seconds > 0 {
					milli := plane.CPU.TotalS() / p.Seconds * 1000
					cpu = report.Text{S: report.ScaleFor("mCPU", milli).Value(milli)}
				}
				memory := percentile(report.ScaleFor("bytes", bytes), bytes)
				is := report.Text{}
				if i == 1 {
					is.S = then
				}
				t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: plane.Revision}, report.Text{S: plane.Version}, orDash(p.Seconds, seconds(p.Seconds)), cpu, memory, is))
			}
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "From when the second control plane served, after its configuration was compared, until its removal or the timeline's end. Memory is its proportional set size at that end.")
	}
	return t
}

// maxValue limits the length of a value in the table of differences, in bytes; findings have all of
// it.
const maxValue = 80

// configTable lists what control planes of two versions send differently.
func configTable(f record.Findings) report.Table {
	t := report.Table{Title: "What both control planes send the same proxies", Columns: append(report.FactorColumns(f), report.Column{Head: "type"}, report.Column{Head: "resources", Right: true}, report.Column{Head: "field"},
		report.Column{Head: "first", Keep: 7}, report.Column{Head: "second", Keep: 7}, report.Column{Head: "for example", Keep: 3})}
	value := func(s string) report.Text {
		if len(s) > maxValue {
			s = strings.ToValidUTF8(s[:maxValue], "") + "..."
		}
		return orDash(float64(len(s)), s)
	}
	for _, c := range judged(f) {
		for _, p := range c.Scenario.Planes {
			if p.Compared == nil {
				continue
			}
			for _, d := range p.Compared.Differences {
				field := report.Text{S: d.Path}
				if d.Path == "" {
					field = report.Text{S: "the resource", Style: report.StyleStrong}
				}
				t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: d.Type}, report.Text{S: report.Count(int64(d.Resources))}, field, value(d.First), value(d.Second), report.Text{S: d.Example}))
			}
			t.Notes = append(t.Notes, fmt.Sprintf("%s: of %s for %s, %s differ between %s (first) and %s (second). Versions of resources are not compared.", c.Label,
				words.Plural(p.Compared.Resources, "resource"), words.Plural(len(p.Compared.Proxies), "proxy"), report.Count(int64(p.Compared.Differing)), p.First.Version, p.Second.Version))
		}
	}
	return t
}
