package stages

import (
	"fmt"
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"pgregory.net/rapid"
)

// riders returns istiod's log and the proxy's sightings, with a debounce that merges several
// changes into a push and lasts no longer than limit. The change that arrives while a push is made
// goes out with it, and opens the next push nevertheless.
func riders(t testing.TB, s truth, ahead int64, changes int, every, limit int64) (in Input, waitedMS float64) {
	istiod := istiodAt{ahead: ahead}
	var events []record.Event
	waited := 0.0
	rises := map[string]float64{}
	raise := func(timer string, took int64) {
		rises[timer+"_count"]++
		rises[timer+"_sum"] += float64(took) / 1e9
	}
	change := func(k int) record.Event {
		at := epoch + int64(k)*every
		return record.Event{Change: k, SentNS: at - 5*ms, CommittedNS: at, Markers: []record.Marker{{Type: "rds"}}}
	}
	seen := func(e *record.Event, sent int64) {
		received := sent + s.wire
		e.Seen = record.Sightings{Proxy: []int32{0}, ReceivedUS: []int64{(received - e.CommittedNS) / 1000}, AckedUS: []int64{(received + s.ack - e.CommittedNS) / 1000}}
	}
	var open []record.Event
	first := int64(0)
	for k := 0; k < changes; {
		// The changes that arrive before the window ends; the next one arrives while the push
		// context is computed.
		for len(open) == 0 || k < changes && epoch+int64(k)*every+s.watch < first+limit {
			e := change(k)
			if len(open) == 0 {
				first = e.CommittedNS + s.watch
			}
			open, k = append(open, e), k+1
		}
		stable := first + limit
		lastChange := open[len(open)-1].CommittedNS + s.watch
		if lastChange > stable {
			t.Fatal("no such log")
		}
		pushing := stable + s.context
		istiod.line(stable, fmt.Sprintf("Push debounce stable[1] %d for config ServiceEntry/a/b and 1 more configs: %s since last change, %s since last push, forced=false",
			len(open), nanos(stable-lastChange), nanos(stable-first)))
		istiod.line(pushing, "XDS: Pushing Services:4 ConnectedEndpoints:1 Version:x")
		turned := pushing + s.queue + s.generate
		istiod.line(pushing+s.queue+s.generate/2, "CDS: PUSH for node:p.a resources:1 size:1B")
		istiod.line(turned, "RDS: PUSH for node:p.a resources:1 size:1B")
		raise(timeContext, s.context)
		raise(timeDebounce, stable-first+s.context)
		raise(timeQueue, s.queue)
		raise(timeTurn, s.queue+s.generate)
		for _, kind := range []string{"cds", "rds"} {
			rises[series(timePush+"_count", kind)]++
			rises[series(timePush+"_sum", kind)] += float64(s.generate/2) / 1e9
		}
		for i := range open {
			if open[i].Seen.Proxy == nil { // otherwise it went out with the previous push
				waited += float64(stable-open[i].CommittedNS-s.watch) / float64(ms)
				seen(&open[i], turned)
			}
			events = append(events, open[i])
		}
		open = open[:0]
		if next := change(k); k < changes && next.CommittedNS+s.watch >= stable && next.CommittedNS+s.watch < pushing {
			seen(&next, turned)
			open, first, k = append(open, next), next.CommittedNS+s.watch, k+1
		}
	}
	return Input{Events: events, Proxies: []string{"p.a"}, Logs: []observe.IstiodLines{istiod.log(t)}, Rises: rises}, waited
}

func nanos(ns int64) string { return fmt.Sprintf("%dns", ns) }

