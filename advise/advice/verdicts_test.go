package advice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/golden"
)

// healthy is a mesh that nothing limits, with everything known, in the form of [evidence].
const healthy = `
debounce=0.12 context=0.002 queue=0.01 queue_and_push=0.03 push_p99=0.08 send=0.001 rounds_of_all=0.5
updates_of_all=1.5 turns_per_s=25 proxies=50 contexts=0.001 bytes_per_turn=1e4 procs=2 cpu=0.2
cpu_idle=0.01 throttled_of_all=0 machine_busy=0.4 locks_waiting=0.05 memory=2e8 memory_fullest=2e8
busiest_replica=1 busiest_by_chance=1.4 growth=0 triggers_per_s=25 connects_most=0.1 connects_per_s=0
restarts=0 rejects_per_s=0 rejected_ever=0 identical_share=0.1 idle_writes_share=0 idle_writes_per_s=0
useful_writes_per_s=1.5 config_dump_bytes=8e5 config_bytes=2e5 unused_share=0.2 unused_clusters=10
scoped_share=0 dns_clusters=0 dns_clusters_mean=0 headless_listeners=0 headless_share=0
headless_triggers_per_s=0 listener_pushes_per_s=5 access_log_share=0.02 filter_share=0.02 worker_busiest=0.4
worker_threads=2 proxy_cpu_limit=2 proxy_throttled=0 debounce_after=100ms debounce_max=10s
push_throttle=default istiod_replicas=1 istiod_cpu=none istiod_memory=none eds_debounce=true
sidecar_scope=none discovery_selectors=none request_limit=default connection_age=30m client_proxy=none
server_proxy=none
`

// saturated is an istiod that uses nearly all of its CPU.
const saturated = "rounds_of_all=2 turns_per_s=100 updates_of_all=6 cpu=1.9 queue=0.3 queue_and_push=0.7 push_p99=3"

// contended is an istiod with 16 CPUs whose turns wait for locks.
const contended = "proxies=1000 turns_per_s=500 procs=16 queue=0.5 queue_and_push=0.6 cpu=1.5 locks_waiting=40"

