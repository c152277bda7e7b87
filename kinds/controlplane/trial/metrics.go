package trial

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"k8s.io/client-go/rest"
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
