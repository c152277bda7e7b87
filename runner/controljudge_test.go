package runner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/meshmark/meshmark/mesh"
	"github.com/meshmark/meshmark/population"
	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/study"
)

// verdicts collects checks.
type verdicts map[string]record.Check

func (j verdicts) check(name string, ok bool, format string, args ...any) {
	j[name] = record.Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)}
}

func controlTrialOf(t *testing.T, proxies int, sets ...string) *controlTrial {
	s, cell, l := controlCell(t, sets...)
	trial := &controlTrial{c: &controlPlane{study: s}, job: job{cell: cell}, levels: l,
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
	} {
		c, j := controlTrialOf(t, 1, tt.sets...), verdicts{}
		c.judgeCommits(tt.events, j.check)
		if got := j["commits-noted"]; got.OK != tt.ok || got.Name == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestJudgeAnnounced(t *testing.T) {
	events := []record.Event{{}, {Missed: []int32{3}}}
	for name, tt := range map[string]struct {
		late map[int]time.Duration
		ok   bool
	}{"in time": {nil, true}, "seen all the same": {map[int]time.Duration{0: time.Second}, true}, "missed": {map[int]time.Duration{0: 1, 1: time.Second}, false}} {
		j := verdicts{}
		if judgeAnnounced(tt.late, events, j.check); j["announced"].OK != tt.ok {
			t.Errorf("%s: %+v", name, j)
		}
	}
}

func TestJudgeDriver(t *testing.T) {
	c := controlTrialOf(t, 1, "change_rate=10")
	event := func(late time.Duration) record.Event {
		return record.Event{PlannedNS: committedAt, SentNS: committedAt + int64(late)}
	}
	for late, ok := range map[time.Duration]bool{0: true, 49 * time.Millisecond: true, 60 * time.Millisecond: false} {
		j := verdicts{}
		c.driven = []record.Event{event(0), event(late), {PlannedNS: committedAt}} // the last was never sent
		if c.judgeDriver(j.check); j["driver-schedule"].OK != ok {
			t.Errorf("%v late: %+v", late, j["driver-schedule"])
		}
	}
}

func TestJudgeLag(t *testing.T) {
	for name, tt := range map[string]struct {
		p50, p99 float64
		ok       bool
	}{"none": {10, 900, true}, "small beside": {9000, 19_000, true}, "median": {11_000, 12_000, false}, "tail": {100, 21_000, false}} {
		c, j := controlTrialOf(t, 1), verdicts{}
		c.accountAfter.Lag = record.Lag{P50: tt.p50, P99: tt.p99}
		warned := 0
		c.judgeCosts([]record.Event{seenAfter(100_000, 100_000, 200_000)}, j.check, func(string, ...any) { warned++ })
		if j["simulator-lag"].OK != tt.ok || warned > 0 {
			t.Errorf("%s: %+v, %d warnings", name, j, warned)
		}
		c.out.CPU[record.PartControl], c.out.CPU[partSimulator] = record.CPU{UserS: 1}, record.CPU{UserS: 0.6}
		if c.judgeCosts(nil, j.check, func(string, ...any) { warned++ }); warned != 1 {
			t.Errorf("%s: %d warnings of the simulator's cost", name, warned)
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
	for name, tt := range map[string]struct {
		events []record.Event
		ok     bool
	}{
		"none":           {nil, true},
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