// verdictCases are changes to a healthy mesh, by the rule they test.
var verdictCases = []struct{ rule, name, change string }{
	{"cpu_limit", "held back", "throttled_of_all=0.4 queue=1.2 queue_and_push=1.6 cpu=0.15 istiod_cpu=200m"},
	{"cpu_limit", "held back on a doubtful record",
		"throttled_of_all=0.4 queue=1.2 queue_and_push=1.6 cpu=0.15 istiod_cpu=200m doubt=invalid"},
	{"cpu_limit", "held back by an unknown limit",
		"throttled_of_all=0.4 queue=1.2 queue_and_push=1.6 cpu=0.15 istiod_cpu=?"},
	{"cpu_limit", "not observed, with a limit", "throttled_of_all=? queue_and_push=0.2 istiod_cpu=2"},
	{"cpu_limit", "not observed, without a limit", "throttled_of_all=? queue_and_push=0.2"},
	{"cpu_limit", "of a large limit", "throttled_of_all=0.1 queue=0.1 queue_and_push=0.2 istiod_cpu=4"},
	{"debounce_long", "five seconds", "debounce=5 debounce_after=5s"},
	{"debounce_long", "an unknown setting", "debounce=5 debounce_after=?"},
	{"debounce_long", "push contexts", "debounce=5 context=2.5 debounce_after=2s"},
	{"debounce_long", "the timer disagrees with the setting", "debounce=1 debounce_after=5s"},
	{"debounce_long", "an unknown maximum", "debounce=1 debounce_after=5s debounce_max=?"},
	{"debounce_restless", "no pause", "debounce=9.5 rounds_of_all=0.1 updates_of_all=10"},
	{"debounce_restless", "few updates", "debounce=9.5 rounds_of_all=0.1 updates_of_all=0.2"},
	{"debounce_restless", "a short maximum", "debounce=0.7 updates_of_all=10 debounce_max=700ms"},
	{"debounce_restless", "no metric of debouncing", "debounce=?"},
	{"debounce_short", "a millisecond",
		"rounds_of_all=10 updates_of_all=10 turns_per_s=500 cpu=1.2 debounce=0.01 debounce_after=1ms"},
	{"debounce_short", "endpoints alone",
		"rounds_of_all=5 updates_of_all=5 turns_per_s=250 cpu=0.6 eds_debounce=false"},
	{"debounce_short", "few proxies", "rounds_of_all=10 updates_of_all=10 turns_per_s=50 cpu=1.2 debounce_after=1ms"},
	{"debounce_short", "overlapping rounds",
		"rounds_of_all=5.4 updates_of_all=6.5 proxies=100 turns_per_s=216 queue=0.19 queue_and_push=0.261" +
			" cpu=0.65 debounce_after=1ms"},
	{"debounce_short", "unknown levers",
		"rounds_of_all=10 updates_of_all=10 turns_per_s=500 cpu=1.2 debounce_after=? eds_debounce=?"},
	{"throttle", "one slot", "queue=0.075 queue_and_push=0.078 cpu=0.1 push_throttle=1"},
	{"throttle", "the default", "queue=0.2 queue_and_push=0.22 cpu=0.1 proxies=500 turns_per_s=250 procs=64"},
	{"throttle", "an unknown number of slots", "queue=0.075 queue_and_push=0.078 cpu=0.1 push_throttle=?"},
	{"throttle", "held back by the CPU limit",
		"queue=0.075 queue_and_push=0.078 cpu=0.1 throttled_of_all=0.1 push_throttle=1 istiod_cpu=1"},
	{"throttle", "an unknown machine", "queue=0.075 queue_and_push=0.078 cpu=0.1 machine_busy=? push_throttle=1"},
	{"throttle", "locks",
		"queue=0.4 queue_and_push=0.5 proxies=100 turns_per_s=50 cpu=0.1 locks_waiting=9 push_throttle=10"},
	{"throttle", "slow readers",
		"queue=0.4 queue_and_push=0.5 proxies=100 turns_per_s=50 cpu=0.1 send=0.08 push_throttle=10"},
	{"throttle", "a full machine",
		"queue=0.4 queue_and_push=0.5 proxies=100 turns_per_s=50 cpu=0.1 machine_busy=0.99 push_throttle=10"},
	{"throttle", "more turns than slots",
		"queue=0.041 queue_and_push=0.061 proxies=400 turns_per_s=200 cpu=0.02 procs=128 push_throttle=4"},
	{"locks", "contended", contended},
	{"locks", "no profile", contended + " locks_waiting=?"},
	{"locks", "the CPU is used up", contended + " cpu=15"},
	{"locks", "slow readers", contended + " send=0.08"},
	{"locks", "a full machine", contended + " machine_busy=0.95"},
	{"locks", "an unknown machine", contended + " machine_busy=?"},
	{"locks", "held back", contended + " istiod_cpu=8 throttled_of_all=0.2"},
	{"slow_readers", "sending takes most", "queue=0.3 queue_and_push=0.8 send=0.45"},
	{"slow_readers", "a Sidecar is there", "queue=0.3 queue_and_push=0.8 send=0.45 sidecar_scope=mesh"},
	{"slow_readers", "rare pushes and much CPU",
		"rounds_of_all=0.01 turns_per_s=0.5 queue=0.3 queue_and_push=0.8 send=0.45 cpu=0.5"},
	{"slow_readers", "used up", "queue=0.3 queue_and_push=0.8 send=0.45 cpu=1.9"},
	{"slow_readers", "no metric of sending", "send=?"},
	{"saturated_out", "turns", saturated},
	{"saturated_out", "turns, with a Sidecar and replicas", saturated + " sidecar_scope=mesh istiod_replicas=3"},
	{"saturated_out", "by bursts", "cpu=0.3 queue=0.05 queue_and_push=0.4 push_p99=2 rounds_of_all=0.3 turns_per_s=60"},
	{"saturated_out", "rare and slow pushes, an idle CPU",
		"rounds_of_all=0.01 turns_per_s=0.5 queue=1 queue_and_push=1.4 push_p99=3 cpu=0.06"},
	{"saturated_out", "held back", saturated + " istiod_cpu=2 throttled_of_all=0.3"},
	{"saturated_out", "unknown turns", saturated + " turns_per_s=?"},
	{"saturated_out", "an unknown queue", saturated + " queue=?"},
	{"saturated_in", "push contexts",
		"rounds_of_all=1.5 updates_of_all=300 cpu=1.8 context=0.6 contexts=0.9 debounce=0.7 queue_and_push=0.013"},
	{"saturated_in", "with selectors",
		"rounds_of_all=1.5 updates_of_all=300 cpu=1.8 context=0.6 contexts=0.9 debounce=0.7 queue_and_push=0.013" +
			" discovery_selectors=a=b debounce_max=?"},
	{"saturated_in", "an unknown idle CPU",
		"rounds_of_all=1.5 updates_of_all=300 cpu=1.8 cpu_idle=? debounce=0.7 queue_and_push=0.013"},
	{"no_effect", "no-op writes",
		"idle_writes_share=1 idle_writes_per_s=1.5 useful_writes_per_s=0 identical_share=0.98"},
	{"no_effect", "no-op writes, pushes not compared",
		"idle_writes_share=1 idle_writes_per_s=1.5 useful_writes_per_s=0 identical_share=?"},
	{"no_effect", "no-op writes, other pushes", "idle_writes_share=1 idle_writes_per_s=1.5 useful_writes_per_s=0"},
	{"no_effect", "more rounds than writes",
		"rounds_of_all=5 idle_writes_share=1 idle_writes_per_s=1.5 useful_writes_per_s=0"},
	{"no_effect", "not watched", "idle_writes_share=? idle_writes_per_s=? useful_writes_per_s=?"},
	{"no_scope", "2.3 MB", "config_bytes=2.3e6"},
	{"no_scope", "2.3 MB, most of it called", "config_bytes=2.3e6 unused_share=0.1"},
	{"no_scope", "2.3 MB, calls unknown", "config_bytes=2.3e6 unused_share=? scoped_share=?"},
	{"no_scope", "2.3 MB, nobody calls it", "config_bytes=2.3e6 unused_share=0.9 unused_clusters=50"},
	{"no_scope", "by a dump", "config_bytes=? config_dump_bytes=4.8e6 unused_share=0.7"},
	{"no_scope", "an unknown scope", "config_bytes=2.3e6 sidecar_scope=?"},
	{"unused_config", "scoped", "config_bytes=2e6 unused_share=0.9 unused_clusters=500 scoped_share=1"},
	{"unused_config", "unscoped", "config_bytes=2e6 unused_share=0.9 unused_clusters=500"},
	{"unused_config", "small, unscoped", "config_bytes=5e5 unused_share=0.9 unused_clusters=120"},
	{"unused_config", "few clusters", "unused_share=0.9 unused_clusters=20"},
	{"unused_config", "unknown scope", "config_bytes=2e6 unused_share=0.9 unused_clusters=500 sidecar_scope=?"},
	{"unused_config", "not counted", "unused_share=? unused_clusters=?"},
	{"memory_limit", "200 MiB", "istiod_memory=200Mi"},
	{"memory_limit", "an unknown replica", "memory_fullest=? istiod_memory=200Mi"},
	{"memory_limit", "unknown memory", "memory_fullest=? memory=? istiod_memory=200Mi"},
	{"memory_limit", "an unknown limit", "istiod_memory=?"},
	{"unbalanced", "one has most", "proxies=100 busiest_replica=1.9 busiest_by_chance=1.3 istiod_replicas=2"},
	{"unbalanced", "connections of five minutes",
		"proxies=100 busiest_replica=1.9 busiest_by_chance=1.3 istiod_replicas=2 connection_age=5m"},
	{"unbalanced", "read together", "proxies=100 busiest_replica=? istiod_replicas=2"},
	{"reconnects", "a storm", "connects_per_s=5"},
	{"reconnects", "a storm, with a limit", "connects_per_s=5 request_limit=100"},
	{"reconnects", "a new replica", "connects_per_s=5 restarts=1"},
	{"reconnects", "not counted, many", "connects_per_s=? connects_most=40"},
	{"reconnects", "not counted, few", "connects_per_s=?"},
	{"reconnects", "not counted, perhaps", "connects_per_s=? connects_most=20"},
	{"rejected", "now", "rejects_per_s=0.1 rejected_ever=9"},
	{"rejected", "before", "rejected_ever=9"},
	{"rejected", "unknown", "rejects_per_s=?"},
	{"workers", "of the server", "worker_busiest=0.95 server_proxy=concurrency"},
	{"workers", "an unknown number", "worker_busiest=0.95 worker_threads=? client_proxy=concurrency"},
	{"workers", "one side unknown", "server_proxy=?"},
	{"proxy_cpu", "of the client", "proxy_throttled=0.5 proxy_cpu_limit=0.5 client_proxy=cpu_limit"},
	{"proxy_cpu", "unknown", "client_proxy=? server_proxy=?"},
	{"dns_clusters", "30 names of 500 proxies", "dns_clusters=30 dns_clusters_mean=30 proxies=500"},
	{"dns_clusters", "30 names of 50 proxies", "dns_clusters=30 dns_clusters_mean=30"},
	{"dns_clusters", "one proxy of many has all", "dns_clusters=30 dns_clusters_mean=5 proxies=500"},
	{"dns_clusters", "a collector, 5,000 proxies", "dns_clusters=1 dns_clusters_mean=1 proxies=5000"},
	{"dns_clusters", "60 names, proxies unknown", "dns_clusters=60 dns_clusters_mean=60 proxies=?"},
	{"dns_clusters", "not read", "dns_clusters=? dns_clusters_mean=?"},
	{"headless", "most bytes", "headless_listeners=400 headless_share=0.82"},
	{"headless", "most turns",
		"headless_listeners=60 headless_share=0.1 headless_triggers_per_s=20 listener_pushes_per_s=20"},
	{"headless", "few turns",
		"headless_listeners=60 headless_share=0.1 headless_triggers_per_s=0.2 listener_pushes_per_s=20"},
	{"headless", "HTTP ports", "headless_listeners=60 headless_share=0.1 headless_triggers_per_s=20"},
	{"headless", "not read", "headless_listeners=?"},
	{"access_log", "30%", "access_log_share=0.3"},
	{"access_log", "no bill", "access_log_share=?"},
	{"costly_filter", "30%", "filter_share=0.3"},
	{"costly_filter", "no bill", "filter_share=?"},
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
	fmt.Fprintf(&b, "# nothing is known\n")
	for _, j := range judged(t) {
		fmt.Fprintln(&b, verdictLine(j))
	}
	for _, c := range verdictCases {
		fmt.Fprintf(&b, "# %s: %s\n", c.rule, c.name)
		for _, j := range judged(t, healthy, c.change) {
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
func judged(t *testing.T, known ...string) []Judgement {
	t.Helper()
	r := Judge(evidence(t, known...))
	return slices.Concat(r.Advice, r.Undecided, r.RuledOut)
}

// evidence reads what is known about a mesh from texts of the form NAME=VALUE ..., of quantities, levers and parts'
// limits. Later texts change earlier ones; "?" stands for unknown.
func evidence(t *testing.T, texts ...string) *Evidence {
	t.Helper()
	known := map[string]string{}
	for field := range strings.FieldsSeq(strings.Join(texts, " ")) {
		name, value, _ := strings.Cut(field, "=")
		known[name] = value
	}
	e := &Evidence{Metrics: map[*Quantity]float64{}, Facts: map[*Quantity]float64{}, Levers: map[string]string{},
		Limits: map[string]string{}, Doubt: known["doubt"]}
	delete(known, "doubt")
	for name, value := range known {
		_, isLever := controlplane.LeverByName(name)
		i := slices.IndexFunc(quantities, func(q *Quantity) bool { return q.Name == name })
		v, err := strconv.ParseFloat(value, 64)
		switch {
		case value == "?":
		case isLever:
			e.Levers[name] = value
		case name == record.PartClientProxy, name == record.PartServerProxy:
			e.Limits[name] = value
		case i < 0 || err != nil:
			t.Fatalf("no quantity %s=%s", name, value)
		case quantities[i].Query != "":
			e.Metrics[quantities[i]] = v
		default:
			e.Facts[quantities[i]] = v
		}
	}
	return e
}
