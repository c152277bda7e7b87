package gather

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/record"
)

// locks_waiting is the mean over all trials with mutex profiles, in any order: replicas
// of one trial add up, and a trial without profiles does not count.
func TestLocksWaitingIsOfAllTrials(t *testing.T) {
	trial := func(waiting ...float64) *record.Trial {
		c := &record.Control{}
		for _, w := range waiting {
			c.Profiles = append(c.Profiles, record.Profile{Kind: "mutex", Total: int64(w * 5e9), Seconds: 5},
				record.Profile{Kind: "cpu", Total: 9e9, Seconds: 5})
		}
		return &record.Trial{Window: record.Window{Seconds: 10}, Control: c}
	}
	trials := []*record.Trial{trial(6), trial(1, 2), trial(), trial(0)}
	for range trials {
		out := map[*advice.Quantity]float64{}
		facts(trials, out)
		if got, ok := out[advice.LocksWaiting]; !ok || got != 3 {
			t.Errorf("locks_waiting is %v, want the mean of 6, 1+2 and 0", got)
		}
		trials = slices.Concat(trials[1:], trials[:1])
	}
	out := map[*advice.Quantity]float64{}
	facts([]*record.Trial{trial()}, out)
	if got, ok := out[advice.LocksWaiting]; ok {
		t.Errorf("without profiles locks_waiting is %v", got)
	}
}
