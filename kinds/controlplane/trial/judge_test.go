package trial

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/population"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/xds"
)

// verdicts collects checks.
type verdicts map[string]record.Check

func (j verdicts) check(name string, ok bool, format string, args ...any) {
	j[name] = record.Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)}
}

func controlTrialOf(t *testing.T, proxies int, sets ...string) *controlTrial {
	s, cell, l := controlCell(t, sets...)
	trial := &controlTrial{c: &controlPlane{study: s}, job: runner.Job{Cell: cell}, levels: l,
		out: record.Trial{Control: &record.Control{}, CPU: map[string]record.CPU{}}}
	trial.ids = make([]population.Identity, proxies)
	trial.accountAfter.Connected = proxies
	return trial
}

func TestJudgeFleet(t *testing.T) {
	for name, tt := range map[string]struct {
		sets                          []string
		edit                          func(*controlTrial)
		connected, understood, accept bool
	}{
		"all well":        {nil, func(*controlTrial) {}, true, true, true},
		"a stream lost":   {nil, func(c *controlTrial) { c.out.Control.Reconnects = map[string]int64{"reset": 1} }, false, true, true},
		"one is away":     {nil, func(c *controlTrial) { c.accountAfter.Connected-- }, false, true, true},
		"not understood":  {nil, func(c *controlTrial) { c.accountAfter.Errors = 1 }, true, false, true},
		"rejected":        {nil, func(c *controlTrial) { c.out.Control.Wire = map[string]record.Wire{"cds": {Nacks: 1}} }, true, true, false},
		"on purpose":      {[]string{"clients=rejects"}, func(c *controlTrial) { c.out.Control.Wire = map[string]record.Wire{"cds": {Nacks: 1}} }, true, true, true},
		"a storm":         {[]string{"clients=reconnect-storm"}, func(c *controlTrial) { c.accountAfter.Connected -= 2 }, true, true, true},
		"more than those": {[]string{"clients=reconnect-storm"}, func(c *controlTrial) { c.accountAfter.Connected -= 3 }, false, true, true},
	} {
		c := controlTrialOf(t, 10, tt.sets...)
		tt.edit(c)
		j := verdicts{}
		c.judgeFleet(j.check, c.levels.Clients == study.ClientsGood)
		if j["connected"].OK != tt.connected || j["understood"].OK != tt.understood || j["accepted"].OK != tt.accept {
			t.Errorf("%s: %v", name, j)
		}
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
	taken := seenAfter(12_000) // along with one that waited
	taken.CommittedNS += int64(120 * time.Millisecond)
	for name, tt := range map[string]struct {
		sets   []string
		events []record.Event
		ok     bool
	}{
		"taken along":        {nil, []record.Event{seenAfter(132_000), taken}, true},
		"as istiod waits":    {nil, spaced(seenAfter(101_000, 130_000), seenAfter(95_000)), true},
		"one sooner":         {nil, []record.Event{seenAfter(101_000, 80_000)}, false},
		"waits for nothing":  {[]string{"eds_debounce=false"}, []record.Event{seenAfter(3000, -2000)}, true},
		"before its commit":  {[]string{"eds_debounce=false"}, []record.Event{seenAfter(-30_000)}, false},
		"one of many":        {nil, spaced(append(slices.Repeat([]record.Event{seenAfter(101_000)}, 9), seenAfter(5000))...), true},
		"two of many":        {nil, spaced(append(slices.Repeat([]record.Event{seenAfter(101_000)}, 8), seenAfter(5000), seenAfter(5000))...), false},
		"nobody has one yet": {nil, []record.Event{seenAfter()}, true},
		"an Envoy, polled":   {nil, []record.Event{seenAfter(-1)}, true},
	} {
		c, j := controlTrialOf(t, 1, tt.sets...), verdicts{}
		c.judgeCommits(tt.events, j.check)
		if got := j["commits-noted"]; got.OK != tt.ok || got.Name == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Changes that leave late come to no harm; others than planned at once do.
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
		c, j := controlTrialOf(t, 1), verdicts{}
		c.driven = tt.events
		if c.judgeDriver(tt.events, j.check); j["driver-schedule"].OK != tt.ok || j["driver-schedule"].Name == "" {
			t.Errorf("%s: %+v", name, j["driver-schedule"])
		}
	}
}

func TestJudgeLag(t *testing.T) {
	const ms = 1000.0
	acked := func(us ...int64) []record.Event { return []record.Event{seenAfter(us...)} }
	fast, slow, slowest := acked(100_000, 100_000, 200_000), acked(2_000_000, 2_000_000, 2_000_000), acked(6_000_000, 6_000_000, 13_000_000)
	for name, tt := range map[string]struct {
		p50, p99 float64
		turn     float64 // at either
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
		"none was acknowledged":           {0.1 * ms, 0.2 * ms, 0, xds.LagKernel, acked(-1), 3, false, 0},
		"Envoys alone":                    {0.1 * ms, 0.2 * ms, 0, xds.LagKernel, acked(-1, -1), 0, true, 0},
		"nothing was to come":             {0.1 * ms, 0.2 * ms, 0, xds.LagKernel, nil, 0, true, 0},
		"nothing was to come, yet so bad": {50 * ms, 150 * ms, 0, xds.LagKernel, nil, 0, false, 0},
	} {
		c, j := controlTrialOf(t, 3), verdicts{}
		c.accountAfter.Lag, c.accountAfter.LagSource, c.accountAfter.LagCount = record.Lag{P50: tt.p50, P99: tt.p99}, tt.source, 10
		c.accountAfter.Turn = record.Lag{P50: tt.turn, P99: tt.turn}
		warned := 0
		c.judgeLag(tt.events, toll{due: tt.due}, j.check, func(string, ...any) { warned++ })
		if got := j["simulator-lag"]; got.OK != tt.ok || warned != tt.warnings || got.Name == "" {
			t.Errorf("%s: %+v, %d warnings", name, got, warned)
		}
		c.accountAfter.LagCount = 0
		if c.judgeLag(tt.events, toll{due: tt.due}, j.check, t.Errorf); j["simulator-lag"].OK {
			t.Errorf("%s: nothing was measured, and that is fine: %+v", name, j["simulator-lag"])
		}
	}
}

func TestJudgeCosts(t *testing.T) {
	for simulator, want := range map[float64]int{0.4: 0, 0.6: 1} {
		c, warned := controlTrialOf(t, 1), 0
		c.out.CPU[record.PartControl], c.out.CPU[partSimulator] = record.CPU{UserS: 1}, record.CPU{UserS: simulator}
		if c.judgeCosts(func(string, ...any) { warned++ }); warned != want {
			t.Errorf("%v of istiod's CPU: %d warnings", simulator, warned)
		}
	}
}

func TestPlaneLives(t *testing.T) {
	a, b, again := mesh.ControlPod{Name: "a"}, mesh.ControlPod{Name: "b"}, mesh.ControlPod{Name: "a", Restarts: 1}
	state := func(pods ...mesh.ControlPod) planeState { return planeState{pods: pods} }
	for name, tt := range map[string]struct {
		before, after planeState
		diff          string
	}{
		"lived on":  {state(a, b), state(b, a), ""},
		"replaced":  {state(a), state(b), "a (restart 0) ended, b (restart 0) came"},
		"restarted": {state(a, b), state(again, b), "a (restart 0) ended, a (restart 1) came"},
		"one died":  {state(a, b), state(b), "a (restart 0) ended"},
		"all died":  {state(a), state(), "a (restart 0) ended"},
	} {
		if got := tt.before.diff(tt.after); got != tt.diff || tt.before.same(tt.after) != (tt.diff == "") {
			t.Errorf("%s: %q, same %v", name, got, tt.before.same(tt.after))
		}
	}
}

func TestControlEvidence(t *testing.T) {
	c := controlTrialOf(t, 0)
	for i := range 9 {
		c.ids = append(c.ids, population.Identity{Type: population.Sidecar, Name: fmt.Sprint("p", i), Namespace: population.Namespace(i % 3), Workload: fmt.Sprint("svc-", i)})
	}
	c.levers = mesh.Levers{Namespaces: []string{population.Namespace(1)}, Workload: map[string]string{population.AppLabel: "svc-4"}}
	var ids []string
	for _, p := range c.evidence().Proxies {
		ids = append(ids, p.ID)
	}
	// One of each namespace, and the workload that a Sidecar may select.
	if !slices.Equal(ids, []string{"p0.mm-0", "p1.mm-1", "p2.mm-2", "p4.mm-1"}) {
		t.Errorf("asks for %v", ids)
	}
}

// An API server that stands still shows in what it answers, not in what
// controllers do later.
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
		"at once":        {[]record.Event{answered("Service/a/b", 10*time.Millisecond), answered("Service/a/c", maxAnswer)}, true},
		"one stood":      {[]record.Event{answered("Service/a/b", 10*time.Millisecond), answered("Service/a/c", 9*time.Second)}, false},
		"never answered": {[]record.Event{{Object: "Service/a/b", SentNS: committedAt, Error: "no answer"}}, true},
		"a roll-out":     {[]record.Event{answered("Deployment/a/b", 9*time.Second)}, true},
	} {
		j := verdicts{}
		if judgeAnswers(tt.events, j.check); j["api-server"].OK != tt.ok {
			t.Errorf("%s: %v", name, j)
		}
	}
}

func TestDrifted(t *testing.T) {
	const us = time.Microsecond
	for _, tt := range []struct {
		moved, before, after time.Duration
		want                 bool
	}{
		{0, 0, 0, false}, {900 * us, 10 * us, 10 * us, false}, {1100 * us, 10 * us, 10 * us, true}, {-1100 * us, 10 * us, 10 * us, true},
		{5000 * us, 4000 * us, 2000 * us, false}, {-7000 * us, 4000 * us, 2000 * us, true},
	} {
		if got := drifted(tt.moved, tt.before, tt.after); got != tt.want {
			t.Errorf("%v with bounds %v and %v: %v", tt.moved, tt.before, tt.after, got)
		}
	}
}
