package stages

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// istiodAt writes the log lines of istiod for pushes with known stages.
type istiodAt struct {
	lines strings.Builder
	ahead int64
}

func (i *istiodAt) line(at int64, text string) {
	at += i.ahead
	fmt.Fprintf(&i.lines, "%s\tinfo\tads\t%s\n", time.Unix(0, at).UTC().Format("2006-01-02T15:04:05.000000Z"), text)
}

func (i *istiodAt) log(t testing.TB) observe.IstiodLines {
	l := &observe.IstiodLog{AheadNS: i.ahead}
	must.OK(t, l.Read(t.Context(), strings.NewReader(i.lines.String())))
	return l.Lines()
}

const (
	ms    = int64(time.Millisecond)
	epoch = int64(1795268284) * 1e9
)

// truth is the actual duration of each stage, in nanoseconds.
type truth struct{ watch, debounce, context, queue, generate, wire, ack int64 }

func (s truth) total() int64 {
	return s.watch + s.debounce + s.context + s.queue + s.generate + s.wire + s.ack
}

// rises returns istiod's timers for changes that go alone, each to n proxies: the first type of a
// turn, CDS, takes half of it.
func (s truth) rises(changes, n int) map[string]float64 {
	out := map[string]float64{}
	for timer, took := range map[string]int64{timeContext: s.context, timeDebounce: s.debounce + s.context} {
		out[timer+"_count"], out[timer+"_sum"] = float64(changes), float64(changes)*float64(took)/1e9
	}
	turns := float64(changes * n)
	out[timeTurn+"_count"], out[timeTurn+"_sum"] = turns, turns*float64(s.queue+s.generate)/1e9
	out[timeQueue+"_count"], out[timeQueue+"_sum"] = turns, turns*float64(s.queue)/1e9
	for _, kind := range []string{"cds", "rds"} {
		out[series(timePush+"_count", kind)], out[series(timePush+"_sum", kind)] = turns, turns*float64(s.generate/2)/1e9
	}
	return out
}

// change writes the log of one change that goes alone to some proxies, and returns its event. The
// proxies' turns begin one after another.
func (i *istiodAt) change(at int64, s truth, proxies []int32, names []string, kind string) record.Event {
	e := record.Event{SentNS: at - ms, CommittedNS: at, Expected: len(proxies), Markers: []record.Marker{{Type: kind, Text: "x"}}}
	stable := at + s.watch + s.debounce
	i.line(stable, fmt.Sprintf("Push debounce stable[1] 1 for config VirtualService/a/b: %s since last change, %s since last push, forced=false",
		time.Duration(s.debounce), time.Duration(s.debounce)))
	i.line(stable+s.context, "XDS: Pushing Services:4 ConnectedEndpoints:2 Version:x")
	for k, p := range proxies {
		turn := stable + s.context + s.queue*int64(2*k+1)/int64(len(proxies))
		i.line(turn+s.generate/2, "CDS: PUSH for node:"+names[p]+" resources:1 size:1B")
		i.line(turn+s.generate, "RDS: PUSH for node:"+names[p]+" resources:1 size:1B")
		i.line(turn+s.generate+2*ms, "SDS: PUSH for node:"+names[p]+" resources:1 size:1B")
		received := turn + s.generate + s.wire
		e.Seen.Proxy = append(e.Seen.Proxy, p)
		e.Seen.ReceivedUS = append(e.Seen.ReceivedUS, (received-at)/1000)
		e.Seen.AckedUS = append(e.Seen.AckedUS, (received+s.ack-at)/1000)
	}
	return e
}

