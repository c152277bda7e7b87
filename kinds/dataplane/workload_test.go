package dataplane

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// A study without a window gets the default, which its resolved form includes. Profiles take extra
// time, so only studies that name them have them.
func TestDefaults(t *testing.T) {
	s := studytest.Plan(t, generators).Study
	if c := Of(s); c.Window != 2*time.Second || c.Interval != 250*time.Millisecond || c.Workload.Response != study.Echo || s.Measured(study.MeasureProfile) {
		t.Errorf("%+v of %v", c, s.Measures)
	}
	if text := string(s.Marshal()); !strings.Contains(text, "window: 2s\n") || !strings.Contains(text, "response: echo") {
		t.Errorf("resolved:\n%s", text)
	}
}

// Recorded service times come from a file next to the study, and are inlined in the resolved one.
func TestRecordedTimes(t *testing.T) {
	s := studytest.Plan(t, generators+"workload: {service_time: {distribution: recorded, file: times.txt}}\n").Study
	got, err := s.WithFiles(func(name string) ([]byte, error) {
		return []byte("# measured\n1ms\n2.5ms # slow\n\n300us\n"), nil
	})
	must.OK(t, err)
	want := []time.Duration{time.Millisecond, 2500 * time.Microsecond, 300 * time.Microsecond}
	if v := Of(got).Workload.ServiceTime.Values; !slices.Equal(v, want) {
		t.Errorf("got %v", v)
	}
	if Of(s).Workload.ServiceTime.File == "" || Of(got).Workload.ServiceTime.File != "" {
		t.Error("the file's name stayed, or went from the original")
	}
	if again, err := study.Parse(got.Marshal(), "r.yaml", nil); err != nil || !slices.Equal(Of(again).Workload.ServiceTime.Values, want) {
		t.Errorf("resolved: %v", err)
	}
	_, err = s.WithFiles(func(string) ([]byte, error) { return []byte("1ms\n2\n"), nil })
	if err == nil || !strings.HasPrefix(err.Error(), `times.txt:2:1: "2" lacks a unit`) {
		t.Errorf("got %v", err)
	}
}

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
