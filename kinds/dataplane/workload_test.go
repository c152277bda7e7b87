package dataplane

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A study without a window gets the default, which its resolved form includes.
func TestDefaults(t *testing.T) {
	s := planOf(t, generators).Study
	if c := Of(s); c.Window != 2*time.Second || c.Interval != 250*time.Millisecond || c.Workload.Response != study.Echo {
		t.Errorf("%+v", c)
	}
	if text := string(s.Marshal()); !strings.Contains(text, "window: 2s\n") || !strings.Contains(text, "response: echo") {
		t.Errorf("resolved:\n%s", text)
	}
}

// Recorded service times come from a file next to the study, and are inlined in the resolved one.
func TestRecordedTimes(t *testing.T) {
	s := planOf(t, generators+"workload: {service_time: {distribution: recorded, file: times.txt}}\n").Study
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
