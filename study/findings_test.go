package study

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record/finding"
)

func TestFindingsAreDefinedWhole(t *testing.T) {
	for _, p := range Kinds() {
		for _, d := range p.Findings().All() {
			if d.Unit == "" || d.Probe == "" || !strings.HasSuffix(d.Doc, ".") || strings.Contains(d.Doc, "%!") {
				t.Errorf("%s: %+v lacks a unit, a probe or a sentence", p, d)
			}
			if d.Unit == finding.UnitLevel && d.Named() {
				t.Errorf("%s: a study file can name %s, whose unit only a factor has", p, d.Name)
			}
		}
	}
}

// A name means the same in every kind of study that has it, so that programs can read it from any
// run.
func TestFindingsOfOneNameHaveOneUnit(t *testing.T) {
	units := map[string]string{}
	for _, p := range Kinds() {
		for _, d := range p.Findings().All() {
			if u, ok := units[d.Name]; ok && u != d.Unit {
				t.Errorf("%s is in %s and in %s", d.Name, u, d.Unit)
			}
			units[d.Name] = d.Unit
		}
	}
}

func TestUnitsOfFiguresFollowTheFinding(t *testing.T) {
	for _, c := range []struct {
		name, unit string
		one        float64
		own, hint  string
	}{
		{"latency_p50", "ms", 1000, "us", ""},
		{"latency_p50_overhead", "us", 1, "us", ""},
		{"hop_tls_cpu_pods", "ms/request", 1000, "us/request", ""},
		{"cpu_server_proxy_saved_by_none", "ratio", 1, "ratio", ""},
		{"memory_worker", "MiB", 1 << 20, "bytes", ""},
		{"memory_worker", "ms", 0, "bytes", "possible: bytes, kB, MB, KiB, MiB"},
		{"money_month", "EUR/month", 0, "money", "possible: money"},
	} {
		one, own, complaint := (&Study{Kind: DataPlane}).scaleTo(c.name, c.unit)
		if own != c.own || complaint == nil && one != c.one || (complaint != nil) != (c.hint != "") || complaint != nil && complaint.Hint != c.hint {
			t.Errorf("%s in %s: %v of %s, %v; want %v of %s, %q", c.name, c.unit, one, own, complaint, c.one, c.own, c.hint)
		}
	}
}
