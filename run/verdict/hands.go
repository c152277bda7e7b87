package verdict

import (
	"math"

	"github.com/meshtrial/meshtrial/record"
)

// Clocks has the offsets of one hand's clock from the first one's: before the start, which was
// corrected, and after the window.
type Clocks struct {
	Pod           string
	Before, After record.Clock
}

// Apart returns the minimum and the maximum difference between clocks after correction, in
// microseconds, and describes whose clock has the maximum.
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
