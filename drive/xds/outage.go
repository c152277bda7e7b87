package xds

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// Outage records what happened to the proxies' streams since a given time. Times are
// nanoseconds since 1970.
type Outage struct {
	SinceUnixNS int64 `json:"since_unix_ns"`
	NowUnixNS   int64 `json:"now_unix_ns"`
	// LostNS is when each proxy first lost its stream, Never if it did not. BackNS
	// is when it had all of its configuration again after its latest loss, Never if
	// it has not.
	LostNS record.Times `json:"lost_unix_ns"`
	BackNS record.Times `json:"back_unix_ns"`
	// Absent are the proxies without a stream when it began, by index.
	Absent []int32 `json:"absent,omitempty"`
	// Losses counts ended streams that had been answered; Ended counts all that
	// ended or were never established, by reason.
	Losses int64            `json:"losses"`
	Ended  map[string]int64 `json:"ended,omitempty"`
	// Down is how long proxies lacked some of their configuration after the loss of a
	// stream, in microseconds, over all completed losses.
	Down record.Counted `json:"down_us"`
	// DownCounts are the counts of Down's histogram.
	DownCounts []int64 `json:"down_counts,omitempty"`
}

// Over reports whether every proxy lost its stream, if it had one, and has all of its
// configuration again.
func (o Outage) Over() bool {
	for i, lost := range o.LostNS {
		if lost == record.Never && !o.spared(i) || lost != record.Never && o.BackNS[i] == record.Never {
			return false
		}
	}
	return true
}

// Spared returns the number of proxies that lost no stream because they had none.
func (o Outage) Spared() (n int) {
	for i, lost := range o.LostNS {
		if lost == record.Never && o.spared(i) {
			n++
		}
	}
	return n
}

// spared reports whether a proxy that lost no stream had none at the beginning: it was
// absent, or came back from an earlier loss.
func (o Outage) spared(i int) bool {
	return slices.Contains(o.Absent, int32(i)) || o.BackNS[i] != record.Never
}

// outage records an [Outage]. A nil one records nothing.
type outage struct {
	since      int64
	lost, back []atomic.Int64 // by proxy; 0: not yet
	losses     atomic.Int64
	down       histogram
	ended      map[string]int64 // before the outage
	absent     []int32
}

// BeginOutage starts a new record of what happens to the proxies' streams. From then on
// proxies reconnect as real ones do, each after Envoy's back-off, instead of as fast as
// istiod admits them. If drop is set, it closes all connections, as a network failure
// does.
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

// Outage returns the record so far; false if there is none.
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

// absent returns the proxies without a stream.
func (f *Fleet) absent() []int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.waiting))
}

// ended returns the number of lost streams, by reason.
func (f *Fleet) ended() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.reconnects)
}

// loses records that a connected proxy lost its stream.
func (o *outage) loses(proxy int32, at int64) {
	if o == nil {
		return
	}
	o.losses.Add(1)
	o.back[proxy].Store(0)
	o.lost[proxy].CompareAndSwap(0, at)
}

// returns records that a proxy has everything, after lacking something since an instant;
// 0: since it first connected.
func (o *outage) returns(proxy int32, since, at int64) {
	if o == nil {
		return
	}
	o.back[proxy].Store(at)
	if since > 0 {
		o.down.add(at - since)
	}
}

// widen removes the limit on connecting.
func (g *gate) widen() {
	g.mu.Lock()
	g.wide = true
	g.mu.Unlock()
	g.poke()
}

// dropAll closes all connections.
func (g *gate) dropAll() {
	for _, l := range g.allLinks() {
		l.close()
	}
}
