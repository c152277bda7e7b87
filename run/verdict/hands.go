package verdict

import (
	"math"

	"github.com/meshtrial/meshtrial/record"
)

// Clocks are how the clock of one of several hands stood beside the first one's before
// they began, which was corrected, and after the window.
type Clocks struct {
	Pod           string
	Before, After record.Clock
}

// Apart is by how much clocks were apart at the least and at the most, microseconds,
// once corrected, and, in words, of whom the latter is.
func Apart(clocks []Clocks) (least, most float64, of string) {
	for _, c := range clocks {
		moved := math.Abs(c.After.AheadUS - c.Before.AheadUS)
		least = max(least, moved-c.Before.ErrorUS-c.After.ErrorUS)
		if apart := max(c.Before.ErrorUS, moved+c.After.ErrorUS); apart > most {
			most, of = apart, " (pod "+c.Pod+")"
		}
	}
	return least, most, of
}
