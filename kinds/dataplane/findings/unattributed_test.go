package findings

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
)

// What others use of the machine is told, from a tenth of it on.
func TestUnattributed(t *testing.T) {
	for _, c := range []struct {
		name   string
		nodes  int
		others float64 // CPUs used by others in each third trial
		want   string
	}{
		{"nobody", 1, 0, ""},
		{"a hog", 1, 1.2, "unattributed CPU: in 10 of 30 trials more than 10% of the machine's CPU time (up to "},
		{"several nodes", 3, 1.2, ""},
	} {
		w, n := analysistest.Quiet(), 0
		w.Spoil = func(trial *record.Trial) {
			if n++; n%3 == 0 {
				machine := trial.CPU[record.PartMachine]
				machine.UserS += c.others * trial.Window.Seconds
				trial.CPU[record.PartMachine] = machine
			}
		}
		run := analysistest.Simulate(t, analysistest.QuickStudy, 6, 2, w)
		run.Header.Machine.CPUs, run.Header.Machine.Nodes = 2, c.nodes
		got := strings.Join(analysistest.Analyze(t, kinds, run).Warnings, "\n")
		if strings.Contains(got, "unattributed CPU") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