// Stages are what they really were, for any durations and clock offsets, and they add up.
func TestStagesAreTrue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "proxies")
		var names []string
		var all []int32
		for p := range n {
			names, all = append(names, fmt.Sprintf("p%d.a", p)), append(all, int32(p))
		}
		some := func(name string, low, high int64) int64 { return rapid.Int64Range(low, high).Draw(rt, name) * 1000 }
		s := truth{some("watch", 0, 20_000), some("debounce", 100_000, 10_000_000), some("context", 0, 50_000),
			some("queue", 0, 3_000_000), some("generate", 2, 20_000) / 2000 * 2000, some("wire", 0, 5_000), some("ack", 0, 5_000)}
		istiod := istiodAt{ahead: some("ahead", -1e6, 1e6)}
		var events []record.Event
		at := epoch
		changes := rapid.IntRange(1, 4).Draw(rt, "changes")
		for range changes {
			events = append(events, istiod.change(at, s, all, names, "rds"))
			at += 2 * s.total()
		}
		// Istiod's timers, some of which may be off.
		offContext, offQueue, offTurn := some("context off", -3000, 3000), some("queue off", -1000, 0), some("turn off", 0, 3000)
		rises := s.rises(changes, n)
		for timer, off := range map[string]int64{timeContext: offContext, timeQueue: offQueue, timeTurn: offTurn} {
			rises[timer+"_sum"] += rises[timer+"_count"] * float64(off) / 1e9
		}
		w := Make(Input{Events: events, Proxies: names, Logs: []observe.IstiodLines{istiod.log(t)}, Rises: rises})
		if w.Pairs != changes*n || w.Logged != w.Pairs {
			rt.Fatalf("%d pairs, %d of them in the log", w.Pairs, w.Logged)
		}
		want := map[string]int64{record.StageWatch: s.watch, record.StageDebounce: s.debounce, record.StagePushContext: s.context + offContext,
			record.StageQueue: s.queue + offQueue, record.StageGenerate: s.generate + offTurn - offQueue, record.StageWire: s.wire, record.StageAck: s.ack}
		checks := map[string]int64{record.StageDebounce: s.debounce, record.StagePushContext: s.context, record.StageGenerate: s.generate - offQueue}
		if len(w.Stages) != len(want) || len(w.Missing) != 0 {
			rt.Fatalf("%+v", w)
		}
		for _, stage := range w.Stages {
			if math.Abs(stage.MeanUS-float64(want[stage.Name])/1000) > 5 {
				rt.Errorf("%s is %.1f us, was %.1f", stage.Name, stage.MeanUS, float64(want[stage.Name])/1000)
			}
			check, ok := checks[stage.Name]
			if ok != (stage.CheckUS != nil) || ok && math.Abs(*stage.CheckUS-float64(check)/1000) > 5 {
				rt.Errorf("%s is checked by %v, want %d: %+v", stage.Name, stage.CheckUS, check, stage)
			}
		}
		// Errors of the timers stay visible.
		off := -float64(offContext+offTurn) / 1000
		if math.Abs(w.ResidualUS-off) > 5 || math.Abs(w.MeanUS-float64(s.total())/1000) > 10 {
			rt.Errorf("mean %.1f, residual %.1f, want %.1f", w.MeanUS, w.ResidualUS, off)
		}
		// Later turns of some proxies are no error.
		if u := w.Unexplained; u.Pairs != w.Pairs || math.Abs(u.LargestUS-off) > 5 || math.Abs(off) < 1990 && u.Beyond != 0 || u.Unlogged != 0 {
			rt.Errorf("single pairs lack %+v, want %.1f", u, off)
		}
	})
}

func meanOf(w Waterfall, name string) float64 {
	for _, s := range w.Stages {
		if s.Name == name {
			return s.MeanUS
		}
	}
	return math.Inf(1) // not measured
}

