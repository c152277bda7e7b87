package verdict

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
)

const committedAt = int64(1_700_000_000_000_000_000)

// change returns an event as the driver leaves it, committed i seconds after committedAt.
func change(i int, object string, markers ...record.Marker) record.Event {
	for m := range markers {
		markers[m].Change = i
	}
	return record.Event{Change: i, Object: object, Markers: markers, CommittedNS: committedAt + int64(i)*int64(time.Second)}
}

// saw returns the sightings of a marker by proxies, in microseconds after the commit, by a clock
// that is 5 ms ahead of ours; acknowledged 100 us later.
func saw(marker, change int, gone bool, us map[int32]int64) xds.MarkerSightings {
	s := xds.MarkerSightings{Change: change, Marker: marker, Gone: gone, Columns: xds.Columns{Proxy: []int32{}, ReceivedNS: []int64{}, AckedNS: []int64{}}}
	for p := range int32(100) {
		if at, ok := us[p]; ok {
			ns := committedAt + int64(change)*int64(time.Second) + at*1000 + int64(5*time.Millisecond)
			s.Proxy, s.ReceivedNS, s.AckedNS = append(s.Proxy, p), append(s.ReceivedNS, ns), append(s.AckedNS, ns+100_000)
		}
	}
	return s
}

// witnessed returns an accountant of some simulated proxies that need all changes.
func witnessed(proxies int, markers ...xds.MarkerSightings) *accountant {
	return &accountant{needs: func(int, int32) bool { return true }, Evidence: Evidence{Markers: markers, Clock: Clock{Ahead: 5 * time.Millisecond}, EndNS: committedAt + int64(10*time.Second),
		Audience: Audience{Simulated: proxies, Proxies: make([]Proxy, proxies)}}}
}

// of returns the account of some changes.
func (a *accountant) of(changes ...record.Event) ([]record.Event, changeAccount) {
	a.Changes = changes
	return a.account(), a.sum
}

func TestAccount(t *testing.T) {
	events := []record.Event{
		change(0, "Service/a/x", record.Marker{Type: "cds", Text: "x0"}),
		change(1, "Service/a/y", record.Marker{Type: "cds", Text: "y1"}, record.Marker{Type: "eds", Text: "10.0.0.1", Gone: true}),
		change(2, "Service/a/x", record.Marker{Type: "cds", Text: "x2"}),
		change(3, "Service/a/none"), // shows nowhere
		change(4, "Service/a/failed", record.Marker{Type: "cds", Text: "f"}),
	}
	events[4].Error, events[4].CommittedNS = "refused", 0
	w := witnessed(3,
		saw(0, 0, false, map[int32]int64{0: 900, 1: 300}),          // 2 sees it only with change 2
		saw(1, 1, false, map[int32]int64{0: 1000, 1: 2000}),        // 2 never sees it
		saw(2, 1, true, map[int32]int64{0: 500_000, 2: 1_000_000}), // 1 sees only half of it
		saw(3, 2, false, map[int32]int64{0: 10, 1: 20, 2: -30}),
	)
	w.Markers[3].AckedNS[1] = record.Never
	got, sum := w.of(events...)
	if !sum.balanced() {
		t.Errorf("does not balance: %v", sum)
	}
	want := sum
	want.planned, want.committed, want.failed = 5, 4, 1
	want.expected, want.seen, want.missed, want.superseded, want.unacked = 9, 6, 2, 1, 1
	want.due, want.lacking, want.silent = 9, 2, 1
	if sum != want {
		t.Errorf("got %+v", sum)
	}
	// Proxy 1 holds the endpoint to the end, 9 s after the commit; 0 for half a second, 2 for one,
	// whatever else it lacks.
	if sum.stale < 10.49 || sum.stale > 10.51 {
		t.Errorf("stale for %.3f s", sum.stale)
	}
	if s := got[0].Seen; !slices.Equal(s.Proxy, []int32{1, 0}) || !slices.Equal(s.ReceivedUS, []int64{300, 900}) || !slices.Equal(s.AckedUS, []int64{400, 1000}) || s.AppliedUS != nil {
		t.Errorf("change 0: %+v", s)
	}
	if got[0].Superseded != 1 || got[0].Missed != nil || got[0].Expected != 3 {
		t.Errorf("change 0: %+v", got[0])
	}
	if !slices.Equal(got[1].Missed, []int32{1, 2}) || !slices.Equal(got[1].Seen.ReceivedUS, []int64{500_000}) {
		t.Errorf("change 1: %+v", got[1])
	}
	if s := got[2].Seen; !slices.Equal(s.Proxy, []int32{2, 0, 1}) || !slices.Equal(s.AckedUS, []int64{70, 110, record.Never}) {
		t.Errorf("change 2: %+v", s)
	}
	if got[3].Expected != 0 || got[4].Expected != 0 || len(got[4].Seen.Proxy) != 0 {
		t.Errorf("a change that shows nowhere %+v, or was not made %+v", got[3], got[4])
	}
	if events[0].Expected != 0 {
		t.Error("the driver's own events were changed")
	}
}

