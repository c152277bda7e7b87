package report

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// Of what must not happen it is told in how many trials it did: its fewest and most
// are no interval.
func TestFaultsAreNoIntervals(t *testing.T) {
	s := Scale{1, "changes"}
	x := record.Finding{Estimate: 9, Low: 0, High: 90, Blocks: 10, Verdict: record.VerdictReal, Trials: &record.FaultTrials{With: 1, Of: 10}}
	if got := Figure(x, s).S; got != "in 1 of 10 trials, at most 90" {
		t.Error(got)
	}
	if got := WithInterval(s, x); got != "in 1 of 10 trials, at most 90 changes" {
		t.Error(got)
	}
	x.Estimate, x.High, x.Trials.With = 0, 0, 0
	if got := WithInterval(s, x); got != "in none of 10 trials" {
		t.Error(got)
	}
}
