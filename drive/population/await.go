package population

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/wake"
)

// await waits until the cluster's controllers have made exactly the pods and
// the endpoints that the sizes ask for, and picks the identities.
func (w *World) await(ctx context.Context, sizes Sizes) ([]Identity, error) {
	for {
		began := time.Now()
		ids, state, err := w.look(ctx, sizes)
		if err != nil && !passing(err) {
			return nil, err
		}
		if err != nil {
			state = err.Error()
		}
		if state == "" {
			return ids, nil
		}
		if err := wake.Pause(ctx, sinceLook(began)); err != nil {
			return nil, fmt.Errorf("%w (last seen: %s)", err, state)
		}
	}
}

// sinceLook is how long to wait after a look at the cluster: looking must not
// take a large share of the time that the controllers need.
func sinceLook(began time.Time) time.Duration {
	return min(max(10*time.Since(began), 200*time.Millisecond), 2*time.Second)
}

// look says what is still missing, or returns the identities.
func (w *World) look(ctx context.Context, sizes Sizes) ([]Identity, string, error) {
	ours := metav1.ListOptions{LabelSelector: Label + "=" + LabelValue, ResourceVersion: "0"}
	pods, err := w.kube.CoreV1().Pods("").List(ctx, ours)
	if err != nil {
		return nil, "", err
	}
	ready, why := 0, ""
	for i := range pods.Items {
		if running(&pods.Items[i]) {
			ready++
		} else if why == "" {
			why = "; " + pods.Items[i].Namespace + "/" + pods.Items[i].Name + whyNot(&pods.Items[i])
		}
	}
	if ready != sizes.pods() || len(pods.Items) != ready {
		if why == "" && ready < sizes.pods() {
			why = "; are kwok and the controllers running?"
		}
		return nil, fmt.Sprintf("%d of %d pods run, %d exist%s", ready, sizes.pods(), len(pods.Items), why), nil
	}
	ours.LabelSelector += "," + discoveryv1.LabelManagedBy + "!=" + sliceManager
	slices, err := w.kube.DiscoveryV1().EndpointSlices("").List(ctx, ours)
	if err != nil {
		return nil, "", err
	}
	have := readyEndpoints(slices.Items, pods.Items)
	for i := range sizes.Services {
		s := sizes.Service(i)
		if n := have[s.Namespace+"/"+s.Name]; n != s.Endpoints {
			return nil, fmt.Sprintf("Service %s/%s has %d endpoints of %d", s.Namespace, s.Name, n, s.Endpoints), nil
		}
	}
	if n := have[GatewayNamespace+"/"+GatewayDeployment]; n != sizes.Gateways {
		return nil, fmt.Sprintf("the gateways' Service has %d endpoints of %d", n, sizes.Gateways), nil
	}
	ids, err := sizes.Identities(pods.Items)
	return ids, "", err
}

// readyEndpoints counts the ready endpoints that are simulated pods, by
// Service: real pods may be behind the same one.
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

// whyNot says in a few words what a pod waits for.
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
