package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
		if err != nil {
			return fmt.Errorf("wait for pods to end: %w", err)
		}
		left := 0
		for i := range pods.Items {
			if pod := &pods.Items[i]; old[string(pod.UID)] && !lab.PodLost(pod) {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if err := wake.Pause(ctx, renewLook); err != nil {
			return errs.WithHint(fmt.Errorf("wait for %d pods to end: %w", left, err), "kubectl -n %s get pods", d.Namespace)
		}
	}
}

// Reconnect finds the pods again after a failure, and waits until they are ready.
func (d *deployed) Reconnect(ctx context.Context) error {
	if err := d.findPods(ctx); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	if err := d.configure(ctx); err != nil {
		return err
	}
	return d.reachOutside(ctx)
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