func TestAccountScope(t *testing.T) {
	w := witnessed(2, saw(0, 0, false, map[int32]int64{0: 100, 1: 100}))
	w.needs = func(_ int, p int32) bool { return p == 1 }
	w.Markers[0].Unknown = 4
	events, sum := w.of(change(0, "a", record.Marker{Type: "cds", Text: "x"}))
	if sum.unneeded != 1 || sum.expected != 1 || sum.seen != 1 || sum.unsearched != 4 || !slices.Equal(events[0].Seen.Proxy, []int32{1}) {
		t.Errorf("%+v, %+v", sum, events[0])
	}
}

func TestAccountRealEnvoys(t *testing.T) {
	w := witnessed(3, saw(0, 0, false, map[int32]int64{0: 100}))
	w.Audience.Simulated = 1
	w.Envoys = []xds.MarkerSightings{{Columns: xds.Columns{Proxy: []int32{2, 1}, ReceivedNS: []int64{committedAt + 50_000, committedAt + 7_000_000}, AckedNS: record.Times{record.Never, record.Never}}}}
	events, sum := w.of(change(0, "a", record.Marker{Type: "cds", Text: "x"}))
	s := events[0].Seen
	if sum.seen != 3 || sum.unacked != 0 || sum.silent != 0 || sum.due != 1 {
		t.Errorf("%+v", sum)
	}
	// For an Envoy only the time is known when it had the change in force.
	if !slices.Equal(s.Proxy, []int32{2, 0, 1}) || !slices.Equal(s.AppliedUS, []int64{50, record.Never, 7000}) ||
		!slices.Equal(s.ReceivedUS, []int64{record.Never, 100, record.Never}) || !slices.Equal(s.AckedUS, []int64{record.Never, 200, record.Never}) {
		t.Errorf("%+v", s)
	}
}

// What deliberately misbehaving proxies lack is reported, and not waited for.
func TestAccountMisbehaving(t *testing.T) {
	w := witnessed(4, saw(0, 0, false, map[int32]int64{0: 100, 1: 100, 2: 100}))
	w.Markers[0].AckedNS[1], w.Markers[0].AckedNS[2] = record.Never, record.Never
	w.bad = map[int32]bool{2: true, 3: true}
	_, sum := w.of(change(0, "a", record.Marker{Type: "cds", Text: "x"}))
	if sum.unacked != 2 || sum.silent != 1 || sum.missed != 1 || sum.lacking != 0 || sum.due != 2 {
		t.Errorf("%+v", sum)
	}
}

// What arrives after the trial stopped observing does not count.
func TestAccountEnd(t *testing.T) {
	w := witnessed(3, saw(0, 0, false, map[int32]int64{0: 9_999_950, 1: 9_999_800, 2: 10_000_001}))
	events, sum := w.of(change(0, "a", record.Marker{Type: "cds", Text: "x"}))
	if sum.seen != 2 || sum.missed != 1 || sum.unacked != 1 || !slices.Equal(events[0].Missed, []int32{2}) || !slices.Equal(events[0].Seen.AckedUS, []int64{9_999_900, record.Never}) {
		t.Errorf("%+v, %+v", sum, events[0])
	}
}

// Whatever proxies see of any changes, each pair of a change and a proxy that needs it is counted
// once.
func TestAccountBalances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		proxies := rapid.IntRange(0, 5).Draw(t, "proxies")
		n := rapid.IntRange(0, 8).Draw(t, "changes")
		var events []record.Event
		w := witnessed(proxies)
		for i := range n {
			var markers []record.Marker
			for range rapid.IntRange(0, 2).Draw(t, "markers") {
				gone := rapid.Bool().Draw(t, "gone")
				markers = append(markers, record.Marker{Type: "eds", Text: "x", Gone: gone})
				us := map[int32]int64{}
				for p := range int32(proxies) {
					if rapid.Bool().Draw(t, "saw") {
						us[p] = rapid.Int64Range(-1000, 1e6).Draw(t, "us")
					}
				}
				w.Markers = append(w.Markers, saw(len(w.Markers), i, gone, us))
			}
			e := change(i, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "object"), markers...)
			if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
				e.Error, e.CommittedNS = "no", 0
			}
			events = append(events, e)
		}
		w.needs = func(c int, p int32) bool { return (c+int(p))%3 > 0 }
		out, sum := w.of(events...)
		if !sum.balanced() || sum.planned != n || sum.stale < 0 {
			t.Fatalf("%+v", sum)
		}
		for _, e := range out {
			once := map[int32]bool{}
			for _, p := range append(slices.Clone(e.Seen.Proxy), e.Missed...) {
				if once[p] {
					t.Fatalf("proxy %d twice in %+v", p, e)
				}
				once[p] = true
			}
			if e.Expected != len(e.Seen.Proxy)+len(e.Missed)+e.Superseded {
				t.Fatalf("%+v", e)
			}
			if !slices.IsSorted(e.Seen.ReceivedUS) {
				t.Fatalf("not in order: %v", e.Seen.ReceivedUS)
			}
		}
	})
}

