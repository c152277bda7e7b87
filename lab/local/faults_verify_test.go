//go:build verify

package local_test

import (
	"testing"

	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestKills kills parts of labs at random moments, thirty times. A lab whose
// parts die recovers; one whose init or whose `lab up` dies is gone
// immediately. After each `lab down` nothing is left.
func TestKills(t *testing.T) {
	random := chance(t)
	b := newBench(t)
	for round := range 5 {
		t.Logf("round %d", round)
		l := b.up(t)
		status, err := local.GetStatus("")
		must.OK(t, err)
		killParts(t, l, random)
		killNode(t)
		b.down(t, status.ID)
		b.killStart(t, random)
	}
}
