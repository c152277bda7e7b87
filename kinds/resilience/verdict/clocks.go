package verdict

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// clocksApart limits the clock difference between a node and the runner.
var clocksApart = verdict.Limit{Name: "clocks-apart", Default: 1, Unit: "ms",
	Doc: "maximum drift of a node's clock since its offset before the trial, which is subtracted from all times"}

func (c Clock) record() record.Clock {
	return record.Clock{AheadUS: record.Microseconds(c.Ahead), ErrorUS: record.Microseconds(c.Bound)}
}

// Apart returns the lower and upper bound of the largest clock error on the nodes, in microseconds,
// and the node of the upper bound. For a node whose clock was not compared again, only the error of
// the first comparison is known.
func (c Collected) Apart() (least, most float64, node string) {
	for _, name := range slices.Sorted(maps.Keys(c.Clocks)) {
		before := c.Clocks[name].record()
		after := before
		if again, asked := c.ClocksAfter[name]; asked {
			after = again.record()
		}
		_, worst, _ := verdict.Apart([]verdict.Clocks{{Before: before, After: after}})
		// The first offset was subtracted from all times, so the second comparison shows what
		// remains.
		least = max(least, math.Abs(after.AheadUS-before.AheadUS)-after.ErrorUS)
		if worst > most {
			most, node = worst, name
		}
	}
	return least, most, node
}

// checkClocks checks whether times of different nodes can be compared with each other and with the
// steps'. The result is unknown if the error bounds are wider than the limit.
func checkClocks(s *verdict.Sheet, c Collected, l verdict.Limits) {
	if len(c.ClocksAfter) == 0 { // no node answered, which Unmeasured states
		return
	}
	least, most, node := c.Apart()
	limit := l.Of(clocksApart) * 1e3
	s.Check(clocksApart.Name, least <= limit, "times of the pods' nodes were between %.0f and %.0f us off (node %s), once corrected; limit %.0f", least, most, node, limit)
	if least <= limit && most > limit {
		s.Warn(noteClocksApart, most/1e3)
	}
}
