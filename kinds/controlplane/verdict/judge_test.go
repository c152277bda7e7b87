package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
)

// rulingOn returns a faultless trial with simulated proxies.
func rulingOn(proxies int) *ruling {
	r := &ruling{trial: record.Trial{Control: &record.Control{}, CPU: map[string]record.CPU{}}}
	r.seen.Asked = Asked{Clients: controlplane.ClientsGood, DebounceAfter: 100 * time.Millisecond, EDSDebounce: true, Settle: time.Minute}
	r.seen.Audience = Audience{Proxies: make([]Proxy, proxies), Simulated: proxies}
	r.seen.AccountAfter.Connected = proxies
	return r
}

// misbehaving makes two of ten proxies misbehave.
func misbehaving(clients string) func(*ruling) {
	return func(r *ruling) { r.seen.Asked.Clients, r.seen.Misbehaving = clients, []int32{0, 5} }
}

// checks returns the checks made, by name.
func checks(r *ruling) map[string]record.Check {
	out := map[string]record.Check{}
	for _, c := range r.Validity().Checks {
		out[c.Name] = c
	}
	return out
}

func TestJudgeFleet(t *testing.T) {
	for name, tt := range map[string]struct {
		clients                       string
		edit                          func(*ruling)
		connected, understood, accept bool
	}{
		"all well":        {controlplane.ClientsGood, func(*ruling) {}, true, true, true},
		"a stream lost":   {controlplane.ClientsGood, func(r *ruling) { r.trial.Control.Reconnects = map[string]int64{"reset": 1} }, false, true, true},
		"one is away":     {controlplane.ClientsGood, func(r *ruling) { r.seen.AccountAfter.Connected-- }, false, true, true},
		"not understood":  {controlplane.ClientsGood, func(r *ruling) { r.seen.AccountAfter.Errors = 1 }, true, false, true},
		"rejected":        {controlplane.ClientsGood, func(r *ruling) { r.trial.Control.Wire = map[string]record.Wire{"cds": {Nacks: 1}} }, true, true, false},
		"on purpose":      {controlplane.ClientsRejects, func(r *ruling) { r.trial.Control.Wire = map[string]record.Wire{"cds": {Nacks: 1}} }, true, true, true},
		"a storm":         {controlplane.ClientsReconnectStorm, func(r *ruling) { r.seen.AccountAfter.Connected -= 2 }, true, true, true},
		"more than those": {controlplane.ClientsReconnectStorm, func(r *ruling) { r.seen.AccountAfter.Connected -= 3 }, false, true, true},
	} {
		r := rulingOn(10)
		if tt.clients != controlplane.ClientsGood {
			misbehaving(tt.clients)(r)
		}
		tt.edit(r)
		r.fleet()
		if j := checks(r); j["connected"].OK != tt.connected || j["understood"].OK != tt.understood || j["accepted"].OK != tt.accept {
			t.Errorf("%s: %v", name, j)
		}
	}
}

