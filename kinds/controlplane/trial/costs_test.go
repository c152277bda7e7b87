package trial

import (
	"math"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
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
