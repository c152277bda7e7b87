package verdict

import (
	"testing"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/record"
)

// at converts seconds after committedAt to a time; 0 stays 0.
func at(seconds float64) int64 {
	if seconds == 0 {
		return 0
	}
	return committedAt + int64(seconds*1e9)
}

// shows describes when proxies showed a marker.
type shows struct {
	text  string
	gone  bool
	since float64           // when the address was gone; 0: not observed
	seen  map[int32]float64 // seconds
}

// endpoints is a change of a Service's endpoints, carried out at some time.
type endpoints struct {
	object  string
	seconds float64
	marks   []shows
}

// TestStaleness has changes of endpoints and what each of some proxies showed of them, in a trial
// that stopped observing after 10 s. The sums are per proxy and address, from when it was gone.
func TestStaleness(t *testing.T) {
	for name, tt := range map[string]struct {
		proxies                  int
		changes                  []endpoints
		stale                    float64
		seen, superseded, missed int
	}{
		"scale down": {
			3, []endpoints{{"Deployment/a/x", 1, []shows{{"A", true, 1, map[int32]float64{0: 1.1, 1: 1.3}}}}},
			0.1 + 0.3 + (10 - 1), 2, 0, 1,
		},
		"nobody looked when it was gone": {
			1, []endpoints{{"Deployment/a/x", 1, []shows{{"A", true, 0, map[int32]float64{0: 1.25}}}}},
			0.25, 1, 0, 0,
		},
		"replace: the new pod takes 2 s to come, one proxy never has it": {
			3, []endpoints{{"Pod/a/x-1", 3, []shows{
				{"A", true, 1, map[int32]float64{0: 1.1, 1: 1.5, 2: 0.9}},
				{"B", false, 0, map[int32]float64{0: 3.1, 2: 3.2}},
			}}},
			0.1 + 0.5 + 0, 2, 0, 1,
		},
		"rolling restart: one pod after another": {
			2, []endpoints{{"Deployment/a/x", 4, []shows{
				{"A", true, 1, map[int32]float64{0: 1.2, 1: 5}},
				{"B", true, 2, map[int32]float64{0: 2.3, 1: 5}},
				{"C", false, 0, map[int32]float64{0: 2, 1: 5}},
				{"D", false, 0, map[int32]float64{0: 4.1, 1: 5}},
			}}},
			0.2 + 0.3 + (5 - 1) + (5 - 2), 2, 0, 0,
		},
		"unready for 50 ms: proxies 0 and 2 never drop it, and are stale no longer when it is back": {
			3, []endpoints{
				{"Pod/a/x-1", 1, []shows{{"A", true, 1, map[int32]float64{1: 1.02}}}},
				{"Pod/a/x-1", 1.05, []shows{{"A", false, 0, map[int32]float64{0: 1.2, 1: 1.2}}}},
			},
			0.05 + 0.02 + 0.05, 1 + 2, 1, 2,
		},
		"two pods replaced: proxy 0 gets both at once, and never had the one between": {
			2, []endpoints{
				{"Pod/a/x-1", 1.5, []shows{{"A", true, 1, map[int32]float64{0: 3, 1: 1.6}}, {"B", false, 0, map[int32]float64{1: 1.6}}}},
				{"Pod/a/x-2", 2.5, []shows{{"B", true, 2, map[int32]float64{1: 2.6}}, {"C", false, 0, map[int32]float64{0: 3, 1: 2.6}}}},
			},
			(3 - 1) + 0.6 + 0.6, 3, 1, 0,
		},
		"overtaken by another change of the Deployment": {
			1, []endpoints{
				{"Deployment/a/x", 1, []shows{{"A", true, 1, nil}}},
				{"Deployment/a/x", 2, []shows{{"B", false, 0, map[int32]float64{0: 2.5}}}},
			},
			1.5, 1, 1, 0,
		},
		"dropped only after the end": {
			1, []endpoints{{"Deployment/a/x", 9, []shows{{"A", true, 9, map[int32]float64{0: 12}}}}},
			1, 0, 0, 1,
		},
		"came, went, and went again": {
			1, []endpoints{
				{"Deployment/a/x", 1, []shows{{"A", false, 0, map[int32]float64{0: 1.1}}}},
				{"Deployment/a/x", 2, []shows{{"A", true, 2, map[int32]float64{0: 2.25}}}},
				{"Deployment/a/y", 3, []shows{{"B", true, 3, map[int32]float64{0: 3.5}}}},
			},
			0.25 + 0.5, 3, 0, 0,
		},
	} {
		var events []record.Event
		w, real := witnessed(tt.proxies), witnessed(tt.proxies)
		w.Clock, real.Audience.Simulated, real.Envoys = Clock{}, 0, []xds.MarkerSightings{}
		for i, c := range tt.changes {
			e := record.Event{Change: i, Object: c.object, CommittedNS: at(c.seconds)}
			for _, m := range c.marks {
				e.Markers = append(e.Markers, record.Marker{Change: i, Type: "eds", Resource: "x", Text: m.text, Gone: m.gone, GoneNS: at(m.since)})
				s := xds.MarkerSightings{Change: i, Type: "eds", Gone: m.gone}
				for p := range int32(tt.proxies) {
					if seconds, ok := m.seen[p]; ok {
						s.Proxy, s.ReceivedNS, s.AckedNS = append(s.Proxy, p), append(s.ReceivedNS, at(seconds)), append(s.AckedNS, at(seconds))
					}
				}
				w.Markers, real.Envoys = append(w.Markers, s), append(real.Envoys, s)
			}
			events = append(events, e)
		}
		for kind, w := range map[string]*accountant{"simulated": w, "real": real} {
			_, sum := w.of(events...)
			if d := sum.stale - tt.stale; d < -1e-6 || d > 1e-6 {
				t.Errorf("%s, %s: stale for %.3f s, want %.3f", name, kind, sum.stale, tt.stale)
			}
			if sum.seen != tt.seen || sum.superseded != tt.superseded || sum.missed != tt.missed {
				t.Errorf("%s, %s: %+v", name, kind, sum)
			}
		}
	}
}

