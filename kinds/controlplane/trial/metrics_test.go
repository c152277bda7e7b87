package trial

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// apiPage returns kube-apiserver's CPU as its metrics page reports it, some seconds after the first
// reading.
func apiPage(seconds, cpu float64) planeState {
	return planeState{apiAt: time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second))),
		api: []observe.Metric{{Name: "process_cpu_seconds_total", Type: "counter", Value: cpu}, {Name: "process_start_time_seconds", Type: "gauge", Value: 1}}}
}

// Neither idle use nor the window includes what readings cost the API server.
func TestAPIServerIsNetOfReadings(t *testing.T) {
	// A reading costs 50 ms and takes 0.1 s; idle it uses 3% of a core.
	trial := &controlTrial{idleAPI: apiIdle{first: apiPage(0, 7), second: apiPage(0.1, 7.05)}, before: apiPage(2.2, 7.16), after: apiPage(22.3, 8.21)}
	var c record.Control
	trial.costAPIServer(&c)
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
	if c.APIServer == nil || !near(c.APIServer.UserS, 1) || !near(c.APIServerSeconds, 20) {
		t.Errorf("in the window %+v in %v s", c.APIServer, c.APIServerSeconds)
	}
	if c.APIServerIdle == nil || !near(c.APIServerIdle.UserS, 0.06) || !near(c.APIServerIdleSeconds, 2) {
		t.Errorf("idle %+v in %v s", c.APIServerIdle, c.APIServerIdleSeconds)
	}
	for name, tt := range map[string]*controlTrial{
		"no idle time":       {before: apiPage(0, 7), after: apiPage(20, 8)},
		"no page afterwards": {idleAPI: trial.idleAPI, before: trial.before},
		"no page at all":     {},
	} {
		var c record.Control
		tt.costAPIServer(&c)
		if c.APIServerIdle != nil || (c.APIServer != nil) != (name == "no idle time") {
			t.Errorf("%s: %+v, idle %+v", name, c.APIServer, c.APIServerIdle)
		}
	}
}

func TestLives(t *testing.T) {
	a, b := verdict.Replica{Pod: "istiod-a"}, verdict.Replica{Pod: "istiod-b"}
	if lifeOf([]verdict.Replica{a, b}) != lifeOf([]verdict.Replica{b, a}) {
		t.Error("the order in which pods are listed makes another life")
	}
	again := a
	again.Restarts++
	if one := lifeOf([]verdict.Replica{a}); one == lifeOf([]verdict.Replica{again}) || one == lifeOf([]verdict.Replica{b}) || one == "" {
		t.Errorf("%q is the life of another container too", one)
	}
	trial := &controlTrial{c: &controlPlane{}}
	if got := trial.sidecarLife(); got != "" {
		t.Errorf("no sidecar has the life %q", got)
	}
	trial.c.reals = []site.Pod{{Containers: map[string]string{"worker": "2", "istio-proxy": "1"}}, {Containers: map[string]string{"istio-proxy": "3"}}}
	if got := trial.sidecarLife(); got != "1,2,3" {
		t.Errorf("%q", got)
	}
}

func TestLeverEvidence(t *testing.T) {
	c := &controlTrial{c: &controlPlane{}, out: record.Trial{Control: &record.Control{}}}
	for i := range 9 {
		c.ids = append(c.ids, population.Identity{Type: population.Sidecar, Name: fmt.Sprint("p", i), Namespace: population.Namespace(i % 3), Workload: fmt.Sprint("svc-", i)})
	}
	c.levers = mesh.Levers{Namespaces: []string{population.Namespace(1)}, Workload: map[string]string{population.AppLabel: "svc-4"}}
	var ids []string
	for _, p := range c.leverEvidence().Proxies {
		ids = append(ids, p.ID)
	}
	// One of each namespace, and the workload that a Sidecar may select.
	if !slices.Equal(ids, []string{"p0.mm-0", "p1.mm-1", "p2.mm-2", "p4.mm-1"}) {
		t.Errorf("asks for %v", ids)
	}
	// In a cell without simulated proxies a real one proves the levers.
	s, _, _ := controlCell(t)
	controlplane.Of(s).RealEndpoints = true
	alone := &controlTrial{c: &controlPlane{study: s, reals: []site.Pod{{Name: "r0", Namespace: population.Namespace(0)}, {Name: "r1", Namespace: population.Namespace(0)}}},
		out: c.out, levels: controlplane.Levels{Services: 3}, known: mesh.Levers{Workload: map[string]string{population.AppLabel: "svc-0"}}}
	if p := alone.leverEvidence().Proxies; len(p) != 1 || p[0].ID != "r0.mm-0" || p[0].Namespace != "mm-0" || p[0].Labels[population.AppLabel] != "svc-0" || p[0].Gateway {
		t.Errorf("asks for %+v", p)
	}
}

// scraped returns a page of istiod's metrics.
func scraped(t *testing.T, config, eds int) observe.Scrape {
	t.Helper()
	text := fmt.Sprintf("# TYPE pilot_inbound_updates counter\npilot_inbound_updates{type=\"config\"} %d\npilot_inbound_updates{type=\"eds\"} %d\n"+
		"# TYPE pilot_xds_pushes counter\npilot_xds_pushes{type=\"cds\"} %d\n", config, eds, 1000*config)
	page, err := observe.ParsePrometheus([]byte(text))
	must.OK(t, err)
	return observe.Scrape{Replicas: map[string][]observe.Metric{"istiod": page}}
}

func TestInbound(t *testing.T) {
	for _, tt := range []struct {
		name        string
		config, eds int
		want        float64
		err         bool
	}{
		{"still", 5, 7, 0, false},
		{"changes of both kinds", 8, 8, 4, false},
		{"another istiod", 1, 0, 0, true},
	} {
		got, err := inbound(scraped(t, 5, 7), scraped(t, tt.config, tt.eds))
		if got != tt.want || (err != nil) != tt.err {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
}
