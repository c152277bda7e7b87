package advice

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/golden"
)

type (
	numbers map[string]float64 // by quantity
	texts   map[string]string  // by lever, or by part
)

// knowledge is what a case knows about a mesh.
type knowledge struct {
	numbers        numbers
	levers, limits texts
	doubt          string
}

// healthy is a mesh that nothing limits, with everything known.
var healthy = knowledge{
	numbers: numbers{
		"debounce": 0.12, "context": 0.002, "queue": 0.01, "queue_and_push": 0.03, "push_p99": 0.08, "send": 0.001,
		"rounds_of_all": 0.5, "updates_of_all": 1.5, "turns_per_s": 25, "proxies": 50, "contexts": 0.001,
		"bytes_per_turn": 10_000, "procs": 2, "cpu": 0.2, "cpu_idle": 0.01, "throttled_of_all": 0,
		"machine_busy": 0.4, "locks_waiting": 0.05, "memory": 2e8, "memory_fullest": 2e8,
		"busiest_replica": 1, "busiest_by_chance": 1.4, "growth": 0, "triggers_per_s": 25, "connects_most": 0.1,
		"connects_per_s": 0, "restarts": 0, "rejects_per_s": 0, "rejected_ever": 0, "identical_share": 0.1,
		"idle_writes_share": 0, "idle_writes_per_s": 0, "useful_writes_per_s": 1.5, "config_dump_bytes": 8e5,
		"config_bytes": 2e5, "unused_share": 0.2, "unused_clusters": 10, "scoped_share": 0, "dns_clusters": 0,
		"dns_clusters_mean": 0, "headless_listeners": 0, "headless_share": 0, "headless_triggers_per_s": 0,
		"listener_pushes_per_s": 5, "access_log_share": 0.02, "filter_share": 0.02, "worker_busiest": 0.4,
		"worker_threads": 2, "proxy_cpu_limit": 2, "proxy_throttled": 0,
	},
	levers: texts{
		study.FactorDebounceAfter: "100ms", controlplane.FactorDebounceMax: "10s", controlplane.FactorPushThrottle: "default",
		controlplane.FactorIstiodReplicas: "1", controlplane.FactorIstiodCPU: "none", controlplane.FactorIstiodMemory: "none",
		controlplane.FactorEDSDebounce: "true", controlplane.FactorSidecarScope: "none", controlplane.FactorDiscoverySelectors: "none",
		controlplane.FactorRequestLimit: "default", controlplane.FactorConnectionAge: "30m",
	},
	limits: texts{record.PartClientProxy: "none", record.PartServerProxy: "none"},
}

// with changes what is known: unknown removes a quantity, "" a lever or a limit.
func (k knowledge) with(c knowledge) knowledge {
	out := knowledge{maps.Clone(k.numbers), maps.Clone(k.levers), maps.Clone(k.limits), c.doubt}
	maps.Copy(out.numbers, c.numbers)
	maps.Copy(out.levers, c.levers)
	maps.Copy(out.limits, c.limits)
	maps.DeleteFunc(out.numbers, func(_ string, v float64) bool { return math.IsNaN(v) })
	for _, m := range []texts{out.levers, out.limits} {
		maps.DeleteFunc(m, func(_, v string) bool { return v == "" })
	}
	return out
}

// saturated is an istiod that uses nearly all of its CPU.
var saturated = numbers{"rounds_of_all": 2, "turns_per_s": 100, "updates_of_all": 6, "cpu": 1.9, "queue": 0.3,
	"queue_and_push": 0.7, "push_p99": 3}

// contended is an istiod with 16 CPUs whose turns wait for locks.
var contended = numbers{"proxies": 1000, "turns_per_s": 500, "procs": 16, "queue": 0.5, "queue_and_push": 0.6,
	"cpu": 1.5, "locks_waiting": 40}