// The account fails if the driver or the simulated proxies do not report what was planned.
func TestAccountIsOfThePlan(t *testing.T) {
	well := func() Evidence {
		mark := []record.Marker{{Type: "cds", Text: "x"}}
		e := Evidence{Audience: Audience{Simulated: 2, Proxies: make([]Proxy, 2), Scopes: make([]churn.Scope, 3)}}
		for i := range 3 {
			e.Changes = append(e.Changes, record.Event{Change: i, CommittedNS: int64(i + 1), Markers: mark})
			e.Markers = append(e.Markers, xds.MarkerSightings{Change: i})
		}
		return e
	}
	for name, tt := range map[string]struct {
		edit func(*Evidence)
		want string
	}{
		"all is there":       {func(*Evidence) {}, ""},
		"one has failed":     {func(e *Evidence) { e.Changes[1].Error, e.Markers = "refused", e.Markers[1:] }, "1 changes were not watched for"},
		"one failed, unseen": {func(e *Evidence) { e.Changes[0].Error, e.Markers = "refused", e.Markers[1:] }, ""},
		"no simulated ones":  {func(e *Evidence) { e.Audience.Simulated, e.Markers = 0, nil }, ""},
		"one is lost":        {func(e *Evidence) { e.Changes = e.Changes[:2] }, "1 planned changes are not reported"},
		"one came twice":     {func(e *Evidence) { e.Changes[2].Change, e.Markers = 1, e.Markers[:2] }, "1 planned changes are not reported; 1 changes are reported twice"},
		"simulators forgot":  {func(e *Evidence) { e.Markers = nil }, "3 changes were not watched for by all of their markers"},
	} {
		e := well()
		tt.edit(&e)
		if got := e.unaccounted(); got != tt.want && (tt.want == "" || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: %q", name, got)
		}
		r := &ruling{seen: e}
		if r.account(); checks(r)["account"].OK != (tt.want == "") {
			t.Errorf("%s: %+v", name, checks(r)["account"])
		}
	}
}

// balanced reports whether every change and every need of one has exactly one outcome.
func (t changeAccount) balanced() bool {
	return t.planned == t.committed+t.failed && t.expected == t.seen+t.missed+t.superseded
}

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

// A Sidecar resource keeps changes in other namespaces from the sidecars that it applies to.
func TestNeeds(t *testing.T) {
	a := Audience{ExportTo: "*", EgressHosts: []string{"./*"}, Namespaces: []string{"mm-1"}, Workload: "svc-1",
		Proxies: []Proxy{
			{Type: population.Sidecar, Namespace: "mm-1", Workload: "svc-1"},
			{Type: population.Sidecar, Namespace: "mm-1", Workload: "svc-4"},
			{Type: population.Sidecar, Namespace: "mm-0", Workload: "svc-0"},
			{Type: population.Router, Namespace: "gateways"},
		},
		Scopes: []churn.Scope{{Sidecars: true, Gateways: true, Owner: "mm-2"}, {Sidecars: true, Owner: "mm-1"}}}
	for _, tt := range []struct {
		scope     string
		elsewhere [4]bool // which proxies need a change in a namespace without proxies
		own       [4]bool // of mm-1, for sidecars
	}{
		{controlplane.SidecarScopeNone, [4]bool{true, true, true, true}, [4]bool{true, true, true, false}},
		{controlplane.SidecarScopeMesh, [4]bool{false, false, false, true}, [4]bool{true, true, false, false}},
		{controlplane.SidecarScopeNamespace, [4]bool{false, false, true, true}, [4]bool{true, true, true, false}},
		{controlplane.SidecarScopeWorkload, [4]bool{false, true, true, true}, [4]bool{true, true, true, false}},
	} {
		a.SidecarScope = tt.scope
		for p := range int32(4) {
			if a.Needs(0, p) != tt.elsewhere[p] || a.Needs(1, p) != tt.own[p] {
				t.Errorf("scope %s, proxy %d: %v, %v", tt.scope, p, a.Needs(0, p), a.Needs(1, p))
			}
		}
	}
	a.ExportTo = "."
	if a.SidecarScope = controlplane.SidecarScopeNone; a.Needs(1, 2) || !a.Needs(1, 0) {
		t.Error("what is exported to its own namespace alone")
	}
}
