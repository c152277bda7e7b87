package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
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
			if err != nil && !kubernetes.Transient(err) {
				return fmt.Errorf("endpoints of Service %s: %w", w.Name, err)
			}
			if err == nil && hasReady(found.Items, uid) {
				break
			}
			if ended := wake.Pause(ctx, toldLook); ended != nil {
				return errors.Join(fmt.Errorf("wait for an endpoint of Service %s: %w", w.Name, ended), err)
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

// renewLook is the polling interval while the pods are recreated.
const renewLook = 50 * time.Millisecond

// renew recreates all workloads' pods before the first trial of a block that should have new ones,
// if the study requires that. The accidental properties of pods are then drawn again, and become
// part of the variation between blocks.
//
// It returns its start time, which belongs to the block's time, or zero if it recreated none.
func (d *deployed) renew(ctx context.Context, block int) (began time.Time, err error) {
	if d.block < 0 {
		d.block = block
	}
	every := d.o.Study.Blocks.Redeploy
	if every == 0 || block < d.block+every {
		return began, nil
	}
	began = time.Now().UTC()
	if err := d.replacePods(ctx); err != nil {
		return began, err
	}
	gone := time.Since(began)
	if err := d.Reconnect(ctx); err != nil {
		return began, err
	}
	d.block = block
	d.deployment++
	d.tell(runner.Event{Stage: "deploy", Text: fmt.Sprintf("deployment %d: all pods recreated in %.1f s (old ones gone after %.1f s, new ones ready after %.1f s)",
		d.deployment, time.Since(began).Seconds(), gone.Seconds(), d.ready.Sub(began).Seconds())})
	return began, nil
}

// replacePods deletes the pods of all workloads, and of the mesh's proxies that only the run uses,
// and waits until they are gone, except for those that are [lab.PodLost]. Their Deployments create
// new ones at once.
func (d *deployed) replacePods(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	apps, old := map[string]bool{}, map[string]bool{}
	for _, w := range d.workloads() {
		apps[w.Name] = true
	}
	for _, pod := range d.others {
		if pod.Namespace == d.Namespace { // else it is not part of the run
			old[pod.UID] = true
		}
	}
	pods, err := d.Kube.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("pods to recreate: %w", err)
	}
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(8)
	now := metav1.DeleteOptions{GracePeriodSeconds: site.Ptr(int64(1))}
	for i := range pods.Items {
		pod := &pods.Items[i]
		uid := string(pod.UID)
		if !apps[pod.Labels[mesh.AppLabel]] && !old[uid] || lab.PodLost(pod) {
			continue
		}
		old[uid] = true
		group.Go(func() error {
			if err := d.Kube.CoreV1().Pods(d.Namespace).Delete(each, pod.Name, now); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete pod %s: %w", pod.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for {
		pods, err := d.Kube.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{})
		switch {
		case err != nil && !kubernetes.Transient(err):
			return fmt.Errorf("wait for pods to end: %w", err)
		case err == nil && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return old[string(p.UID)] && !lab.PodLost(&p) }):
			return nil
		}
		if ended := wake.Pause(ctx, renewLook); ended != nil {
			return errs.WithHint(errors.Join(fmt.Errorf("wait for pods to end: %w", ended), err), "kubectl -n %s get pods", d.Namespace)
		}
	}
}

// Reconnect finds the pods again after a failure, and waits until they are ready.
func (d *deployed) Reconnect(ctx context.Context) error {
	return runner.InOrder(ctx, d.findPods, d.settle, d.configure, d.reachOutside)
}

// findEvery is the delay before searching again for pods that were not reached.
const findEvery = time.Second

// findPods waits until the pods are ready, and connects to them. Pods count as ready for almost a
// minute after their node has died, so it searches again until all are reached.
func (d *deployed) findPods(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	for {
		if err := d.TakenAway(limited); err != nil {
			return err
		}
		d.Redial()
		if err := d.await(limited); err != nil {
			return err
		}
		err := d.connect(limited)
		if answer := (*jsonhttp.StatusError)(nil); err == nil || errors.As(err, &answer) || wake.Pause(limited, findEvery) != nil {
			return err
		}
	}
}
