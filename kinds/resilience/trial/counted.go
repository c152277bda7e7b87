package trial

import (
	"context"
	"math"
	"time"

	"github.com/meshtrial/meshtrial/internal/wake"
)

// costLead is how long before the timeline CPU begins to be counted: the first look also
// reads who else is on the machine, which takes some tens of milliseconds, and is not to
// be in the way of the first requests.
const costLead = 100 * time.Millisecond

// count looks at the counters until ctx ends, from right before the timeline on: what runs
// while nobody sends anything is no part of what requests take.
func (l *looks) count(ctx context.Context, look func(context.Context) error) {
	begin := l.t.zero.Add(-costLead)
	if wake.Pause(ctx, time.Until(begin)) != nil {
		return
	}
	l.host = l.t.Host() // ahead of the counters
	l.every(ctx, ofCounters, begin, costEvery, look)
}

// counted is how long CPU was counted, in seconds: from the first look to the last, of the
// node where that was shortest. Nodes to which steps brought pods later are not asked.
func (l *looks) counted() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	shortest, began := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, first := range l.machine[0] {
		began = min(began, first.AtUnixNS)
	}
	for node, last := range l.machine[1] {
		first := l.machine[0][node].AtUnixNS
		if first-began < costEvery.Nanoseconds() {
			shortest = min(shortest, last.AtUnixNS-first)
		}
	}
	if shortest == math.MaxInt64 {
		return 0
	}
	return float64(shortest) / 1e9
}
