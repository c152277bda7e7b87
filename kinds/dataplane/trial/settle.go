package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

const (
	// toldQuiet is the time for which the control plane must have sent the sidecars nothing: many
	// times its debounce time (Istio: 100 ms after each change), plus a moment for Envoy's threads.
	toldQuiet = 2 * time.Second
	// toldProved is that time if each sidecar shows that it has exactly the servers' new endpoints:
	// anything else in flight follows within a few debounce times.
	toldProved = 500 * time.Millisecond
	toldLook   = 200 * time.Millisecond
	// toldLimit limits the wait. The trials show what is missing by then: their requests fail, or
	// bypass the sidecars' statistics.
	toldLimit = 30 * time.Second
)

// settle waits until the Services have the ready pods as endpoints, and the control plane has
// notified the sidecars. A pod is ready before its callers know it: first connections would find no
// endpoint, or pass uncounted through a sidecar that has no listener for them yet.
func (d *deployed) settle(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, toldLimit)
	defer cancel()
	err := d.awaitEndpoints(limited)
	if configured, ok := d.o.Mesh.(mesh.Configured); ok && err == nil {
		err = awaitQuiet(limited, func(ctx context.Context) (sum float64, err error) {
			for _, pod := range slices.AppendSeq(d.Pods(), maps.Values(d.others)) {
				if pod.Proxy == nil {
					continue
				}
				stats, err := pod.Proxy.Stats(ctx, configured.ReceivedStats())
				if err != nil {
					return 0, fmt.Errorf("statistics of the proxy of pod %s: %w", pod.Name, err)
				}
				for _, n := range stats.Counters {
					sum += n
				}
			}
			return sum, nil
		}, d.haveServers)
	}
	if ctx.Err() == nil && limited.Err() != nil {
		return nil
	}
	return err
}

// awaitEndpoints waits until each Service has its pod as a ready endpoint, and no earlier pod.
// Without permission to read endpoints it does not wait.
func (d *deployed) awaitEndpoints(ctx context.Context) error {
	for v, w := range d.servers {
		uid := ""
		if role := d.workers[v]; role != nil {
			uid = role.pod.UID
		}
		if study.Entering(record.Cell{study.FactorSidecars: w.Carrier}) { // the Service leads to the gateway
			uid = d.others[record.PartGateway].UID
		}
		for {
			found, err := d.Kube.DiscoveryV1().EndpointSlices(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + w.Name})
			if apierrors.IsForbidden(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("endpoints of Service %s: %w", w.Name, err)
			}
			if hasReady(found.Items, uid) {
				break
			}
			if err := wake.Pause(ctx, toldLook); err != nil {
				return fmt.Errorf("wait for an endpoint of Service %s: %w", w.Name, err)
			}
		}
	}
	return nil
}

// hasReady reports whether an endpoint is ready, and all ready ones that name their pods belong to
// the pod with that UID ("": any pod).
func hasReady(slices []discoveryv1.EndpointSlice, uid string) (ready bool) {
	for _, s := range slices {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || !*e.Conditions.Ready {
				continue
			}
			if uid != "" && e.TargetRef != nil && string(e.TargetRef.UID) != uid {
				return false
			}
			ready = true
		}
	}
	return ready
}

// haveServers reports whether each proxy shows that it knows the pod of every present server, and
// no other. Proxies that cannot be queried, such as node proxies, or that only know some Services,
// show nothing.
func (d *deployed) haveServers(ctx context.Context) bool {
	m, ok := d.o.Mesh.(mesh.Endpointed)
	if !ok || len(d.onNodes) > 0 {
		return false
	}
	for _, pod := range slices.AppendSeq(d.Pods(), maps.Values(d.others)) {
		if pod.Proxy == nil {
			continue
		}
		page, err := pod.Proxy.Get(ctx, m.EndpointsPath(), nil)
		if err != nil {
			return false
		}
		known, err := m.Endpoints(page, d.Namespace)
		if err != nil {
			return false
		}
		for v, w := range d.servers {
			role := d.workers[v]
			if role == nil || !slices.Equal(known[w.Name], []string{role.pod.Address}) {
				return false
			}
		}
	}
	return true
}

// awaitQuiet waits until the count of read has stood still for toldQuiet, or for toldProved once
// proved reports that the sidecars have what they need.
func awaitQuiet(ctx context.Context, read func(context.Context) (float64, error), proved func(context.Context) bool) error {
	last, since := -1.0, time.Now()
	for {
		now, err := read(ctx)
		switch still := time.Since(since); {
		case err != nil:
			return err
		case now != last:
			last, since = now, time.Now()
		case still >= toldQuiet:
			return nil
		case still >= toldProved && proved(ctx):
			return nil
		}
		if err := wake.Pause(ctx, toldLook); err != nil {
			return fmt.Errorf("wait until the sidecars receive no more configuration: %w", err)
		}
	}
}