// The commit of the change that opened a push was recorded 60 ms late. Another change's was not,
// and istiod was not notified of that one before it was sent.
func TestStagesOfALateOpener(t *testing.T) {
	var istiod istiodAt
	stable := epoch + 155*ms
	istiod.line(stable, "Push debounce stable[1] 2 for config VirtualService/a/b and 1 more configs: 100ms since last change, 150ms since last push, forced=false")
	istiod.line(stable+ms, "XDS: Pushing Services:4 ConnectedEndpoints:1 Version:x")
	var events []record.Event
	for k, at := range []int64{0, 50} {
		e := record.Event{Change: k, SentNS: epoch + at*ms - 2*ms, CommittedNS: epoch + at*ms, Markers: []record.Marker{{Type: "rds"}}}
		if k == 0 {
			e.CommittedNS += 65 * ms
		}
		received := (stable + 4*ms - e.CommittedNS) / 1000
		e.Seen = record.Sightings{Proxy: []int32{0}, ReceivedUS: []int64{received}, AckedUS: []int64{received + 1000}}
		events = append(events, e)
	}
	w := Make(Input{Events: events, Proxies: []string{"p.a"}, Logs: []observe.IstiodLines{istiod.log(t)}})
	if watch, debounce := meanOf(w, record.StageWatch), meanOf(w, record.StageDebounce); math.Abs(watch-(-60-2)*500) > 1 || math.Abs(debounce-(150+107)*500) > 1 {
		t.Errorf("watch %.1f, debounce %.1f", watch, debounce)
	}
}

// Without lines per proxy the end of a proxy's turn is unknown: the wire stage is missing, and the
// residual includes it and whatever istiod's means do not explain.
func TestStagesOfEndpoints(t *testing.T) {
	var istiod istiodAt
	s := truth{watch: 3 * ms, debounce: 100 * ms, context: ms, queue: 4 * ms, generate: 2 * ms, wire: ms, ack: ms}
	stable := epoch + s.watch + s.debounce
	istiod.line(stable, "Push debounce stable[1] 1 for config Endpoints/a/b: 100ms since last change, 100ms since last push, forced=false")
	istiod.line(stable+ms, "XDS: Pushing Services:4 ConnectedEndpoints:1 Version:x")
	// From an earlier and a later push.
	istiod.line(epoch-5*ms, "EDS: PUSH for node:p.a resources:1 size:1B")
	istiod.line(stable+50*ms, "EDS: PUSH for node:p.a resources:1 size:1B")
	e := record.Event{SentNS: epoch - ms, CommittedNS: epoch, WatchedNS: epoch + 2*ms, Markers: []record.Marker{{Type: "eds"}}}
	e.Seen = record.Sightings{Proxy: []int32{0}, ReceivedUS: []int64{(s.total() - s.ack) / 1000}, AckedUS: []int64{s.total() / 1000}}
	rises := map[string]float64{timeQueue + "_count": 10, timeQueue + "_sum": 0.04, timeContext + "_count": 1, timeContext + "_sum": 0.001,
		series(timePush+"_count", "eds"): 10, series(timePush+"_sum", "eds"): 0.02}
	w := Make(Input{Events: []record.Event{e}, Proxies: []string{"p.a"}, Logs: []observe.IstiodLines{istiod.log(t)}, Rises: rises})
	if w.Logged != 0 || math.Abs(w.ResidualUS-1000) > 1 || !slices.Equal(w.Missing, []string{record.StageWire}) || meanOf(w, record.StageQueue) != 4000 || meanOf(w, record.StageGenerate) != 2000 {
		t.Errorf("%+v", w)
	}
	if watch := w.Stages[0]; watch.MeanUS != 3000 || watch.CheckUS == nil || *watch.CheckUS != 2000 {
		t.Errorf("watch %+v", watch)
	}
	// A queue longer than the total time is not clipped.
	rises[timeQueue+"_sum"] = 0.2
	w = Make(Input{Events: []record.Event{e}, Proxies: []string{"p.a"}, Logs: []observe.IstiodLines{istiod.log(t)}, Rises: rises})
	if meanOf(w, record.StageQueue) != 20000 || math.Abs(w.ResidualUS+15000) > 1 {
		t.Errorf("a queue that cannot be: %+v", w)
	}
}