// verdictCases are changes to a healthy mesh, by the rule they test.
var verdictCases = []struct {
	rule, name string
	change     knowledge
}{
	{"cpu_limit", "held back", knowledge{numbers: numbers{"throttled_of_all": 0.4, "queue": 1.2,
		"queue_and_push": 1.6, "cpu": 0.15},
		levers: texts{controlplane.FactorIstiodCPU: "200m"}}},
	{"cpu_limit", "held back on a doubtful record",
		knowledge{numbers: numbers{"throttled_of_all": 0.4, "queue": 1.2, "queue_and_push": 1.6, "cpu": 0.15},
			levers: texts{controlplane.FactorIstiodCPU: "200m"}, doubt: "no trial is valid"}},
	{"cpu_limit", "held back by an unknown limit",
		knowledge{numbers: numbers{"throttled_of_all": 0.4, "queue": 1.2, "queue_and_push": 1.6, "cpu": 0.15},
			levers: texts{controlplane.FactorIstiodCPU: ""}}},
	{"cpu_limit", "not observed, with a limit", knowledge{numbers: numbers{"throttled_of_all": unknown,
		"queue_and_push": 0.2},
		levers: texts{controlplane.FactorIstiodCPU: "2"}}},
	{"cpu_limit", "not observed, without a limit",
		knowledge{numbers: numbers{"throttled_of_all": unknown, "queue_and_push": 0.2}}},
	{"cpu_limit", "of a large limit", knowledge{numbers: numbers{"throttled_of_all": 0.1, "queue": 0.1,
		"queue_and_push": 0.2},
		levers: texts{controlplane.FactorIstiodCPU: "4"}}},
	{"debounce_long", "five seconds", knowledge{numbers: numbers{"debounce": 5},
		levers: texts{study.FactorDebounceAfter: "5s"}}},
	{"debounce_long", "an unknown setting", knowledge{numbers: numbers{"debounce": 5},
		levers: texts{study.FactorDebounceAfter: ""}}},
	{"debounce_long", "push contexts", knowledge{numbers: numbers{"debounce": 5, "context": 2.5},
		levers: texts{study.FactorDebounceAfter: "2s"}}},
	{"debounce_long", "the timer disagrees with the setting",
		knowledge{numbers: numbers{"debounce": 1}, levers: texts{study.FactorDebounceAfter: "5s"}}},
	{"debounce_long", "an unknown maximum", knowledge{numbers: numbers{"debounce": 1},
		levers: texts{study.FactorDebounceAfter: "5s", controlplane.FactorDebounceMax: ""}}},
	{"debounce_restless", "no pause", knowledge{numbers: numbers{"debounce": 9.5, "rounds_of_all": 0.1,
		"updates_of_all": 10}}},
	{"debounce_restless", "few updates", knowledge{numbers: numbers{"debounce": 9.5, "rounds_of_all": 0.1,
		"updates_of_all": 0.2}}},
	{"debounce_restless", "a short maximum", knowledge{numbers: numbers{"debounce": 0.7, "updates_of_all": 10},
		levers: texts{controlplane.FactorDebounceMax: "700ms"}}},
	{"debounce_restless", "no metric of debouncing", knowledge{numbers: numbers{"debounce": unknown}}},
	{"debounce_short", "a millisecond", knowledge{numbers: numbers{"rounds_of_all": 10, "updates_of_all": 10,
		"turns_per_s": 500, "cpu": 1.2, "debounce": 0.01},
		levers: texts{study.FactorDebounceAfter: "1ms"}}},
	{"debounce_short", "endpoints alone", knowledge{numbers: numbers{"rounds_of_all": 5, "updates_of_all": 5,
		"turns_per_s": 250, "cpu": 0.6},
		levers: texts{controlplane.FactorEDSDebounce: "false"}}},
	{"debounce_short", "few proxies", knowledge{numbers: numbers{"rounds_of_all": 10, "updates_of_all": 10,
		"turns_per_s": 50, "cpu": 1.2},
		levers: texts{study.FactorDebounceAfter: "1ms"}}},
	{"debounce_short", "overlapping rounds", knowledge{numbers: numbers{"rounds_of_all": 5.4, "updates_of_all": 6.5,
		"proxies": 100, "turns_per_s": 216,
		"queue": 0.19, "queue_and_push": 0.261, "cpu": 0.65}, levers: texts{study.FactorDebounceAfter: "1ms"}}},
	{"debounce_short", "unknown levers", knowledge{numbers: numbers{"rounds_of_all": 10, "updates_of_all": 10,
		"turns_per_s": 500, "cpu": 1.2},
		levers: texts{study.FactorDebounceAfter: "", controlplane.FactorEDSDebounce: ""}}},
	{"throttle", "one slot", knowledge{numbers: numbers{"queue": 0.075, "queue_and_push": 0.078, "cpu": 0.1},
		levers: texts{controlplane.FactorPushThrottle: "1"}}},
	{"throttle", "the default", knowledge{numbers: numbers{"queue": 0.2, "queue_and_push": 0.22, "cpu": 0.1,
		"proxies": 500, "turns_per_s": 250, "procs": 64}}},
	{"throttle", "an unknown number of slots", knowledge{numbers: numbers{"queue": 0.075, "queue_and_push": 0.078,
		"cpu": 0.1},
		levers: texts{controlplane.FactorPushThrottle: ""}}},
	{"throttle", "held back by the CPU limit", knowledge{numbers: numbers{"queue": 0.075, "queue_and_push": 0.078,
		"cpu": 0.1, "throttled_of_all": 0.1},
		levers: texts{controlplane.FactorPushThrottle: "1", controlplane.FactorIstiodCPU: "1"}}},
	{"throttle", "an unknown machine", knowledge{numbers: numbers{"queue": 0.075, "queue_and_push": 0.078, "cpu": 0.1,
		"machine_busy": unknown},
		levers: texts{controlplane.FactorPushThrottle: "1"}}},
	{"throttle", "locks", knowledge{numbers: numbers{"queue": 0.4, "queue_and_push": 0.5, "proxies": 100,
		"turns_per_s": 50, "cpu": 0.1, "locks_waiting": 9},
		levers: texts{controlplane.FactorPushThrottle: "10"}}},
	{"throttle", "slow readers", knowledge{numbers: numbers{"queue": 0.4, "queue_and_push": 0.5, "proxies": 100,
		"turns_per_s": 50, "cpu": 0.1, "send": 0.08},
		levers: texts{controlplane.FactorPushThrottle: "10"}}},
	{"throttle", "a full machine", knowledge{numbers: numbers{"queue": 0.4, "queue_and_push": 0.5, "proxies": 100,
		"turns_per_s": 50, "cpu": 0.1, "machine_busy": 0.99},
		levers: texts{controlplane.FactorPushThrottle: "10"}}},
	{"throttle", "more turns than slots", knowledge{numbers: numbers{"queue": 0.041, "queue_and_push": 0.061,
		"proxies": 400, "turns_per_s": 200, "cpu": 0.02, "procs": 128},
		levers: texts{controlplane.FactorPushThrottle: "4"}}},
	{"locks", "contended", knowledge{numbers: contended}},
	{"locks", "no profile", knowledge{numbers: contended}.and("locks_waiting", unknown)},
	{"locks", "the CPU is used up", knowledge{numbers: contended}.and("cpu", 15)},
	{"locks", "slow readers", knowledge{numbers: contended}.and("send", 0.08)},
	{"locks", "a full machine", knowledge{numbers: contended}.and("machine_busy", 0.95)},
	{"locks", "an unknown machine", knowledge{numbers: contended}.and("machine_busy", unknown)},
	{"locks", "held back", knowledge{numbers: contended,
		levers: texts{controlplane.FactorIstiodCPU: "8"}}.and("throttled_of_all", 0.2)},
	{"slow_readers", "sending takes most", knowledge{numbers: numbers{"queue": 0.3, "queue_and_push": 0.8,
		"send": 0.45}}},
	{"slow_readers", "a Sidecar is there", knowledge{numbers: numbers{"queue": 0.3, "queue_and_push": 0.8,
		"send": 0.45},
		levers: texts{controlplane.FactorSidecarScope: "mesh"}}},
	{"slow_readers", "rare pushes and much CPU", knowledge{numbers: numbers{"rounds_of_all": 0.01, "turns_per_s": 0.5,
		"queue": 0.3, "queue_and_push": 0.8,
		"send": 0.45, "cpu": 0.5}}},
	{"slow_readers", "used up", knowledge{numbers: numbers{"queue": 0.3, "queue_and_push": 0.8, "send": 0.45,
		"cpu": 1.9}}},
	{"slow_readers", "no metric of sending", knowledge{numbers: numbers{"send": unknown}}},
	{"saturated_out", "turns", knowledge{numbers: saturated}},
	{"saturated_out", "turns, with a Sidecar and replicas", knowledge{numbers: saturated,
		levers: texts{controlplane.FactorSidecarScope: "mesh", controlplane.FactorIstiodReplicas: "3"}}},
	{"saturated_out", "by bursts", knowledge{numbers: numbers{"cpu": 0.3, "queue": 0.05, "queue_and_push": 0.4,
		"push_p99": 2, "rounds_of_all": 0.3, "turns_per_s": 60}}},
	{"saturated_out", "rare and slow pushes, an idle CPU",
		knowledge{numbers: numbers{"rounds_of_all": 0.01, "turns_per_s": 0.5, "queue": 1, "queue_and_push": 1.4,
			"push_p99": 3, "cpu": 0.06}}},
	{"saturated_out", "held back", knowledge{numbers: saturated,
		levers: texts{controlplane.FactorIstiodCPU: "2"}}.and("throttled_of_all", 0.3)},
	{"saturated_out", "unknown turns", knowledge{numbers: saturated}.and("turns_per_s", unknown)},
	{"saturated_out", "an unknown queue", knowledge{numbers: saturated}.and("queue", unknown)},
	{"saturated_in", "push contexts", knowledge{numbers: numbers{"rounds_of_all": 1.5, "updates_of_all": 300,
		"cpu": 1.8, "context": 0.6, "contexts": 0.9,
		"debounce": 0.7, "queue_and_push": 0.013}}},
	{"saturated_in", "with selectors", knowledge{numbers: numbers{"rounds_of_all": 1.5, "updates_of_all": 300,
		"cpu": 1.8, "context": 0.6, "contexts": 0.9,
		"debounce": 0.7, "queue_and_push": 0.013},
		levers: texts{controlplane.FactorDiscoverySelectors: "a=b", controlplane.FactorDebounceMax: ""}}},
	{"saturated_in", "an unknown idle CPU", knowledge{numbers: numbers{"rounds_of_all": 1.5, "updates_of_all": 300,
		"cpu": 1.8, "cpu_idle": unknown,
		"debounce": 0.7, "queue_and_push": 0.013}}},
	{"no_effect", "no-op writes", knowledge{numbers: numbers{"idle_writes_share": 1, "idle_writes_per_s": 1.5,
		"useful_writes_per_s": 0, "identical_share": 0.98}}},
	{"no_effect", "no-op writes, pushes not compared",
		knowledge{numbers: numbers{"idle_writes_share": 1, "idle_writes_per_s": 1.5, "useful_writes_per_s": 0,
			"identical_share": unknown}}},
	{"no_effect", "no-op writes, other pushes", knowledge{numbers: numbers{"idle_writes_share": 1,
		"idle_writes_per_s": 1.5, "useful_writes_per_s": 0}}},
	{"no_effect", "more rounds than writes", knowledge{numbers: numbers{"rounds_of_all": 5, "idle_writes_share": 1,
		"idle_writes_per_s": 1.5, "useful_writes_per_s": 0}}},
	{"no_effect", "not watched", knowledge{numbers: numbers{"idle_writes_share": unknown,
		"idle_writes_per_s": unknown, "useful_writes_per_s": unknown}}},
	{"no_scope", "2.3 MB", knowledge{numbers: numbers{"config_bytes": 2.3e6}}},
	{"no_scope", "2.3 MB, most of it called", knowledge{numbers: numbers{"config_bytes": 2.3e6, "unused_share": 0.1}}},
	{"no_scope", "2.3 MB, calls unknown", knowledge{numbers: numbers{"config_bytes": 2.3e6, "unused_share": unknown,
		"scoped_share": unknown}}},
	{"no_scope", "2.3 MB, nobody calls it", knowledge{numbers: numbers{"config_bytes": 2.3e6, "unused_share": 0.9,
		"unused_clusters": 50}}},
	{"no_scope", "by a dump", knowledge{numbers: numbers{"config_bytes": unknown, "config_dump_bytes": 4.8e6,
		"unused_share": 0.7}}},
	{"no_scope", "an unknown scope", knowledge{numbers: numbers{"config_bytes": 2.3e6},
		levers: texts{controlplane.FactorSidecarScope: ""}}},
	{"unused_config", "scoped", knowledge{numbers: numbers{"config_bytes": 2e6, "unused_share": 0.9,
		"unused_clusters": 500, "scoped_share": 1}}},
	{"unused_config", "unscoped", knowledge{numbers: numbers{"config_bytes": 2e6, "unused_share": 0.9,
		"unused_clusters": 500}}},
	{"unused_config", "small, unscoped", knowledge{numbers: numbers{"config_bytes": 5e5, "unused_share": 0.9,
		"unused_clusters": 120}}},
	{"unused_config", "few clusters", knowledge{numbers: numbers{"unused_share": 0.9, "unused_clusters": 20}}},
	{"unused_config", "unknown scope", knowledge{numbers: numbers{"config_bytes": 2e6, "unused_share": 0.9,
		"unused_clusters": 500},
		levers: texts{controlplane.FactorSidecarScope: ""}}},
	{"unused_config", "not counted", knowledge{numbers: numbers{"unused_share": unknown, "unused_clusters": unknown}}},
	{"memory_limit", "200 MiB", knowledge{levers: texts{controlplane.FactorIstiodMemory: "200Mi"}}},
	{"memory_limit", "an unknown replica", knowledge{numbers: numbers{"memory_fullest": unknown},
		levers: texts{controlplane.FactorIstiodMemory: "200Mi"}}},
	{"memory_limit", "unknown memory", knowledge{numbers: numbers{"memory_fullest": unknown, "memory": unknown},
		levers: texts{controlplane.FactorIstiodMemory: "200Mi"}}},
	{"memory_limit", "an unknown limit", knowledge{levers: texts{controlplane.FactorIstiodMemory: ""}}},
	{"unbalanced", "one has most", knowledge{numbers: numbers{"proxies": 100, "busiest_replica": 1.9,
		"busiest_by_chance": 1.3},
		levers: texts{controlplane.FactorIstiodReplicas: "2"}}},
	{"unbalanced", "connections of" +
		" five minutes", knowledge{numbers: numbers{"proxies": 100, "busiest_replica": 1.9, "busiest_by_chance": 1.3},
		levers: texts{controlplane.FactorIstiodReplicas: "2", controlplane.FactorConnectionAge: "5m"}}},
	{"unbalanced", "read together", knowledge{numbers: numbers{"proxies": 100, "busiest_replica": unknown},
		levers: texts{controlplane.FactorIstiodReplicas: "2"}}},
	{"reconnects", "a storm", knowledge{numbers: numbers{"connects_per_s": 5}}},
	{"reconnects", "a storm, with a limit", knowledge{numbers: numbers{"connects_per_s": 5},
		levers: texts{controlplane.FactorRequestLimit: "100"}}},
	{"reconnects", "a new replica", knowledge{numbers: numbers{"connects_per_s": 5, "restarts": 1}}},
	{"reconnects", "not counted, many", knowledge{numbers: numbers{"connects_per_s": unknown, "connects_most": 40}}},
	{"reconnects", "not counted, few", knowledge{numbers: numbers{"connects_per_s": unknown}}},
	{"reconnects", "not counted, perhaps", knowledge{numbers: numbers{"connects_per_s": unknown, "connects_most": 20}}},
	{"rejected", "now", knowledge{numbers: numbers{"rejects_per_s": 0.1, "rejected_ever": 9}}},
	{"rejected", "before", knowledge{numbers: numbers{"rejected_ever": 9}}},
	{"rejected", "unknown", knowledge{numbers: numbers{"rejects_per_s": unknown}}},
	{"workers", "of the server", knowledge{numbers: numbers{"worker_busiest": 0.95},
		limits: texts{record.PartServerProxy: record.LimitConcurrency}}},
	{"workers", "an unknown number", knowledge{numbers: numbers{"worker_busiest": 0.95, "worker_threads": unknown},
		limits: texts{record.PartClientProxy: record.LimitConcurrency}}},
	{"workers", "one side unknown", knowledge{limits: texts{record.PartServerProxy: ""}}},
	{"proxy_cpu", "of the client", knowledge{numbers: numbers{"proxy_throttled": 0.5, "proxy_cpu_limit": 0.5},
		limits: texts{record.PartClientProxy: record.LimitCPU}}},
	{"proxy_cpu", "unknown", knowledge{limits: texts{record.PartClientProxy: "", record.PartServerProxy: ""}}},
	{"dns_clusters", "30 names of 500 proxies", knowledge{numbers: numbers{"dns_clusters": 30,
		"dns_clusters_mean": 30, "proxies": 500}}},
	{"dns_clusters", "30 names of 50 proxies", knowledge{numbers: numbers{"dns_clusters": 30,
		"dns_clusters_mean": 30}}},
	{"dns_clusters", "one proxy of" +
		" many has all", knowledge{numbers: numbers{"dns_clusters": 30, "dns_clusters_mean": 5, "proxies": 500}}},
	{"dns_clusters", "a collector, 5,000 proxies",
		knowledge{numbers: numbers{"dns_clusters": 1, "dns_clusters_mean": 1, "proxies": 5000}}},
	{"dns_clusters", "60 names, proxies unknown",
		knowledge{numbers: numbers{"dns_clusters": 60, "dns_clusters_mean": 60, "proxies": unknown}}},
	{"dns_clusters", "not read", knowledge{numbers: numbers{"dns_clusters": unknown, "dns_clusters_mean": unknown}}},
	{"headless", "most bytes", knowledge{numbers: numbers{"headless_listeners": 400, "headless_share": 0.82}}},
	{"headless", "most turns", knowledge{numbers: numbers{"headless_listeners": 60, "headless_share": 0.1,
		"headless_triggers_per_s": 20, "listener_pushes_per_s": 20}}},
	{"headless", "few turns", knowledge{numbers: numbers{"headless_listeners": 60, "headless_share": 0.1,
		"headless_triggers_per_s": 0.2, "listener_pushes_per_s": 20}}},
	{"headless", "HTTP ports", knowledge{numbers: numbers{"headless_listeners": 60, "headless_share": 0.1,
		"headless_triggers_per_s": 20}}},
	{"headless", "not read", knowledge{numbers: numbers{"headless_listeners": unknown}}},
	{"access_log", "30%", knowledge{numbers: numbers{"access_log_share": 0.3}}},
	{"access_log", "no bill", knowledge{numbers: numbers{"access_log_share": unknown}}},
	{"costly_filter", "30%", knowledge{numbers: numbers{"filter_share": 0.3}}},
	{"costly_filter", "no bill", knowledge{numbers: numbers{"filter_share": unknown}}},
}

