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

// carriedBy returns the findings of a run whose proxies of nodes, and its waypoint, used CPU and memory.
func carriedBy(t *testing.T, text string, nodes int, cpu map[string]record.CPU, memory map[string]int64) record.Findings {
	t.Helper()
	return idle(t, text, 2, func(t *record.Trial) {
		s := t.Scenario
		s.Scheduled, s.NodeProxies, s.CPU, s.Memory = 400, nodes, cpu, memory
	})
}

// The use of node proxies is reported per proxy, and per request at each end of a call. A waypoint is
// an additional proxy on the way of each call, which costs what all three took.
func TestNodeProxies(t *testing.T) {
	cpu, memory := map[string]record.CPU{record.PartNode: {UserS: 0.5, SystemS: 0.3}}, map[string]int64{record.PartNode: 30e6}
	passed := map[string]record.CPU{record.PartNode: cpu[record.PartNode], record.PartWaypoint: {UserS: 0.8}}
	held := map[string]int64{record.PartNode: 30e6, record.PartWaypoint: 80e6}
	for name, c := range map[string]struct {
		found record.Findings
		want  map[string]float64 // 0: not measured
	}{
		"two nodes": {carriedBy(t, ambientSeconds, 2, cpu, memory), map[string]float64{"cpu_node_proxy": 100, "memory_node_proxy": 15e6,
			"cpu_proxy_per_request": 0.8e6 / (2 * 400), "money_cores": 1000 * 2 * 0.8 / (2 * 400), "cpu_client_proxy": 0}},
		"a waypoint": {carriedBy(t, strings.Replace(ambientSeconds, "sidecars: ambient", "sidecars: waypoint", 1), 1, passed, held), map[string]float64{
			"cpu_node_proxy": 200, "cpu_waypoint": 200, "memory_node_proxy": 30e6, "memory_waypoint": 80e6,
			"cpu_proxy_per_request": 1.6e6 / (3 * 400), "money_cores": 1000 * 1.6 / 400}},
	} {
		got := map[string]float64{}
		for _, x := range c.found.Findings {
			if x.Verdict == record.VerdictMeasured {
				got[x.Name] = x.Estimate
			}
		}
		for finding, want := range c.want {
			if v := got[finding]; math.Abs(v-want) > 1e-9*want {
				t.Errorf("%s: %s is %g, want %g", name, finding, v, want)
			}
		}
	}
}

// The memory of shared proxies has no price, since the mesh does not state their number, so neither
// has the total monthly cost. CPU has one.
func TestSharedMemoryHasNoPrice(t *testing.T) {
	f := carriedBy(t, strings.Replace(ambientSeconds, "core_month: 40}", "core_month: 40, proxies: 100, gb_month: 4}", 1), 1,
		map[string]record.CPU{record.PartNode: {UserS: 0.5, SystemS: 0.3}}, map[string]int64{record.PartNode: 30e6})
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
