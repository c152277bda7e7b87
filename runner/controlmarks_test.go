package runner

import (
	"testing"
	"time"

	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/xds"
)

// at is a moment of a trial, seconds after committedAt; 0 stays 0.
func at(seconds float64) int64 {
	if seconds == 0 {
		return 0
	}
	return committedAt + int64(seconds*1e9)
}

// shows is what becomes of a marker: when proxies showed it.
type shows struct {
	text  string
	gone  bool
	since float64           // when the address was gone; 0: nobody looked
	seen  map[int32]float64 // seconds
}

// endpoints is a change of a Service's endpoints that was carried out at a
// moment.
type endpoints struct {
	object  string
	seconds float64
	marks   []shows
}

// TestStaleness has changes of endpoints and what each of some proxies showed
// of them, in a trial that stopped looking after 10 s. The sums are of each
// proxy and address from when it was gone.
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
		w := witnesses{proxies: tt.proxies, simulated: tt.proxies, needs: all, end: time.Unix(0, at(10))}
		real := witnesses{proxies: tt.proxies, needs: all, end: w.end, envoys: []xds.MarkerSightings{}}
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
				w.markers, real.envoys = append(w.markers, s), append(real.envoys, s)
			}
			events = append(events, e)
		}
		for kind, w := range map[string]witnesses{"simulated": w, "real": real} {
			_, toll := account(events, w)
			if d := toll.stale - tt.stale; d < -1e-6 || d > 1e-6 {
				t.Errorf("%s, %s: stale for %.3f s, want %.3f", name, kind, toll.stale, tt.stale)
			}
			if toll.seen != tt.seen || toll.superseded != tt.superseded || toll.missed != tt.missed {
				t.Errorf("%s, %s: %+v", name, kind, toll)
			}
		}
	}
}