// and changes one more quantity.
func (k knowledge) and(name string, v float64) knowledge {
	k.numbers = maps.Clone(k.numbers)
	k.numbers[name] = v
	return k
}

// TestVerdicts compares each rule, over changes to a healthy mesh, with a golden file: its outcome,
// the reasons, the evidence, what is missing, the steps, and their expected effects. It shows the
// rules that are not ruled out, and the rule under test.
func TestVerdicts(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "# healthy\n")
	for _, j := range judged(t, healthy) {
		fmt.Fprintln(&b, verdictLine(j))
	}
	nothing := knowledge{}
	fmt.Fprintf(&b, "# nothing is known\n")
	for _, j := range judged(t, nothing) {
		fmt.Fprintln(&b, verdictLine(j))
	}
	for _, c := range verdictCases {
		fmt.Fprintf(&b, "# %s: %s\n", c.rule, c.name)
		for _, j := range judged(t, healthy.with(c.change)) {
			if j.Rule == c.rule || j.Outcome != RuledOut {
				fmt.Fprintln(&b, verdictLine(j))
			}
		}
	}
	golden.File(t, "testdata/verdicts.golden", []byte(b.String()))
}

// verdictLine formats codes and numbers of a judgement, without its words.
func verdictLine(j Judgement) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", j.Rule, j.Outcome)
	if j.Outcome == Holds {
		fmt.Fprintf(&b, " confidence=%.4g share=%.4g", j.Confidence, j.Share)
	}
	list := func(name string, parts []string) {
		if len(parts) > 0 {
			fmt.Fprintf(&b, " %s=%s", name, strings.Join(parts, ","))
		}
	}
	var parts []string
	for _, r := range j.Why {
		parts = append(parts, r.Code)
	}
	list("why", parts)
	parts = nil
	for _, v := range j.Evidence {
		parts = append(parts, fmt.Sprintf("%s:%.6g", v.Name, v.Value))
	}
	list("evidence", parts)
	parts = nil
	for _, g := range j.Missing {
		parts = append(parts, g.Name)
	}
	list("missing", parts)
	for _, s := range j.Try {
		step := "by_hand"
		if s.Lever != "" {
			step = s.Lever + ":" + s.Level
		}
		list("try", append([]string{step}, s.Unknown...))
		list("step_expect", expectation(s.Expect))
	}
	list("expect", expectation(j.Expect))
	return b.String()
}

func expectation(e *Expected) []string {
	if e == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s:%.6g..%.6g", e.Quantity, e.Low, e.High)}
}

// judged returns all rules' judgements, in the order of a report.
func judged(t *testing.T, k knowledge) []Judgement {
	t.Helper()
	r := Judge(k.evidence(t))
	return slices.Concat(r.Advice, r.Undecided, r.RuledOut)
}

func (k knowledge) evidence(t *testing.T) *Evidence {
	t.Helper()
	e := &Evidence{Metrics: map[*Quantity]float64{}, Facts: map[*Quantity]float64{}, Levers: k.levers,
		Limits: k.limits, Doubt: k.doubt}
	for name, v := range k.numbers {
		i := slices.IndexFunc(quantities, func(q *Quantity) bool { return q.Name == name })
		if i < 0 {
			t.Fatalf("no quantity %q", name)
		}
		if q := quantities[i]; q.Query != "" {
			e.Metrics[q] = v
		} else {
			e.Facts[q] = v
		}
	}
	return e
}