// With a debounce of 10 s and a change every 2.5 s, every fifth change arrives as the push begins,
// goes out with it within milliseconds, and is not debounced. Istiod's timer counts 10 s for each
// push.
func TestStagesOfRiders(t *testing.T) {
	s := truth{watch: 2 * ms, context: 6 * ms, queue: ms, generate: 4 * ms, wire: ms, ack: ms}
	in, waited := riders(t, s, 7*ms, 12, 2500*ms, 9999*ms)
	w := Make(in)
	if w.Pairs != 12 || w.Logged != 12 {
		t.Fatalf("%+v", w)
	}
	if got := meanOf(w, record.StageDebounce); math.Abs(got-waited*1000/12) > 5 {
		t.Errorf("debounce is %.1f us, was %.1f: %+v", got, waited*1000/12, w)
	}
	if got := meanOf(w, record.StageWatch); math.Abs(got-2000) > 5 {
		t.Errorf("watch is %.1f us: %+v", got, w)
	}
	if math.Abs(w.ResidualUS) > 5 || len(w.Missing) != 0 {
		t.Errorf("%+v", w)
	}
	// The push context of riders comes from the log. Errors of istiod's timers for the others still
	// show.
	in.Rises[timeQueue+"_sum"] += in.Rises[timeQueue+"_count"] * 3e-3
	in.Rises[timeTurn+"_sum"] += in.Rises[timeTurn+"_count"] * 3e-3
	if w = Make(in); math.Abs(w.ResidualUS+3000) > 5 {
		t.Errorf("%+v", w)
	}
}

// However changes merge and ride, stages are per change and add up.
func TestMergedChangesAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		some := func(name string, low, high int64) int64 { return rapid.Int64Range(low, high).Draw(rt, name) * 1000 }
		s := truth{watch: some("watch", 0, 4000), context: some("context", 1, 50_000), queue: some("queue", 0, 5000),
			generate: some("generate", 2, 20_000) / 2000 * 2000, wire: some("wire", 0, 4000), ack: some("ack", 0, 4000)}
		every := some("every", 200_000, 3_000_000)
		in, waited := riders(t, s, some("ahead", -1e6, 1e6), rapid.IntRange(1, 20).Draw(rt, "changes"), every, some("limit", 100_000, 10_000_000))
		w := Make(in)
		if w.Logged != w.Pairs {
			rt.Fatalf("%+v", w)
		}
		if got, want := meanOf(w, record.StageDebounce), waited*1000/float64(w.Pairs); math.Abs(got-want) > 5 || math.Abs(w.ResidualUS) > 5 {
			rt.Errorf("debounce %.1f, want %.1f: %+v", got, want, w)
		}
	})
}

// Endpoints are looked up in a proxy's turn: an endpoint change that arrives during the turn goes
// out with it, long after the push began. For other changes only the means are known then.
func TestEndpointsJoinATurn(t *testing.T) {
	for kind, want := range map[string]float64{"eds": 0, "rds": 90_000} {
		var istiod istiodAt
		istiod.line(epoch-100*ms, "Push debounce stable[1] 1 for config ServiceEntry/a/b: 100ms since last change, 100ms since last push, forced=false")
		istiod.line(epoch-99*ms, "XDS: Pushing Services:4 ConnectedEndpoints:1 Version:x")
		istiod.line(epoch+20*ms, "EDS: PUSH for node:p.a resources:1 size:1B")
		istiod.line(epoch+21*ms, "RDS: PUSH for node:p.a resources:1 size:1B")
		istiod.line(epoch+103*ms, "Push debounce stable[2] 1 for config Endpoints/a/b: 100ms since last change, 100ms since last push, forced=false")
		istiod.line(epoch+104*ms, "XDS: Pushing Services:4 ConnectedEndpoints:1 Version:x")
		e := record.Event{SentNS: epoch - ms, CommittedNS: epoch, Markers: []record.Marker{{Type: kind}},
			Seen: record.Sightings{Proxy: []int32{0}, ReceivedUS: []int64{22_000}, AckedUS: []int64{23_000}}}
		rises := map[string]float64{timeDebounce + "_count": 1, timeDebounce + "_sum": 0.091, timeContext + "_count": 1, timeContext + "_sum": 0.001}
		w := Make(Input{Events: []record.Event{e}, Proxies: []string{"p.a"}, Logs: []observe.IstiodLines{istiod.log(t)}, Rises: rises})
		if got := meanOf(w, record.StageDebounce); math.Abs(got-want) > 1 || (math.Abs(w.ResidualUS) < 1) != (kind == "eds") {
			t.Errorf("%s: debounce %.1f, want %.1f: %+v", kind, got, want, w)
		}
		if kind == "eds" && (meanOf(w, record.StageWatch) != 3000 || meanOf(w, record.StageGenerate) != 17_000 || w.Logged != 1) {
			t.Errorf("%+v", w)
		}
	}
}
