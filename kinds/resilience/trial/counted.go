package trial

import (
	"context"
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

// counted is how long CPU was counted, in seconds: from the first look to the last.
func (l *looks) counted() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	longest := int64(0)
	for node, last := range l.machine[1] {
		longest = max(longest, last.AtUnixNS-l.machine[0][node].AtUnixNS)
	}
	return float64(longest) / 1e9
}