// A proxy that receives a change together with its reversal has it from the first message after the
// commit, and was stale in between at most.
func TestStays(t *testing.T) {
	e := func(i int, seconds float64, text string, gone bool, since float64) record.Event {
		return record.Event{Change: i, Object: "Pod/a/x-1", CommittedNS: at(seconds),
			Markers: []record.Marker{{Type: "eds", Resource: "x", Text: text, Gone: gone, GoneNS: at(since)}}}
	}
	stays := func(seconds ...float64) *xds.Columns {
		s := &xds.Columns{}
		for _, one := range seconds {
			s.Proxy, s.ReceivedNS, s.AckedNS = append(s.Proxy, 0), append(s.ReceivedNS, at(one)), append(s.AckedNS, at(one+0.001))
		}
		return s
	}
	for name, tt := range map[string]struct {
		events []record.Event
		stays  []*xds.Columns
		stale  float64
		seen   int
	}{
		// Unready and ready again: one push, in which everything is as before. The one before the
		// commit was another.
		"there all along": {[]record.Event{e(0, 1, "A", true, 1), e(1, 1.05, "A", false, 0)}, []*xds.Columns{nil, stays(1.01, 1.2)}, 0.05, 1},
		// Scaled up and down again.
		"never there": {[]record.Event{e(0, 1, "A", false, 0), e(1, 1.05, "A", true, 1.05)}, []*xds.Columns{nil, stays(1.2)}, 0, 1},
	} {
		w := witnessed(1)
		w.Clock = Clock{}
		for i, s := range tt.stays {
			w.Markers = append(w.Markers, xds.MarkerSightings{Change: i, Type: "eds", Gone: tt.events[i].Markers[0].Gone, Stays: s})
		}
		events, sum := w.of(tt.events...)
		if d := sum.stale - tt.stale; d < -1e-6 || d > 1e-6 || sum.seen != tt.seen || sum.superseded != 1 || sum.missed != 0 {
			t.Errorf("%s: %+v", name, sum)
		}
		if us := events[1].Seen.ReceivedUS; len(us) != 1 || us[0] != 150_000 {
			t.Errorf("%s: received after %v us", name, us)
		}
	}
}

// Missing changes that may have arrived before the search for them began.
func TestUnlooked(t *testing.T) {
	for name, tt := range map[string]struct {
		from float64
		seen []int32
		want int
	}{
		"since the start": {0, nil, 0}, "before the commit": {0.9, nil, 0}, "after, yet all have it": {1.5, []int32{0, 1}, 0}, "after, and one lacks it": {1.5, []int32{0}, 1},
	} {
		s := xds.MarkerSightings{Change: 0, Type: "cds", SearchedFromNS: at(tt.from)}
		for _, p := range tt.seen {
			s.Proxy, s.ReceivedNS, s.AckedNS = append(s.Proxy, p), append(s.ReceivedNS, at(2)), append(s.AckedNS, at(2))
		}
		w := witnessed(2, s)
		w.Clock = Clock{}
		_, sum := w.of(record.Event{Object: "x", CommittedNS: at(1), Markers: []record.Marker{{Type: "cds", Text: "x"}}})
		if sum.unlooked != tt.want {
			t.Errorf("%s: %+v", name, sum)
		}
	}
}
