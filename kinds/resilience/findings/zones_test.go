package findings

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
)

const zoned = `
name: zoned
question: Does it hold?
story: A zone goes.
graph:
  services:
    bar: {replicas: 2}
load: {to: bar}
settings: {rate: 100, arrival: uniform}
timeline:
  duration: 4s
  steps:
  - {name: gone, at: 1s, for: 1s, zone: {service: bar}}
blocks: {min: 2, max: 2}
stop: none
assert:
- window("start").cross_zone == 0.5 && window("start").zones["r/b"] == 50
- step("gone").shift < 500.0
`

// The client in zone a calls both zones in turn. It calls zone b, which is cut off after 1,000 ms,
// until a time, in milliseconds by block.
func zonedRun(t *testing.T, until ...int64) record.Run {
	return scenarioRun(t, zoned, 2, func(_ record.Cell, block int) made {
		return made{proxies: true, host: func(due int64) string {
			if due/(10*ms)%2 == 0 || due >= until[block]*ms && due < 2000*ms {
				return "10.0.0.1:8080"
			}
			return "10.0.0.2:8080"
		}, events: func(t *record.Trial) []record.Event {
			begin, end := stepEvent(t, "gone", "zone", 1000*ms), stepEvent(t, "gone", "end zone", 2000*ms)
			begin.Object, end.Object = "r/b", "r/b"
			return []record.Event{begin, end}
		}, spoil: func(t *record.Trial) {
			pods := t.Scenario.Pods
			pods[0].Zone, pods[1].Zone, pods[2].Zone, pods[2].GoneNS = "r/a", "r/a", "r/b", 0
		}}
	})
}

func TestZones(t *testing.T) {
	f := analyze(t, zonedRun(t, 1300, 1300))
	s := f.Cells[0].Scenario
	if s.Verdict != record.VerdictPass {
		t.Errorf("%+v", s.Trials)
	}
	start, gone := s.Windows[0], s.Windows[1]
	if start.Zoned != 100 || start.CrossZone != 50 || start.Zones["r/b"] != 50 || gone.Zones["r/b"] >= gone.Zones["r/a"] || s.Total.Zoned != 400 {
		t.Errorf("%+v, %+v", start, gone)
	}
	if us := s.Steps[0].ShiftUS; us == nil || math.Abs(*us-290_000) > 1000 {
		t.Errorf("shifted after %v", us)
	}
	cell := f.Cells[0].Cell
	if x := get(t, f, "cross_zone_share", cell); math.Abs(x.Estimate-float64(s.Total.CrossZone)/400) > 1e-9 {
		t.Errorf("%+v", x)
	}
	if x := get(t, f, "time_to_shift", cell); math.Abs(x.Estimate-290_000) > 1000 {
		t.Errorf("%+v", x)
	}
}

// A zone that is called until the step ends was never left. Where nobody called it once it was cut off,
// callers turned away at once.
func TestShifted(t *testing.T) {
	never, once := analyze(t, zonedRun(t, 2000, 2000)), analyze(t, zonedRun(t, 1300, 1000))
	if x := get(t, never, "time_to_shift", never.Cells[0].Cell); x.Reason != record.ReasonNotReached {
		t.Errorf("%+v", x)
	}
	if x := get(t, once, "time_to_shift", once.Cells[0].Cell); x.Reason == record.ReasonNotReached || x.Estimate < 0 || x.Estimate > 200_000 {
		t.Errorf("%+v", x)
	}
}

// A pod that came back and went again has left, and its address is gone from then on.
func TestGone(t *testing.T) {
	pods := []record.ScenarioPod{{Service: "bar", IP: "1", ReadyNS: 100, GoneNS: 400, BackNS: 300}, {Service: "bar", IP: "1", ReadyNS: 500}, {Service: "bar", IP: "2", GoneNS: 200, BackNS: 300}}
	if got := gone(pods); !slices.Equal(got, []ledger.Gone{{Address: "1", FromNS: 400, UntilNS: 500}, {Address: "2", FromNS: 200, UntilNS: 300}}) {
		t.Errorf("%+v", got)
	}
	if !left(pods[0]) || left(pods[1]) || left(pods[2]) {
		t.Error("the wrong pods have left")
	}
}

// Connections that a gateway closes are dropped, unless clients open one for each request.
func TestDropped(t *testing.T) {
	const text = `
name: gated
question: Does it hold?
story: One drops.
mesh: istio
graph: {services: {edge: {gateway: true, replicas: 2, calls: [{to: bar}]}, bar: {replicas: 2}}}
settings: {rate: 100, arrival: uniform, keep_alive: %s}
timeline: {duration: 4s}
blocks: {min: 2, max: 2}
stop: none
assert: ["gateways.all(g, g.dropped == 0)"]
`
	for keep, want := range map[string][]int64{"true": {100, 7}, "false": {0, 5}} {
		f := idle(t, fmt.Sprintf(text, keep), 2, func(t *record.Trial) {
			t.Scenario.Gateways = []record.ScenarioGateway{{Pod: "edge-0", Connections: 100, Closed: 100, Requests: 100}, {Pod: "edge-1", Connections: 7, Closed: 7, Requests: 2}}
		})
		var got []int64
		for _, g := range f.Cells[0].Scenario.Gateways {
			got = append(got, g.Dropped)
		}
		if !slices.Equal(got, want) || f.Cells[0].Scenario.Verdict != record.VerdictFail {
			t.Errorf("keep_alive %s: dropped %v, want %v; %+v", keep, got, want, f.Cells[0].Scenario.Trials)
		}
		var named []string
		for _, n := range f.Warnings {
			if n.Is(noteDropping) {
				named = append(named, fmt.Sprint(n.Args[0]))
			}
		}
		if !slices.Contains(named, "edge-1") || slices.Contains(named, "edge-0") != (want[0] > 0) {
			t.Errorf("keep_alive %s: named %q", keep, named)
		}
	}
}
