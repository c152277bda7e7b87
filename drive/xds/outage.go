package xds

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// Outage is what became of the proxies' streams from a moment on. Times are
// nanoseconds since 1970.
type Outage struct {
	SinceUnixNS int64 `json:"since_unix_ns"`
	NowUnixNS   int64 `json:"now_unix_ns"`
	// LostNS is when each proxy lost its stream first, Never if it did not; BackNS
	// when it had all of its configuration again after the latest loss, Never while
	// it has not.
	LostNS record.Times `json:"lost_unix_ns"`
	BackNS record.Times `json:"back_unix_ns"`
	// Absent are the proxies that had no stream when it began, by their index.
	Absent []int32 `json:"absent,omitempty"`
	// Losses counts streams that had been answered and ended; Ended counts all
	// that ended or never came about, by why.
	Losses int64            `json:"losses"`
	Ended  map[string]int64 `json:"ended,omitempty"`
	// Down is how long proxies were without all of their configuration, from the
	// loss of a stream, microseconds, over all losses that are over.
	Down record.Counted `json:"down_us"`
	// DownCounts is what these are of, by bucket of a histogram.
	DownCounts []int64 `json:"down_counts,omitempty"`
}

// Over says that every proxy has lost its stream, if it had one, and has all of its
// configuration again.
func (o Outage) Over() bool {
	for i, lost := range o.LostNS {
		if lost == record.Never && !o.spared(i) || lost != record.Never && o.BackNS[i] == record.Never {
			return false
		}
	}
	return true
}

// Spared counts the proxies that lost no stream since, because they had none.
func (o Outage) Spared() (n int) {
	for i, lost := range o.LostNS {
		if lost == record.Never && o.spared(i) {
			n++
		}
	}
	return n
}

// spared says that a proxy that lost no stream had none at the beginning: it is known
// to have been absent, or came back from an earlier loss.
func (o Outage) spared(i int) bool {
	return slices.Contains(o.Absent, int32(i)) || o.BackNS[i] != record.Never
}

// outage notes one. A nil one notes nothing.
type outage struct {
	since      int64
	lost, back []atomic.Int64 // by proxy; 0: not yet
	losses     atomic.Int64
	down       histogram
	ended      map[string]int64 // before
	absent     []int32
}

// BeginOutage notes from now on what becomes of the proxies' streams, in place
// of what was noted before. From then on proxies come back as real ones do: each
// by itself, after Envoy's back-off, and not as willingly as istiod admits them.
// drop ends all connections at once, as a network does that breaks.
func (f *Fleet) BeginOutage(drop bool) Outage {
	f.gate.widen()
	o := &outage{since: time.Now().UnixNano(), lost: make([]atomic.Int64, len(f.proxies)), back: make([]atomic.Int64, len(f.proxies)), ended: f.ended(), absent: f.absent()}
	f.outage.Store(o)
	if drop {
		f.gate.dropAll()
	}
	begun, _ := f.Outage()
	return begun
}

// Outage returns what has been noted since it began; false if none did.
func (f *Fleet) Outage() (Outage, bool) {
	o := f.outage.Load()
	if o == nil {
		return Outage{}, false
	}
	out := Outage{SinceUnixNS: o.since, NowUnixNS: time.Now().UnixNano(), Losses: o.losses.Load(), Ended: map[string]int64{},
		LostNS: timesOf(o.lost), BackNS: timesOf(o.back), Absent: o.absent}
	for why, n := range f.ended() {
		if rise := n - o.ended[why]; rise > 0 {
			out.Ended[why] = rise
		}
	}
	down := o.down.take(false)
	out.Down, out.DownCounts = down.counted(), down.short()
	return out, true
}

func timesOf(all []atomic.Int64) record.Times {
	out := make(record.Times, len(all))
	for i := range all {
		if out[i] = all[i].Load(); out[i] == 0 {
			out[i] = record.Never
		}
	}
	return out
}

// absent are the proxies that have lost their stream and have no other yet.
func (f *Fleet) absent() []int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.waiting))
}

// ended is a copy of how many streams were lost by why.
func (f *Fleet) ended() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]int64, len(f.reconnects))
	for why, n := range f.reconnects {
		out[why] = n
	}
	return out
}

// loses notes that a proxy which was connected lost its stream.
func (o *outage) loses(proxy int32, at int64) {
	if o == nil {
		return
	}
	o.losses.Add(1)
	o.back[proxy].Store(0)
	o.lost[proxy].CompareAndSwap(0, at)
}

// returns notes that a proxy has everything, which was without since an instant;
// 0: since it connected first.
func (o *outage) returns(proxy int32, since, at int64) {
	if o == nil {
		return
	}
	o.back[proxy].Store(at)
	if since > 0 {
		o.down.add(at - since)
	}
}

// widen lets every proxy connect when it wants to.
func (g *gate) widen() {
	g.mu.Lock()
	g.wide = true
	g.mu.Unlock()
	g.poke()
}

// dropAll ends all connections.
func (g *gate) dropAll() {
	g.mu.Lock()
	links := make([]*link, 0, len(g.links))
	for l := range g.links {
		links = append(links, l)
	}
	g.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}
