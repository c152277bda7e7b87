package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// A finding's warning names it; a warning of many findings is one line,
// whatever the units of their figures.
var (
	testFew  = note.Define("test_few", "only %d blocks")
	testLate = note.Define("test_late", "%d of %d late")
)

func TestWarningsNameTheirFindings(t *testing.T) {
	at := func(v string) record.Cell { return record.Cell{"variant": v} }
	difference := func(name, variant string, warnings ...note.Note) record.Finding {
		return record.Finding{Name: name + "_overhead", Cell: at(variant), Against: at("none"), Verdict: record.VerdictInconclusive, Warnings: warnings}
	}
	few := testFew.Of(2)
	var many []record.Finding
	for _, name := range []string{"pushes", "convergence_p90", "istiod_heap", "config_bytes"} {
		many = append(many, difference(name, "sidecar", few))
	}
	wide := func(name, variant, margin string) record.Finding {
		x := difference(name, variant)
		x.Because(record.ReasonIncludesZero, stat.IncludesZero.Of(margin))
		return x
	}
	noise := difference("pushes", "sidecar")
	noise.Verdict = record.VerdictNoEffect
	noise.Because(record.ReasonWithinMargin, stat.WithinMargin.Of("21 ms"))
	for _, tt := range []struct {
		name     string
		findings []record.Finding
		want     []string
	}{
		{"one", []record.Finding{wide("convergence_p99", "sidecar", "21 ms")},
			[]string{"difference of convergence p99 with sidecar: the interval includes zero and reaches beyond the margin of 21 ms"}},
		{"units", []record.Finding{wide("convergence_p99", "sidecar", "21 ms"),
			wide("istiod_memory", "sidecar", "2 MB"),
			wide("istiod_memory", "slow", "2 kB")},
			[]string{"the interval includes zero (difference of convergence p99 with sidecar and difference of istiod memory with sidecar and slow)"}},
		{"many", append(many, record.Finding{Name: "missed", Cell: record.Cell{"proxies": "50"}, Warnings: []note.Note{note.Plain("3 of 7 pairs")}}),
			[]string{"only 2 blocks (4 findings, the first difference of pushes with sidecar)", "changes that proxies never saw with proxies 50: 3 of 7 pairs"}},
		{"range", []record.Finding{{Name: "pushes", Cell: at("none"), Warnings: []note.Note{testLate.Of(2, 9)}}, {Name: "pushes", Cell: at("slow"), Warnings: []note.Note{testLate.Of(4, 9)}}},
			[]string{"2–4 of 9 late (pushes with none and slow)"}},
		{"in the tables", []record.Finding{noise}, nil},
	} {
		got := Kind{Findings: study.ControlPlane.Findings()}.warnings(record.Findings{Findings: tt.findings})
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}
