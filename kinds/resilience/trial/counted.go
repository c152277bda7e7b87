package trial

import (
	"context"
	"math"
	"time"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe"
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

// counted is how long CPU was counted, in seconds: from when the last node had its first
// look until the last look at any, by our clock. A node to which steps brought pods later
// began with them, and one that they left without any is read no more.
func (l *looks) counted() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := func(node string, s observe.MachineSample) int64 { return s.AtUnixNS - l.t.ahead[node] }
	earliest := int64(math.MaxInt64)
	for node, first := range l.machine[0] {
		earliest = min(earliest, at(node, first))
	}
	begun, ended := earliest, earliest
	for node, first := range l.machine[0] {
		if first := at(node, first); first-earliest < costEvery.Nanoseconds() {
			begun = max(begun, first)
		}
	}
	for node, last := range l.machine[1] {
		ended = max(ended, at(node, last))
	}
	return float64(max(ended-begun, 0)) / 1e9
}
