package dataplane

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// versusMeasure is a measure for comparing two levels of a factor.
type versusMeasure struct {
	name, words string
	saved       bool   // also used to compare filters
	part        string // the part measured; "" for none
}

var versusMeasures = slices.Concat(
	ofEachProxy("cpu_", "CPU per request of the "),
	[]versusMeasure{{"latency_p50", "median latency", true, ""}, {"latency_p99", "99th percentile of latency", false, ""}},
	ofEachProxy("memory_", "memory of the "))

// ofEachProxy returns a measure for each sidecar, used to compare versions and filters; filters
// only use the server's.
func ofEachProxy(name, words string) []versusMeasure {
	var out []versusMeasure
	for _, p := range record.Proxies {
		if p.Place.Shared() {
			continue
		}
		out = append(out, versusMeasure{name + p.Part, words + p.Name, p.Part == record.PartServerProxy, p.Part})
	}
	return out
}

// VersusMeasures lists the measures for comparing two levels of a factor.
func VersusMeasures() []string {
	out := make([]string, len(versusMeasures))
	for i, m := range versusMeasures {
		out[i] = m.name
	}
	return out
}

func (m versusMeasure) finding(words, level, doc, section string) finding.Def {
	return finding.Def{Name: m.name + words + level, Unit: finding.UnitRatio, Doc: doc, Row: m.words, Of: m.name, Part: m.part,
		Probe: study.ProbeVersus, Source: finding.FromVersus, Section: section, Signed: true}
}

// savedFindings returns shares of what cells with filters in the server's proxy use that are saved
// without them, or with a Lua script instead, as named by published figures.
func savedFindings() []finding.Def {
	var out []finding.Def
	for _, m := range versusMeasures {
		if m.name == "cpu_server_proxy" || m.name == "latency_p50" {
			out = append(out, m.finding(SavedBy, "none", "Share of the "+m.words+" that goes without the filters.", SectionFilters),
				m.finding(SavedBy, "lua", "Share of the "+m.words+" that goes with a Lua script in the filters' place.", SectionFilters))
		}
	}
	return out
}

// versusFindings returns the relative differences between two levels of a factor.
func versusFindings() []finding.Def {
	var out []finding.Def
	for _, m := range versusMeasures {
		out = append(out, m.finding(ChangeSince, "*", "Share by which the "+m.words+" grew since that version of Envoy.", SectionVersions))
		if m.saved {
			out = append(out, m.finding(SavedBy, "*", "Share of the "+m.words+" that goes with that filter in the filters' place.", SectionFilters))
		}
	}
	return out
}
