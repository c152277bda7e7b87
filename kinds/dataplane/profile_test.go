package dataplane

import (
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const withProfile = `
name: x
question: y?
settings: {rate: 100}
factors: {sidecars: [none, both]}
measures: [cpu, profile]
`

func TestProfileSection(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Profiling
		complaint  string
	}{
		{name: "left out", want: DefaultProfiling()},
		{name: "defaults", text: "profile: {}\n", want: DefaultProfiling()},
		{name: "as published", text: "profile: {hz: 19, length: 120s}\n", want: Profiling{Hz: 19, Length: 2 * time.Minute, Graph: GraphFP}},
		{name: "by debug information", text: "profile: {graph: dwarf}\n", want: Profiling{Hz: 99, Length: 10 * time.Second, Graph: GraphDwarf}},
		{name: "no rate", text: "profile: {hz: 0}\n", complaint: "hz"},
		{name: "too short", text: "profile: {length: 10ms}\n", complaint: "length"},
		{name: "another graph", text: "profile: {graph: lbr}\n", complaint: "lbr"},
		{name: "copies of stacks that would fill the disk", text: "profile: {graph: dwarf, hz: 1000, length: 2m}\n", complaint: "1.9 GiB for each busy core"},
		{name: "a misspelt field", text: "profile: {herz: 19}\n", complaint: "herz"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := study.Parse([]byte(withProfile+c.text), "study.yaml", nil)
			if c.complaint != "" {
				if err == nil || !strings.Contains(err.Error(), c.complaint) && !strings.Contains(errs.Hint(err), c.complaint) {
					t.Errorf("%v, want something about %s", err, c.complaint)
				}
				return
			}
			must.OK(t, err)
			if ProfilingOf(s) != c.want || !s.Measured(study.MeasureProfile) {
				t.Errorf("%+v, want %+v", ProfilingOf(s), c.want)
			}
			again, err := study.Parse(s.Marshal(), "resolved.yaml", nil)
			if err != nil || ProfilingOf(again) != c.want {
				t.Errorf("resolved and read again: %+v, %v", again, err)
			}
		})
	}
}

// Profiles take extra time, so only studies that name them have them.
func TestProfileIsNoDefault(t *testing.T) {
	s, err := study.Parse([]byte(strings.Replace(withProfile, "measures: [cpu, profile]\n", "", 1)), "study.yaml", nil)
	if err != nil || s.Measured(study.MeasureProfile) {
		t.Errorf("%v %v", s.Measures, err)
	}
}
