package analysis

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		texts []string
		want  string
	}{
		{nil, ""},
		{[]string{"used 103% of it"}, "used 103% of it"},
		{[]string{"used 103% of it", "used 435% of it", "used 45% of it"}, "used 45–435% of it"},
		{[]string{"watch is -6.7 ms", "watch is -2.1 ms"}, "watch is -6.7 to -2.1 ms"},
		{[]string{"watch is -6.7 ms", "watch is 3 ms"}, "watch is -6.7 to 3 ms"},
		{[]string{"every 20ms", "every 20ms"}, "every 20ms"},
		{[]string{"b000-t01 lost 3 (38 of 40)", "b001-t02 lost 4 (39 of 40)"}, "b000-t01 lost 3–4 (38–39 of 40)"},
		{[]string{"3", "10"}, "3–10"},
		{[]string{"one 3", "one"}, "one 3"},
	} {
		if got := Spread(tt.texts); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.texts, got, tt.want)
		}
	}
}

// What many trials warned of is told once, with the worst of them.
func TestTrialWarnings(t *testing.T) {
	o := &Observations{}
	for i, w := range []string{"the simulated sidecars used 103% of the CPU that istiod used", "the simulated sidecars used 435% of the CPU that istiod used", "", "alone: 3 ms"} {
		trial := record.Trial{ID: []string{"b000-t00", "b000-t01", "b000-t02", "b000-t03"}[i]}
		if w != "" {
			trial.Validity.Warnings = []string{w, "asked every 20ms"}
		}
		o.Run.Trials = append(o.Run.Trials, trial)
	}
	got := strings.Join(o.trialWarnings(), "\n")
	if want := "2 of 4 trials, b000-t00 the first: the simulated sidecars used 103–435% of the CPU that istiod used\n" +
		"3 of 4 trials, b000-t00 the first: asked every 20ms\ntrial b000-t03: alone: 3 ms"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