// The API server's answer may arrive after istiod, or even a proxy, was notified. Then the watch is
// negative, and no other stage is shorter.
func TestStagesOfALateAnswer(t *testing.T) {
	s := truth{0, 100 * ms, ms, ms, 2 * ms, ms, ms}
	for _, late := range []int64{30 * ms, 105 * ms, 108 * ms} {
		var istiod istiodAt
		e := istiod.change(epoch, s, []int32{0}, []string{"p.a"}, "rds")
		e.CommittedNS += late
		e.Seen.ReceivedUS[0] -= late / 1000
		e.Seen.AckedUS[0] -= late / 1000
		w := Make(Input{Events: []record.Event{e}, Proxies: []string{"p.a"}, Logs: []observe.IstiodLines{istiod.log(t)}, Rises: s.rises(1, 1)})
		if got := meanOf(w, record.StageWatch); math.Abs(got+float64(late)/1000) > 1 || math.Abs(w.ResidualUS) > 1 {
			t.Errorf("%d ms late: watch %.1f: %+v", late/ms, got, w)
		}
		for name, want := range map[string]int64{record.StageDebounce: s.debounce, record.StageQueue: s.queue, record.StageGenerate: s.generate, record.StageWire: s.wire} {
			if got := meanOf(w, name); math.Abs(got-float64(want)/1000) > 1 {
				t.Errorf("%d ms late: %s %.1f", late/ms, name, got)
			}
		}
	}
}

// Endpoints that are not debounced go in their own push, past one that waits.
func TestStagesWithoutDebounce(t *testing.T) {
	var istiod istiodAt
	istiod.line(epoch+5*ms, "XDS: Pushing Services:4 ConnectedEndpoints:1 Version:x")
	istiod.line(epoch+95*ms, "Push debounce stable[1] 1 for config VirtualService/a/b: 92ms since last change, 92ms since last push, forced=false")
	istiod.line(epoch+96*ms, "XDS: Pushing Services:4 ConnectedEndpoints:1 Version:x")
	event := func(kind string, received int64) record.Event {
		return record.Event{SentNS: epoch - ms, CommittedNS: epoch, Markers: []record.Marker{{Type: kind}},
			Seen: record.Sightings{Proxy: []int32{0}, ReceivedUS: []int64{received * 1000}, AckedUS: []int64{received*1000 + 500}}}
	}
	rises := map[string]float64{"pilot_pushcontext_init_seconds_count": 1, "pilot_pushcontext_init_seconds_sum": 0.001}
	in := Input{Proxies: []string{"p.a"}, Logs: []observe.IstiodLines{istiod.log(t)}, Rises: rises}
	in.Events = []record.Event{event("eds", 7)}
	if w := Make(in); meanOf(w, record.StageDebounce) != 0 || meanOf(w, record.StageWatch) != 4000 || meanOf(w, record.StagePushContext) != 1000 {
		t.Errorf("endpoints: %+v", w)
	}
	in.Events = []record.Event{event("rds", 100)}
	if w := Make(in); math.Abs(meanOf(w, record.StageDebounce)-92000) > 1 {
		t.Errorf("another change: %+v", w)
	}
}

// Each proxy's lines come from the replica that it is connected to.
func TestStagesOfReplicas(t *testing.T) {
	s := truth{2 * ms, 100 * ms, ms, 0, 2 * ms, ms, ms}
	a, b := istiodAt{}, istiodAt{ahead: 7 * ms}
	names := []string{"p0.a", "p1.a"}
	e := a.change(epoch, s, []int32{0}, names, "rds")
	slower := s
	slower.debounce = 120 * ms
	other := b.change(epoch, slower, []int32{1}, names, "rds")
	e.Seen.Proxy = append(e.Seen.Proxy, other.Seen.Proxy...)
	e.Seen.ReceivedUS = append(e.Seen.ReceivedUS, other.Seen.ReceivedUS...)
	e.Seen.AckedUS = append(e.Seen.AckedUS, other.Seen.AckedUS...)
	w := Make(Input{Events: []record.Event{e}, Proxies: names, Logs: []observe.IstiodLines{a.log(t), b.log(t)},
		Rises: s.rises(1, 2)})
	if w.Logged != 2 || math.Abs(meanOf(w, record.StageDebounce)-110000) > 1 || math.Abs(w.ResidualUS) > 1 {
		t.Errorf("%+v", w)
	}
}

