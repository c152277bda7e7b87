package trial

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// proxySample returns a sidecar's counters: cumulative CPU time of Envoy and of its agent in
// milliseconds, and their memory in bytes.
func proxySample(atMS int64, envoyMS, agentMS uint64, envoy, agent int64) observe.Sample {
	const ms = 1_000_000
	all := observe.CPUSample{TotalNS: (envoyMS + agentMS) * ms, UserNS: (envoyMS + agentMS) * ms, Inode: 3}
	return observe.Sample{AtUnixNS: atMS * ms, CPU: all,
		Memory: &observe.MemorySample{PSSBytes: envoy + agent, Processes: 2, PSSByCommand: map[string]int64{"envoy": envoy, "pilot-agent": agent}},
		Threads: &observe.ThreadsSample{AtUnixNS: atMS * ms, CPU: all,
			Processes: []observe.ProcessSample{{PID: 1, Command: "pilot-agent", TotalNS: agentMS * ms}, {PID: 9, Command: "envoy", TotalNS: envoyMS * ms}},
			Threads:   []observe.ThreadSample{{PID: 1, TID: 1, RunNS: agentMS * ms}, {PID: 9, TID: 9, RunNS: envoyMS / 4 * ms}, {PID: 9, TID: 10, RunNS: envoyMS / 4 * 3 * ms}}}}
}

// twoSidecars run on separate nodes, one of them with istiod.
func twoSidecars() (targets map[string][]observe.Target, before, after map[string]observe.Snapshot) {
	targets = map[string][]observe.Target{"a": {{Name: "control-0"}, {Name: record.PartServerProxy + "-0"}}, "b": {{Name: record.PartServerProxy + "-1"}}}
	before = map[string]observe.Snapshot{
		"a": {Targets: map[string]observe.Sample{"control-0": proxySample(0, 0, 0, 1, 1), record.PartServerProxy + "-0": proxySample(0, 400, 100, 50, 20)}},
		"b": {Targets: map[string]observe.Sample{record.PartServerProxy + "-1": proxySample(0, 800, 300, 50, 20)}}}
	after = map[string]observe.Snapshot{
		"a": {Targets: map[string]observe.Sample{"control-0": proxySample(10_000, 5000, 0, 1, 1), record.PartServerProxy + "-0": proxySample(10_000, 440, 120, 60, 20)}},
		"b": {Targets: map[string]observe.Sample{record.PartServerProxy + "-1": proxySample(10_000, 820, 310, 62, 30)}}}
	return targets, before, after
}

// The use of sidecars is reported by process, over all nodes, and excludes istiod's.
func TestSidecarsBetween(t *testing.T) {
	use, problems, err := sidecarsBetween(twoSidecars())
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	envoy, agent := use.Processes[record.ProcessEnvoy], use.Processes[record.ProcessAgent]
	if use.Sidecars != 2 || !near(use.SidecarSeconds, 20) || !near(use.CPU.TotalS(), 0.09) || use.PSSBytes != 172 {
		t.Errorf("%+v", use)
	}
	if !near(envoy.CPUS, 0.06) || !near(agent.CPUS, 0.03) || envoy.PSSBytes != 122 || agent.PSSBytes != 50 {
		t.Errorf("envoy %+v, agent %+v", envoy, agent)
	}
}

// A figure that only some sidecars have does not stand for all. What cannot be divided is reported
// as a whole, and restarted sidecars have no figures.
func TestSidecarsThatCannotBeRead(t *testing.T) {
	const name = record.PartServerProxy + "-1"
	edit := func(change func(*observe.Sample)) (*record.SidecarUse, []string, error) {
		targets, before, after := twoSidecars()
		sample := after["b"].Targets[name]
		change(&sample)
		after["b"].Targets[name] = sample
		return sidecarsBetween(targets, before, after)
	}
	use, problems, err := edit(func(s *observe.Sample) { s.Threads = nil })
	if err != nil || use.Processes != nil || use.CPU.TotalS() < 0.08 || use.PSSBytes != 172 || len(problems) != 1 || !strings.Contains(problems[0], "not measured separately") {
		t.Errorf("without threads: %+v, %q, %v", use, problems, err)
	}
	use, problems, err = edit(func(s *observe.Sample) { s.Memory = &observe.MemorySample{PSSBytes: 5, Missing: "not permitted"} })
	if err != nil || use.PSSBytes != 0 || use.Processes[record.ProcessEnvoy].PSSBytes != 0 || use.Processes[record.ProcessEnvoy].CPUS == 0 || len(problems) != 1 || !strings.Contains(problems[0], "not permitted") {
		t.Errorf("without memory: %+v, %q, %v", use, problems, err)
	}
	if use, _, err = edit(func(s *observe.Sample) { s.CPU.Inode = 4 }); err == nil || !strings.Contains(err.Error(), "server_proxy-1") {
		t.Errorf("started anew: %+v, %v", use, err)
	}
	if _, _, err := sidecarsBetween(map[string][]observe.Target{"a": {{Name: "control-0"}}}, nil, nil); err == nil {
		t.Error("there are none")
	}
}
