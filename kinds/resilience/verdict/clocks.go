package verdict

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// clocksApart bounds how far times that were written on a node may be off beside ours.
var clocksApart = verdict.Limit{Name: "clocks-apart", Default: 1, Unit: "ms",
	Doc: "how far the clock of a node may be from where it stood before the trial, which is taken off all times"}

func (c Clock) record() record.Clock {
	return record.Clock{AheadUS: record.Microseconds(c.Ahead), ErrorUS: record.Microseconds(c.Bound)}
}

// Apart is by how much times that were written on the nodes are off at the least and at
// the most, microseconds, and the node of the latter. Of one that was not asked again only
// the error of the first comparison is known.
func (c Collected) Apart() (least, most float64, node string) {
	for _, name := range slices.Sorted(maps.Keys(c.Clocks)) {
		before := c.Clocks[name].record()
		after := before
		if again, asked := c.ClocksAfter[name]; asked {
			after = again.record()
		}
		_, worst, _ := verdict.Apart([]verdict.Clocks{{Before: before, After: after}})
		// What was taken off is known, so that the second comparison alone says what that left.
		least = max(least, math.Abs(after.AheadUS-before.AheadUS)-after.ErrorUS)
		if worst > most {
			most, node = worst, name
		}
	}
	return least, most, node
}

// checkClocks says whether times of different nodes may be set beside each other, and
// beside the steps'. Where the bounds of errors are wider than the limit nobody knows.
func checkClocks(s *verdict.Sheet, c Collected, l verdict.Limits) {
	if len(c.ClocksAfter) == 0 { // nobody answered, of which Unmeasured tells
		return
	}
	least, most, node := c.Apart()
	limit := l.Of(clocksApart) * 1e3
	s.Check(clocksApart.Name, least <= limit, "times of the pods' nodes were between %.0f and %.0f us off (node %s), once corrected; limit %.0f", least, most, node, limit)
	if least <= limit && most > limit {
		s.Warn(noteClocksApart, most/1e3)
	}
}
