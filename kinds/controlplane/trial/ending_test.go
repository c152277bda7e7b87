package trial

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// A run that is told to end first takes away what its trial's changes made, and what the
// cell with the most EndpointSlices has of them.
func TestEnding(t *testing.T) {
	for slices, want := range map[string]time.Duration{"0": 7 * time.Minute, "[0, 30000]": 13 * time.Minute, "100000": 1480 * time.Second} {
		plan := studytest.Plan(t, "name: p\nquestion: q?\ncontrol: {}\n", "endpoint_slices="+slices)
		got, err := runner.Ending(t.Context(), &runner.Options{Study: plan.Study, Kind: Kind}, plan)
		if err != nil || got != want {
			t.Errorf("%s slices: %v, %v; want %v", slices, got, err, want)
		}
	}
}
