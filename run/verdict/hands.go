package verdict

import (
	"math"

	"github.com/meshtrial/meshtrial/record"
)

// Clocks are the offsets of one hand's clock from the first one's before they began, which was
// corrected, and after the window.
type Clocks struct {
	Pod           string
	Before, After record.Clock
}

// Apart is by how much clocks were apart at the least and at the most, microseconds, after
// correction, and in words whose clock the latter is.
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
