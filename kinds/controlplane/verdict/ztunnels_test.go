package verdict

import (
	"math"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/record"
)

// A sidecar has a change when it shows its own markers, and a ztunnel when it shows those for
// ztunnels, whatever other proxies show.
func TestAccountOfZtunnels(t *testing.T) {
	markers := []record.Marker{{Type: "eds", Resource: "outbound|80||a", Text: "10.0.0.1", Gone: true}, {Type: "wds", Text: "10.0.0.1", Gone: true},
		{Type: "eds", Resource: "outbound|80||a", Text: "10.0.0.2"}, {Type: "wds", Text: "10.0.0.2"}}
	e := Evidence{EndNS: committedAt + 10e9, Changes: []record.Event{change(0, "Pod/a/x", markers...), change(1, "VirtualService/a/v", record.Marker{Type: "rds", Text: "v"})}}
	e.Audience = Audience{Simulated: 4, Scopes: []churn.Scope{{Sidecars: true, Ztunnels: true}, {Sidecars: true}},
		Proxies: []Proxy{{Type: population.Sidecar}, {Type: population.Sidecar}, {Type: population.Ztunnel}, {Type: population.Ztunnel}}}
	e.Markers = append(e.Markers,
		saw(0, 0, true, map[int32]int64{0: 1000, 1: 1000}), saw(1, 0, true, map[int32]int64{2: 2000, 3: 2000}),
		saw(2, 0, false, map[int32]int64{0: 3000}), saw(3, 0, false, map[int32]int64{2: 4000}),
		saw(4, 1, false, map[int32]int64{0: 1000, 1: 1000}))
	events, sum := e.accountant().of(e.Changes...)
	if !sum.balanced() || sum.expected != 6 || sum.seen != 4 || sum.missed != 2 || sum.unneeded != 0 {
		t.Errorf("%+v", sum)
	}
	if s := events[0].Seen; !slices.Equal(s.Proxy, []int32{0, 2}) || !slices.Equal(events[0].Missed, []int32{1, 3}) {
		t.Errorf("%+v, missed by %v", s, events[0].Missed)
	}
	// Each sidecar holds the old address from its end until it drops it, 6 ms later by a clock that
	// is ahead. What ztunnels hold does not count.
	if math.Abs(sum.stale-0.012) > 1e-9 {
		t.Errorf("stale for %.4f s", sum.stale)
	}

	r := &ruling{seen: e, events: events}
	kept := r.withoutZtunnels()
	if got := kept[0]; len(got.Markers) != 2 || !slices.Equal(got.Seen.Proxy, []int32{0}) || len(events[0].Markers) != 4 || len(events[0].Seen.Proxy) != 2 {
		t.Errorf("%+v of %+v", got, events[0])
	}
}
