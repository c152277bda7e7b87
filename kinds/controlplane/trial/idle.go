package trial

import (
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// apiIdle holds kube-apiserver's metrics before the idle period, read twice in succession: reading
// them costs the API server, as do the readings of istiod's metrics that pass through it. The third
// reading is the window's first.
type apiIdle struct{ first, second planeState }

// costAPIServer records what kube-apiserver used in the window and at idle, each without the cost
// of the readings themselves.
func (t *controlTrial) costAPIServer(c *record.Control) {
	window, seconds, ok := apiCost(t.before, t.after)
	if !ok {
		return
	}
	reading, readingSeconds, ok := apiCost(t.idleAPI.first, t.idleAPI.second)
	if !ok { // no idle period: the cost of readings is unknown
		c.APIServer, c.APIServerSeconds = &window, seconds
		return
	}
	window = window.Minus(reading)
	c.APIServer, c.APIServerSeconds = &window, seconds-readingSeconds
	if idle, seconds, ok := apiCost(t.idleAPI.second, t.before); ok && seconds > readingSeconds {
		idle = idle.Minus(reading)
		c.APIServerIdle, c.APIServerIdleSeconds = &idle, seconds-readingSeconds
	}
}

// apiCost returns kube-apiserver's CPU between two readings, and the time between them.
func apiCost(before, after planeState) (cpu record.CPU, seconds float64, ok bool) {
	cpu, ok, err := observe.ProcessCPU(before.api, after.api)
	return cpu, after.apiAt.Sub(before.apiAt).Seconds(), ok && err == nil && after.apiAt.After(before.apiAt)
}