// If the cell limits the age of connections, streams end continuously and a few sidecars are always
// reconnecting. That is no fault; everything else is.
func TestJudgeFleetOfBoundedAge(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*ruling)
		ok   bool
	}{
		"all well":      {func(*ruling) {}, true},
		"ended by age":  {func(r *ruling) { r.trial.Control.Reconnects = map[string]int64{"connection": 200} }, true},
		"ended by more": {func(r *ruling) { r.trial.Control.Reconnects = map[string]int64{"connection": 400} }, false},
		"in a long window": {func(r *ruling) {
			r.trial.Window.Seconds, r.trial.Control.Reconnects = 60, map[string]int64{"connection": 900, "unavailable": 100}
		}, true},
		"in a long window, by more": {func(r *ruling) {
			r.trial.Window.Seconds, r.trial.Control.Reconnects = 60, map[string]int64{"connection": 1200, "unavailable": 100}
		}, false},
		"a few away": {func(r *ruling) { r.seen.AccountAfter.Connected -= 20 }, true},
		"many away":  {func(r *ruling) { r.seen.AccountAfter.Connected -= 50 }, false},
		"refused": {func(r *ruling) {
			r.trial.Control.Reconnects = map[string]int64{"connection": 9, "resource-exhausted": 1}
		}, true},
		"broken itself": {func(r *ruling) { r.trial.Control.Reconnects = map[string]int64{"malformed": 1} }, false},
	} {
		r := rulingOn(300)
		r.seen.Asked.ConnectionAge, r.trial.Window.Seconds = 20*time.Second, 5
		tt.edit(r)
		r.fleet()
		if c := checks(r)["connected"]; c.OK != tt.ok {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if Away(300, 20*time.Second) != 33 || Away(5, time.Second) != 5 || Away(1000, time.Hour) != 5 || Away(20, 10*time.Minute) != 3 {
		t.Error("how many may be away")
	}
}

func seenAfter(us ...int64) record.Event {
	e := record.Event{CommittedNS: committedAt}
	for i, v := range us {
		e.Seen.Proxy = append(e.Seen.Proxy, int32(i))
		e.Seen.ReceivedUS, e.Seen.AckedUS = append(e.Seen.ReceivedUS, v), append(e.Seen.AckedUS, v)
	}
	return e
}

func TestJudgeCommits(t *testing.T) {
	spaced := func(events ...record.Event) []record.Event {
		for i := range events {
			events[i].CommittedNS += int64(i) * int64(time.Second)
		}
		return events
	}
	taken := seenAfter(12_000) // together with one that waited
	taken.CommittedNS += int64(120 * time.Millisecond)
	for name, tt := range map[string]struct {
		undebounced bool
		events      []record.Event
		ok          bool
	}{
		"taken along":        {false, []record.Event{seenAfter(132_000), taken}, true},
		"as istiod waits":    {false, spaced(seenAfter(101_000, 130_000), seenAfter(95_000)), true},
		"one sooner":         {false, []record.Event{seenAfter(101_000, 80_000)}, false},
		"waits for nothing":  {true, []record.Event{seenAfter(3000, -2000)}, true},
		"before its commit":  {true, []record.Event{seenAfter(-30_000)}, false},
		"one of many":        {false, spaced(append(slices.Repeat([]record.Event{seenAfter(101_000)}, 9), seenAfter(5000))...), true},
		"two of many":        {false, spaced(append(slices.Repeat([]record.Event{seenAfter(101_000)}, 8), seenAfter(5000), seenAfter(5000))...), false},
		"late beside 30 s":   {false, spaced(seenAfter(-300_000, 30_000_000, 31_000_000), seenAfter(-200_000, 30_000_000)), true},
		"late beside 3 s":    {false, spaced(seenAfter(-300_000, 3_000_000, 3_100_000), seenAfter(-200_000, 3_000_000)), false},
		"nobody has one yet": {false, []record.Event{seenAfter()}, true},
		"an Envoy, polled":   {false, []record.Event{seenAfter(record.Never)}, true},
	} {
		r := rulingOn(1)
		r.seen.Asked.EDSDebounce, r.events = !tt.undebounced, tt.events
		r.commits()
		if got := checks(r)["commits-noted"]; got.OK != tt.ok || got.Name == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Changes that leave late do no harm, unless different ones than planned leave together.
func TestJudgeDriver(t *testing.T) {
	const ms = time.Millisecond
	late := func(n int, planned func(i int) time.Duration, late func(i int) time.Duration) []record.Event {
		var out []record.Event
		for i := range n {
			at := committedAt + int64(planned(i))
			out = append(out, record.Event{PlannedNS: at, SentNS: at + int64(late(i))})
		}
		return append(out, record.Event{PlannedNS: committedAt}) // never sent
	}
	every := func(gap time.Duration) func(int) time.Duration {
		return func(i int) time.Duration { return time.Duration(i) * gap }
	}
	seventh := func(i int) time.Duration {
		if i == 7 {
			return 200 * ms
		}
		return 0
	}
	thirds := func(i int) time.Duration { return time.Duration(i%3) * 120 * ms }
	converging := func(events []record.Event, whole time.Duration) []record.Event {
		for i := range events {
			events[i].Seen = seenAfter(whole.Microseconds()).Seen
		}
		return events
	}
	for name, tt := range map[string]struct {
		events []record.Event
		ok     bool
	}{
		"in time":                    {late(20, every(100*ms), every(0)), true},
		"all 300 ms late":            {late(20, every(100*ms), func(int) time.Duration { return 300 * ms }), true},
		"one of 20 late":             {late(20, every(100*ms), seventh), true},
		"slower by a twentieth":      {late(11, every(100*ms), every(5*ms)), true},
		"slower by a fifth":          {late(20, every(100*ms), every(20*ms)), false},
		"stood still, then a burst":  {late(20, every(100*ms), func(i int) time.Duration { return max(0, time.Duration(10-i)*100*ms) }), false},
		"a burst, as planned":        {late(100, every(0), func(i int) time.Duration { return time.Duration(i) * ms / 3 }), true},
		"a burst that took a second": {late(100, every(0), func(i int) time.Duration { return time.Duration(i) * 10 * ms }), false},
		"one change":                 {late(1, every(0), func(int) time.Duration { return time.Second }), true},
		"none was sent":              {late(0, every(0), every(0)), false},
		"some late by what is much":  {converging(late(20, every(100*ms), thirds), 2000*ms), false},
		"some late by what is short": {converging(late(20, every(100*ms), thirds), 6000*ms), true},
		"none was planned":           {nil, true},
	} {
		r := rulingOn(1)
		r.seen.Changes, r.events = tt.events, tt.events
		r.schedule()
		if got := checks(r)["driver-schedule"]; got.OK != tt.ok || got.Name == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestJudgeLag(t *testing.T) {
	const ms = 1000.0
	acked := func(us ...int64) []record.Event { return []record.Event{seenAfter(us...)} }
	fast, slow, slowest := acked(100_000, 100_000, 200_000), acked(2_000_000, 2_000_000, 2_000_000), acked(6_000_000, 6_000_000, 13_000_000)
	for name, tt := range map[string]struct {
		p50, p99 float64
		turn     float64 // on either side
		source   string
		events   []record.Event
		due      int
		ok       bool
		warnings int
	}{
		"none":                            {0.01 * ms, 0.9 * ms, 0, xds.LagKernel, fast, 3, true, 0},
		"small beside":                    {9 * ms, 19 * ms, 9 * ms, xds.LagKernel, fast, 3, true, 0},
		"median":                          {11 * ms, 12 * ms, 0, xds.LagKernel, fast, 3, false, 0},
		"tail":                            {0.1 * ms, 21 * ms, 0, xds.LagKernel, fast, 3, false, 0},
		"small beside, yet long":          {90 * ms, 110 * ms, 0, xds.LagKernel, slow, 3, false, 0},
		"long, yet tiny beside seconds":   {1 * ms, 170 * ms, 170 * ms, xds.LagKernel, slowest, 3, false, 0},
		"tiny beside seconds":             {1 * ms, 170 * ms, 110 * ms, xds.LagKernel, slowest, 3, true, 0},
		"long beside what is longer":      {50 * ms, 90 * ms, 90 * ms, xds.LagKernel, slow, 3, true, 0},
		"quick to read, slow to answer":   {0.1 * ms, 0.1 * ms, 30 * ms, xds.LagKernel, fast, 3, false, 0},
		"timers in time":                  {0.1 * ms, 5 * ms, 0, xds.LagTimer, fast, 3, true, 1},
		"timers late":                     {20 * ms, 50 * ms, 0, xds.LagTimer, fast, 3, false, 1},
		"none was acknowledged":           {0.1 * ms, 0.2 * ms, 0, xds.LagKernel, acked(record.Never), 3, false, 0},
		"Envoys alone":                    {0.1 * ms, 0.2 * ms, 0, xds.LagKernel, acked(record.Never, record.Never), 0, true, 0},
		"nothing was to come":             {0.1 * ms, 0.2 * ms, 0, xds.LagKernel, nil, 0, true, 0},
		"nothing was to come, yet so bad": {50 * ms, 150 * ms, 0, xds.LagKernel, nil, 0, false, 0},
	} {
		judge := func(count int64) (record.Check, int) {
			r := rulingOn(3)
			a := &r.seen.AccountAfter
			a.Lag, a.LagSource, a.LagCount = record.QuantilesAt(0.5, tt.p50, 0.99, tt.p99), tt.source, count
			a.Turn = record.QuantilesAt(0.5, tt.turn, 0.99, tt.turn)
			r.events, r.sum.due = tt.events, tt.due
			r.lag()
			return checks(r)["simulator-lag"], len(r.Validity().Warnings)
		}
		if got, warned := judge(10); got.OK != tt.ok || warned != tt.warnings || got.Name == "" {
			t.Errorf("%s: %+v, %d warnings", name, got, warned)
		}
		if got, warned := judge(0); got.OK || got.Name == "" || warned > 0 {
			t.Errorf("%s: nothing was measured, and that is fine: %+v", name, got)
		}
	}
}

func TestJudgeCosts(t *testing.T) {
	for name, tt := range map[string]struct {
		of, part string // the CPU of one part is this share of the other's
		share    float64
		edit     func(*record.Control)
		warnings int
	}{
		"simulators take little":   {record.PartControl, record.PartSimulator, 0.4, nil, 0},
		"simulators take much":     {record.PartControl, record.PartSimulator, 0.6, nil, 1},
		"sidecars take little":     {record.PartMachine, record.PartServerProxy, 0.04, nil, 0},
		"sidecars take much":       {record.PartMachine, record.PartServerProxy, 0.06, nil, 1},
		"sidecars have traffic":    {record.PartMachine, record.PartServerProxy, 0.06, func(c *record.Control) { c.Traffic = &record.Traffic{} }, 0},
		"queried after the window": {record.PartMachine, record.PartServerProxy, 0.06, func(c *record.Control) { c.Sidecars = &record.Sidecars{} }, 0},
	} {
		r := rulingOn(1)
		r.trial.CPU[tt.of], r.trial.CPU[tt.part] = record.CPU{UserS: 1}, record.CPU{UserS: tt.share}
		if tt.edit != nil {
			tt.edit(r.trial.Control)
		}
		if r.costs(); len(r.Validity().Warnings) != tt.warnings {
			t.Errorf("%s: %q", name, r.Validity().Warnings)
		}
	}
}

func TestLived(t *testing.T) {
	a, b, again := Replica{Pod: "a"}, Replica{Pod: "b"}, Replica{Pod: "a", Restarts: 1}
	for name, tt := range map[string]struct {
		before, after []Replica
		changed       string
	}{
		"lived on":  {[]Replica{a, b}, []Replica{b, a}, ""},
		"replaced":  {[]Replica{a}, []Replica{b}, "a (restart 0) ended, b (restart 0) came"},
		"restarted": {[]Replica{a, b}, []Replica{again, b}, "a (restart 0) ended, a (restart 1) came"},
		"one died":  {[]Replica{a, b}, []Replica{b}, "a (restart 0) ended"},
		"all died":  {[]Replica{a}, nil, "a (restart 0) ended"},
	} {
		if got := cameAndWent(tt.before, tt.after); got != tt.changed || Lived(tt.before, tt.after) != (tt.changed == "") {
			t.Errorf("%s: %q, lived %v", name, got, Lived(tt.before, tt.after))
		}
	}
}

// An autoscaler that scaled is named, even if the number is the same again.
func TestAutoscaled(t *testing.T) {
	was := []Autoscaler{{Name: "istiod", Min: 2, Max: 5, Replicas: 2, ScaledNS: 7}}
	for name, tt := range map[string]struct {
		after []Autoscaler
		want  string
	}{
		"rested":          {was, ""},
		"scaled":          {[]Autoscaler{{Name: "istiod", Min: 2, Max: 5, Replicas: 3, ScaledNS: 9}}, "autoscaler istiod (2 to 5) scaled it from 2 to 3"},
		"there and back":  {[]Autoscaler{{Name: "istiod", Min: 2, Max: 5, Replicas: 2, ScaledNS: 9}}, "scaled it from 2 to 2"},
		"says it late":    {[]Autoscaler{{Name: "istiod", Min: 3, Max: 3, Replicas: 3, ScaledNS: 7}}, ""},
		"gone":            {nil, ""},
		"another is made": {append([]Autoscaler{{Name: "new"}}, was...), ""},
	} {
		r := rulingOn(10)
		r.seen.Before, r.seen.ScalersBefore, r.seen.ScalersAfter = r.seen.After, was, tt.after
		r.changes()
		c := checks(r)["istiod-lived"]
		if c.OK != (tt.want == "") || !strings.Contains(c.Detail, tt.want) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// A stalled API server shows in its answers, not in what controllers do later.
func TestJudgeAnswers(t *testing.T) {
	answered := func(object string, after time.Duration) record.Event {
		return record.Event{Object: object, SentNS: committedAt, CommittedNS: committedAt + int64(after)}
	}
	shown := answered("Service/a/b", 10*time.Millisecond) // by our own watch
	shown.AnsweredNS = shown.SentNS + int64(9*time.Second)
	for name, tt := range map[string]struct {
		events []record.Event
		ok     bool
	}{
		"none":           {nil, true},
		"shown, stood":   {[]record.Event{shown}, false},
		"at once":        {[]record.Event{answered("Service/a/b", 10*time.Millisecond), answered("Service/a/c", 2*time.Second)}, true},
		"one stood":      {[]record.Event{answered("Service/a/b", 10*time.Millisecond), answered("Service/a/c", 9*time.Second)}, false},
		"never answered": {[]record.Event{{Object: "Service/a/b", SentNS: committedAt, Error: "no answer"}}, true},
		"a roll-out":     {[]record.Event{answered("Deployment/a/b", 9*time.Second)}, true},
	} {
		r := rulingOn(1)
		r.events = tt.events
		if r.answers(); checks(r)["api-server"].OK != tt.ok {
			t.Errorf("%s: %v", name, checks(r))
		}
	}
}

func TestDrift(t *testing.T) {
	const us = time.Microsecond
	for _, tt := range []struct {
		moved, before, after time.Duration
		want                 bool
	}{
		{0, 0, 0, false}, {900 * us, 10 * us, 10 * us, false}, {1100 * us, 10 * us, 10 * us, true}, {-1100 * us, 10 * us, 10 * us, true},
		{5000 * us, 4000 * us, 2000 * us, false}, {-7000 * us, 4000 * us, 2000 * us, true},
	} {
		r := rulingOn(1)
		r.seen.Clock, r.seen.ClockAfter = Clock{Ahead: 3 * us, Bound: tt.before}, &Clock{Ahead: 3*us + tt.moved, Bound: tt.after}
		if r.drift(); (len(r.Validity().Warnings) == 1) != tt.want {
			t.Errorf("%v with bounds %v and %v: %q", tt.moved, tt.before, tt.after, r.Validity().Warnings)
		}
		r = rulingOn(1)
		r.seen.Clock.Ahead = tt.moved
		if r.drift(); len(r.Validity().Warnings) != 0 {
			t.Errorf("a clock that was not compared again: %q", r.Validity().Warnings)
		}
	}
}

func TestJudgeTraffic(t *testing.T) {
	good := record.Traffic{Requests: 100, Completed: 90, Failed: map[string]int64{"status": 9}, Unfinished: 1, Attempts: 110, Unconnected: 8, Counted: 102, Connections: 5}
	for _, c := range []struct {
		name     string
		spoil    func(*record.Traffic)
		wait     float64
		bad      string
		warnings int
	}{
		{"good", func(*record.Traffic) {}, 0, "", 0},
		{"requests are missing", func(x *record.Traffic) { x.Completed = 80 }, 0, "traffic-account", 0},
		{"given up, with a connection or without", func(x *record.Traffic) { x.Attempts, x.GivenUp = 115, 7 }, 0, "", 0},
		{"more lines than were given up", func(x *record.Traffic) { x.Attempts, x.GivenUp = 120, 7 }, 0, "traffic-log", 0},
		{"lines are missing", func(x *record.Traffic) { x.Attempts = 100 }, 0, "traffic-log", 0},
		{"failures that the sidecar does not know", func(x *record.Traffic) { x.Residual = 3 }, 0, "", 1},
		{"all connections hang", func(*record.Traffic) {}, 5000, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := good
			c.spoil(&x)
			r := rulingOn(1)
			r.trial.Control.Traffic, r.seen.TrafficWaitUS = &x, c.wait
			r.traffic()
			bad, warnings := "", r.Validity().Warnings
			for _, check := range r.Validity().Checks {
				if !check.OK {
					bad += check.Name
				}
			}
			if bad != c.bad || len(warnings) != c.warnings {
				t.Errorf("failed: %q, warnings: %q", bad, warnings)
			}
		})
	}
}
