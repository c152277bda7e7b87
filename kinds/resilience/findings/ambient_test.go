package findings

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

const ambientSeconds = `
name: ambient-seconds
question: What does it use?
graph: {services: {bar: {replicas: 2, service_time: {mean: 10ms}}}}
load: {to: bar}
settings: {rate: 100, arrival: uniform, sidecars: ambient}
timeline: {duration: 4s}
blocks: {min: 2, max: 2}
stop: none
measures: [latency, cpu, memory]
money: {rps: 1000, core_month: 40}
`

// The use of node proxies is reported per proxy, and per request at each end of a call.
func TestNodeProxies(t *testing.T) {
	f := analyze(t, scenarioRun(t, ambientSeconds, 2, func(record.Cell, int) made {
		return made{events: func(*record.Trial) []record.Event { return nil }, spoil: func(t *record.Trial) {
			s := t.Scenario
			s.Scheduled, s.NodeProxies = 400, 2
			s.CPU = map[string]record.CPU{record.PartNode: {UserS: 0.5, SystemS: 0.3}}
			s.Memory = map[string]int64{record.PartNode: 30e6}
		}}
	}))
	want := map[string]float64{
		"cpu_node_proxy": 100, "memory_node_proxy": 15e6,
		"cpu_proxy_per_request": 0.8e6 / (2 * 400),
		"money_cores":           1000 * 2 * 0.8 / (2 * 400),
	}
	for _, x := range f.Findings {
		if v, ok := want[x.Name]; ok {
			if math.Abs(x.Estimate/v-1) > 1e-9 || x.Verdict != record.VerdictMeasured {
				t.Errorf("%+v, want %g", x, v)
			}
			delete(want, x.Name)
		}
		if x.Name == "cpu_client_proxy" && x.Verdict != record.VerdictInvalid {
			t.Errorf("there are no sidecars: %+v", x)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

// The memory of shared proxies has no price, since the mesh does not state their number, so neither
// has the total monthly cost. CPU has one.
func TestSharedMemoryHasNoPrice(t *testing.T) {
	priced := strings.Replace(ambientSeconds, "core_month: 40}", "core_month: 40, proxies: 100, gb_month: 4}", 1)
	f := analyze(t, scenarioRun(t, priced, 2, func(record.Cell, int) made {
		return made{events: func(*record.Trial) []record.Event { return nil }, spoil: func(t *record.Trial) {
			s := t.Scenario
			s.Scheduled, s.NodeProxies = 400, 1
			s.CPU = map[string]record.CPU{record.PartNode: {UserS: 0.5, SystemS: 0.3}}
			s.Memory = map[string]int64{record.PartNode: 30e6}
		}}
	}))
	if !strings.HasPrefix(f.Money, "1,000 requests per second, each one call between services") || !strings.Contains(f.Money, "where pods share proxies") {
		t.Errorf("the mesh is %q", f.Money)
	}
	has := map[string]bool{}
	for _, x := range f.Findings {
		has[x.Name] = has[x.Name] || x.Verdict == record.VerdictMeasured
	}
	for name, want := range map[string]bool{"money_cores": true, "money_cpu": true, "money_memory": false, "money_month": false} {
		if has[name] != want {
			t.Errorf("%s is measured: %v", name, has[name])
		}
	}
}

// A waypoint is an additional proxy on the way of each call. A call costs what all three took,
// whatever the mesh states as proxies per hop.
func TestWaypointOfAGraph(t *testing.T) {
	f := analyze(t, scenarioRun(t, strings.Replace(ambientSeconds, "sidecars: ambient", "sidecars: waypoint", 1), 2, func(record.Cell, int) made {
		return made{events: func(*record.Trial) []record.Event { return nil }, spoil: func(t *record.Trial) {
			s := t.Scenario
			s.Scheduled, s.NodeProxies = 400, 1
			s.CPU = map[string]record.CPU{record.PartNode: {UserS: 0.5, SystemS: 0.3}, record.PartWaypoint: {UserS: 0.8}}
			s.Memory = map[string]int64{record.PartNode: 30e6, record.PartWaypoint: 80e6}
		}}
	}))
	want := map[string]float64{"cpu_node_proxy": 200, "cpu_waypoint": 200, "memory_node_proxy": 30e6, "memory_waypoint": 80e6, "cpu_proxy_per_request": 1.6e6 / (3 * 400),
		"money_cores": 1000 * 1.6 / 400}
	for _, x := range f.Findings {
		if v, ok := want[x.Name]; ok && (math.Abs(x.Estimate/v-1) > 1e-9 || x.Verdict != record.VerdictMeasured) {
			t.Errorf("%+v, want %g", x, v)
		}
		delete(want, x.Name)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}
