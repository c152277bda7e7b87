package population

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// await waits until the cluster's controllers have created exactly the pods and
// endpoints of the sizes, and returns the identities.
func (w *World) await(ctx context.Context, sizes Sizes) (ids []Identity, err error) {
	err = podwait.Until(ctx, w.kube, metav1.NamespaceAll, "the population", func(ctx context.Context) (podwait.Seen, error) {
		began := time.Now()
		found, seen, err := w.look(ctx, sizes)
		if err != nil && !transient(err) {
			return podwait.Seen{}, err
		}
		if err != nil {
			seen.State = err.Error()
		}
		if seen.Done = seen.State == ""; seen.Done {
			ids = found
			return seen, nil
		}
		_ = wake.Pause(ctx, pauseAfter(began))
		return seen, nil
	})
	return ids, err
}

// pauseAfter returns how long to wait after a request that began at began, so that
// polling takes little time from the controllers.
func pauseAfter(began time.Time) time.Duration {
	return min(max(10*time.Since(began), 200*time.Millisecond), 2*time.Second)
}

// look returns the identities, or what is still missing.
func (w *World) look(ctx context.Context, sizes Sizes) ([]Identity, podwait.Seen, error) {
	var seen podwait.Seen
	ours := metav1.ListOptions{LabelSelector: Label + "=" + LabelValue, ResourceVersion: "0"}
	pods, err := w.kube.CoreV1().Pods("").List(ctx, ours)
	if err != nil {
		return nil, seen, err
	}
	seen.Missing, seen.Within = sizes.pods()-len(pods.Items), append(sizes.NamespaceNames(), GatewayNamespace, ZtunnelNamespace)
	ready, why := 0, ""
	for i := range pods.Items {
		if running(&pods.Items[i]) {
			ready++
			continue
		}
		seen.Pods = append(seen.Pods, pods.Items[i])
		if why == "" {
			why = "; " + pods.Items[i].Namespace + "/" + pods.Items[i].Name + whyNot(&pods.Items[i])
		}
	}
	if ready != sizes.pods() || len(pods.Items) != ready {
		if why == "" && ready < sizes.pods() {
			why = "; check that kwok and the controllers are running"
		}
		seen.State = fmt.Sprintf("%d of %d pods run, %d exist%s", ready, sizes.pods(), len(pods.Items), why)
		return nil, seen, nil
	}
	ours.LabelSelector += "," + discoveryv1.LabelManagedBy + "!=" + sliceManager
	slices, err := w.kube.DiscoveryV1().EndpointSlices("").List(ctx, ours)
	if err != nil {
		return nil, seen, err
	}
	have := readyEndpoints(slices.Items, pods.Items)
	for i := range sizes.Services {
		s := sizes.Service(i)
		if n := have[s.Namespace+"/"+s.Name]; n != s.Endpoints {
			seen.State = fmt.Sprintf("Service %s/%s has %d endpoints of %d", s.Namespace, s.Name, n, s.Endpoints)
			return nil, seen, nil
		}
	}
	if n := have[GatewayNamespace+"/"+GatewayDeployment]; n != sizes.Gateways {
		seen.State = fmt.Sprintf("the gateways' Service has %d endpoints of %d", n, sizes.Gateways)
		return nil, seen, nil
	}
	ids, err := sizes.Identities(pods.Items)
	return ids, seen, err
}

// readyEndpoints counts ready endpoints by Service. It counts simulated pods only:
// a Service may have real ones too.
func readyEndpoints(slices []discoveryv1.EndpointSlice, pods []corev1.Pod) map[string]int {
	simulated := make(map[string]bool, len(pods))
	for i := range pods {
		simulated[pods[i].Namespace+"/"+pods[i].Name] = true
	}
	out := map[string]int{}
	for i := range slices {
		s := &slices[i]
		for _, e := range s.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			if ready && e.TargetRef != nil && simulated[s.Namespace+"/"+e.TargetRef.Name] {
				out[s.Namespace+"/"+s.Labels[discoveryv1.LabelServiceName]] += len(e.Addresses)
			}
		}
	}
	return out
}

// whyNot returns the reason why a pod is not ready.
func whyNot(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return " is being deleted"
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return ": " + c.Message
		}
	}
	return " is " + string(pod.Status.Phase)
}

// listed is list, retried while the API server is busy.
func (w *World) listed(ctx context.Context) (have map[string]*unstructured.Unstructured, err error) {
	err = patiently(ctx, func() error {
		have, err = w.list(ctx)
		return err
	})
	return have, err
}

// patiently retries a request while it fails transiently: tens of thousands of objects
// keep an API server busy.
func patiently(ctx context.Context, do func() error) error {
	for {
		began := time.Now()
		err := do()
		if err == nil || !transient(err) {
			return err
		}
		if ended := wake.Pause(ctx, pauseAfter(began)); ended != nil {
			return fmt.Errorf("%w (last seen: %w)", ended, err)
		}
	}
}

// poll waits until left, which counts what remains to be deleted, returns 0.
func poll(ctx context.Context, what string, left func() (int, error)) error {
	for {
		began := time.Now()
		n, err := left()
		switch {
		case err != nil && !transient(err):
			return err
		case err == nil && n == 0:
			return nil
		}
		if err := wake.Pause(ctx, pauseAfter(began)); err != nil {
			return fmt.Errorf("wait until %d %s are deleted: %w", n, what, err)
		}
	}
}

// transient reports whether an error may resolve itself.
func transient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) // the connection
	}
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err)
}
