package trial

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// planeState is istiod at one time: its pods and their counters.
type planeState struct {
	pods    []mesh.ControlPod
	scalers []verdict.Autoscaler
	scrape  observe.Scrape
	// api holds kube-apiserver's metrics; nil if access is denied.
	api   []observe.Metric
	apiAt time.Time
}

// replicas returns the containers that make up the control plane.
func (s planeState) replicas() []verdict.Replica {
	var out []verdict.Replica
	for _, p := range s.pods {
		out = append(out, containerLife(p))
	}
	return out
}

// containerLife identifies a container; a restarted container has another identity.
func containerLife(p mesh.ControlPod) verdict.Replica {
	return verdict.Replica{Pod: p.Name, Restarts: p.Restarts}
}

// look reads the metrics of all replicas and of kube-apiserver.
func (c *controlPlane) look(ctx context.Context) (planeState, error) {
	var s planeState
	var err error
	if s.pods, err = c.mesh.Pods(ctx); err != nil {
		return s, err
	}
	scalers, err := c.mesh.Autoscalers(ctx)
	if err != nil {
		return s, err
	}
	for _, a := range scalers {
		one := verdict.Autoscaler{Name: a.Name, Min: a.Min, Max: a.Max, Replicas: a.Replicas}
		if !a.Scaled.IsZero() {
			one.ScaledNS = a.Scaled.UnixNano()
		}
		s.scalers = append(s.scalers, one)
	}
	if s.scrape, err = observe.ScrapeAll(ctx, c.replicas(s.pods)); err != nil {
		return s, fmt.Errorf("metrics of istiod: %w", err)
	}
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return s, err
	}
	// If access is denied or fails, the cost of the API server is unknown, and the record says so.
	s.api, _, _ = observe.APIServer(ctx, client, c.config.Host)
	s.apiAt = time.Now()
	return s, nil
}

// replicas returns access to istiod's own pages.
func (c *controlPlane) replicas(pods []mesh.ControlPod) []observe.Replica {
	var out []observe.Replica
	for _, p := range pods {
		out = append(out, observe.Replica{Name: p.Name, HTTP: c.istiodHTTP(p)})
	}
	return out
}

func (c *controlPlane) istiodHTTP(p mesh.ControlPod) *http.Client {
	return c.Dialer.Client(p.Namespace, p.Name, p.AdminPort)
}

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

// lifeOf names the containers that make up istiod. A different container starts a different life.
func lifeOf(replicas []verdict.Replica) string {
	var names []string
	for _, r := range replicas {
		names = append(names, fmt.Sprintf("%s/%d", r.Pod, r.Restarts))
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// sidecarLife names the containers of the real sidecars likewise; "" without any.
func (t *controlTrial) sidecarLife() string {
	var ids []string
	for _, p := range t.c.reals {
		for _, id := range p.Containers {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, ",")
}
