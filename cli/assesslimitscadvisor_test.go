package cli

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/study"
)

// nodePage returns a node's pages second seconds after the start, with istiod throttled for a share
// of the time, as cAdvisor reports it of a container or of its pod. Without a limit cAdvisor reports
// no such metric. The node's two CPUs are three quarters busy.
func nodePage(limited bool, container string, share float64, second int) string {
	at := time.Unix(1_700_000_000+int64(second), 0)
	page := "# TYPE container_cpu_cfs_throttled_seconds_total counter\n"
	if limited {
		page += fmt.Sprintf("container_cpu_cfs_throttled_seconds_total{container=%q,id=\"/a\",namespace=\"istio-system\",pod=\"istiod-1\"} %g %d\n", container, share*float64(second), at.UnixMilli())
	}
	page += "# TYPE container_cpu_usage_seconds_total counter\n"
	for labels, cores := range map[string]float64{`container="discovery",pod="istiod-1"`: 0.2, `container="",id="/",pod=""`: 1.5} {
		page += fmt.Sprintf("container_cpu_usage_seconds_total{%s} %g %d\n", labels, cores*float64(second), at.UnixMilli())
	}
	return page + "# TYPE machine_cpu_cores gauge\nmachine_cpu_cores 2\n"
}

// The throttling that a kubelet's cAdvisor reports for istiod decides rules about a running mesh.
// An istiod without a limit needs no reading. If istiod has a limit and nothing can be read, the
// rules stay undecided.
func TestAdviceOfCAdvisor(t *testing.T) {
	for name, c := range map[string]struct {
		limit     string
		container string // "" for a cAdvisor that knows only pods
		read      bool
		share     float64
		want      map[string]string
	}{
		"held back": {"500m", "discovery", true, 0.3, map[string]string{"cpu_limit": advice.Holds,
			"slow_readers": advice.RuledOut}},
		"its pod held back": {"500m", "", true, 0.3, map[string]string{"cpu_limit": advice.Holds,
			"slow_readers": advice.RuledOut}},
		"not held back": {"500m", "discovery", true, 0.001, map[string]string{"cpu_limit": advice.RuledOut,
			"slow_readers": advice.Holds}},
		"no limit": {"none", "discovery", true, 0, map[string]string{"cpu_limit": advice.RuledOut,
			"slow_readers": advice.Holds}},
		"not read": {"500m", "discovery", false, 0, map[string]string{"cpu_limit": advice.NotEnough,
			"slow_readers": advice.NotEnough}},
	} {
		metrics := watched(t, 10, func(second int, add func(string, map[string]string)) {
			// 50 pushes a second: each waits 0.3 s and takes 0.5 s, most of it to send.
			page := fmt.Sprintf("process_start_time_seconds 1\nprocess_cpu_seconds_total %g\ngo_sched_gomaxprocs_threads 2\npilot_services 10\npilot_xds{version=\"1.31\"} 100\n", 0.2*float64(second))
			for metric, of := range map[string][2]float64{"pilot_proxy_queue_time": {50, 0.3},
				"pilot_proxy_convergence_time": {50, 0.8}, "pilot_xds_send_time": {50, 0.4},
				"pilot_debounce_time": {0.5, 0.1}, "pilot_pushcontext_init_seconds": {0.5, 0.01}} {
				page += fmt.Sprintf("%s_count %g\n%s_sum %g\n", metric, of[0]*float64(second), metric,
					of[0]*of[1]*float64(second))
			}
			add(page, map[string]string{"app": "istiod", "pod": "istiod-1"})
			if c.read {
				add(nodePage(c.limit != study.LevelNone, c.container, c.share, second), map[string]string{"job": "kubelet", "instance": "node"})
				// A node without an istiod, whose CPUs are idle.
				add("machine_cpu_cores 64\ncontainer_cpu_usage_seconds_total{id=\"/\"} 1\n", map[string]string{"job": "kubelet", "instance": "other"})
			}
		})
		if busy, known := metrics[advice.MachineBusy]; known != c.read || known && math.Abs(busy-0.75) > 0.001 {
			t.Errorf("%s: the machine is %g busy, known: %v", name, busy, known)
		}
		got := judgements(&advice.Evidence{Metrics: metrics,
			Levers: map[string]string{controlplane.FactorIstiodCPU: c.limit, controlplane.FactorIstiodReplicas: "1"}})
		for rule, want := range c.want {
			if got[rule].Outcome != want {
				t.Errorf("%s: %s is %s, not %s: %+v", name, rule, got[rule].Outcome, want, got[rule])
			}
		}
		if missing := got["cpu_limit"].Missing; !c.read && (len(missing) != 1 ||
			missing[0].Name != advice.Throttled.Name) {
			t.Errorf("%s: missing is %v", name, missing)
		}
	}
}