// Without logs the stages are istiod's means. Without any data everything is in the residual.
// Changes that failed or were never acknowledged do not count.
func TestStagesWithLittle(t *testing.T) {
	seen := record.Sightings{Proxy: []int32{0, 1, 9}, ReceivedUS: []int64{110000, 110000, 110000}, AckedUS: []int64{112000, record.Never, 112000}}
	events := []record.Event{
		{SentNS: epoch, CommittedNS: epoch, Markers: []record.Marker{{Type: "rds"}}, Seen: seen},
		{SentNS: epoch, Error: "refused", Seen: seen},
	}
	w := Make(Input{Events: events, Proxies: []string{"p.a", "q.a"}})
	if w.Pairs != 2 || w.MeanUS != 112000 || w.ResidualUS != 110000 || len(w.Stages) != 1 || len(w.Missing) != 6 {
		t.Errorf("%+v", w)
	}
	w = Make(Input{Events: events, Proxies: []string{"p.a", "q.a"}, Rises: map[string]float64{
		"pilot_debounce_time_count": 2, "pilot_debounce_time_sum": 0.204, "pilot_pushcontext_init_seconds_count": 2, "pilot_pushcontext_init_seconds_sum": 0.004,
		"pilot_proxy_queue_time_count": 4, "pilot_proxy_queue_time_sum": 0.004,
		`pilot_xds_push_time_sum{type="cds"}`: 0.004, `pilot_xds_push_time_sum{type="rds"}`: 0.008, `pilot_xds_push_time_sum{type="sds"}`: 1,
	}})
	if meanOf(w, record.StageDebounce) != 100000 || math.Abs(meanOf(w, record.StageGenerate)-3000) > 0.01 || math.Abs(w.ResidualUS-4000) > 1 {
		t.Errorf("%+v", w)
	}
	if w := Make(Input{}); w.Pairs != 0 || w.Stages != nil {
		t.Errorf("nothing: %+v", w)
	}
}

// The second source of a stage is recorded beside the first.
func TestStagesApart(t *testing.T) {
	s := truth{2 * ms, 100 * ms, ms, 3 * ms, 2 * ms, ms, ms}
	var istiod istiodAt
	names := []string{"p.a"}
	e := istiod.change(epoch, s, []int32{0}, names, "rds")
	rises := s.rises(1, 1)
	rises[timeDebounce+"_sum"] += 0.02
	log := istiod.log(t)
	in := Input{Events: []record.Event{e}, Proxies: names, Logs: []observe.IstiodLines{log}, Rises: rises}
	w := Make(in)
	if debounce := w.Stages[1]; debounce.Name != record.StageDebounce || math.Abs(*debounce.CheckUS-120000) > 1 || math.Abs(debounce.MeanUS-100000) > 1 {
		t.Errorf("%+v", w)
	}
	// For pushes outside the metrics' period, the log says nothing about them.
	in.Logs[0].FromNS, in.Logs[0].ToNS = epoch+s.total(), epoch+2*s.total()
	w = Make(in)
	if w.Stages[1].CheckUS != nil {
		t.Errorf("%+v", w)
	}
}

// What the metrics count and no log has is lost.
func TestLostLines(t *testing.T) {
	s := truth{2 * ms, 100 * ms, ms, 3 * ms, 2 * ms, ms, ms}
	istiod := istiodAt{ahead: 3 * ms}
	names := []string{"p0.a", "p1.a"}
	istiod.change(epoch, s, []int32{0, 1}, names, "rds")
	istiod.change(epoch+1000*ms, s, []int32{0, 1}, names, "rds")
	log := istiod.log(t)
	for name, tt := range map[string]struct {
		from, to          int64
		changes, lost, of int
	}{
		"all there":    {epoch, epoch + 2000*ms, 2, 0, 10},
		"one rotated":  {epoch, epoch + 2000*ms, 3, 5, 15},
		"more than of": {epoch, epoch + 2000*ms, 1, 0, 5}, // additional lines were logged
		"one outside":  {epoch + 500*ms, epoch + 2000*ms, 1, 0, 5},
		"no readings":  {0, 0, 2, 0, 10},
	} {
		log.FromNS, log.ToNS = tt.from, tt.to
		if lost, of := LostLines([]observe.IstiodLines{log}, s.rises(tt.changes, 2)); lost != tt.lost || of != tt.of {
			t.Errorf("%s: %d of %d, want %d of %d", name, lost, of, tt.lost, tt.of)
		}
	}
	if lost, of := LostLines(nil, s.rises(1, 2)); lost != 5 || of != 5 {
		t.Errorf("without a log %d of %d", lost, of)
	}
}

// A change that our own watch showed before the answer arrived counts from then, and is not one of
// several steps.
func TestStagesOfAWatchedCommit(t *testing.T) {
	s := truth{2 * ms, 100 * ms, ms, 3 * ms, 2 * ms, ms, ms}
	var istiod istiodAt
	names := []string{"p.a"}
	e := istiod.change(epoch, s, []int32{0}, names, "rds")
	e.WatchedNS, e.AnsweredNS, e.SentNS = e.CommittedNS, e.CommittedNS+5*ms, e.CommittedNS-40*ms
	if bySteps(&e) || last(&e) != e.SentNS {
		t.Errorf("%+v is taken for one of several steps", e)
	}
	w := Make(Input{Events: []record.Event{e}, Proxies: names, Logs: []observe.IstiodLines{istiod.log(t)}, Rises: s.rises(1, 1)})
	if watch := w.Stages[0]; watch.MeanUS != 2000 || watch.CheckUS == nil || *watch.CheckUS != 0 || math.Abs(w.ResidualUS) > 1 {
		t.Errorf("%+v", w)
	}
}

// Two pairs that are entirely wrong, in opposite directions, cancel in the mean and are counted.
func TestErrorsThatCancelAreCounted(t *testing.T) {
	s := truth{watch: 5 * ms, debounce: 100 * ms, context: ms, generate: 60 * ms, ack: ms}
	var istiod istiodAt
	var names []string
	var all []int32
	for p := range 10 {
		names, all = append(names, fmt.Sprintf("p%d.a", p)), append(all, int32(p))
	}
	events := []record.Event{istiod.change(epoch, s, all, names, "eds"), istiod.change(epoch+1000*ms, s, all, names, "eds")}
	rises := map[string]float64{timeQueue + "_count": 20, timeQueue + "_sum": 0, timeContext + "_count": 2, timeContext + "_sum": 0.002,
		series(timePush+"_count", "eds"): 20, series(timePush+"_sum", "eds"): 1.2}
	log := []observe.IstiodLines{istiod.log(t)}
	staged := func() Waterfall {
		return Make(Input{Events: events, Proxies: names, Logs: log, Rises: rises})
	}
	if w := staged(); w.Unexplained == nil || *w.Unexplained != (record.Unexplained{Pairs: 20, LargestUS: w.Unexplained.LargestUS}) || math.Abs(w.Unexplained.LargestUS) > 5 {
		t.Fatalf("nothing is wrong: %+v, %+v", w, w.Unexplained)
	}
	for i, off := range []int64{40_000, -40_500} {
		events[i].Seen.ReceivedUS[3+i] += off
		events[i].Seen.AckedUS[3+i] += off
	}
	w := staged()
	if math.Abs(w.ResidualUS) > 50 {
		t.Errorf("the mean shows it: %+v", w)
	}
	if u := w.Unexplained; u.Pairs != 20 || u.Beyond != 2 || u.Unlogged != 2 || math.Abs(u.LargestUS+40_500) > 5 {
		t.Errorf("%+v", u)
	}
}
