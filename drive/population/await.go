package population

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// await waits until the cluster's controllers have made exactly the pods and
// the endpoints that the sizes ask for, and picks the identities.
func (w *World) await(ctx context.Context, sizes Sizes) (ids []Identity, err error) {
	err = podwait.Until(ctx, w.kube, metav1.NamespaceAll, "the population", func(ctx context.Context) (podwait.Seen, error) {
		began := time.Now()
		found, seen, err := w.look(ctx, sizes)
		if err != nil && !passing(err) {
			return podwait.Seen{}, err
		}
		if err != nil {
			seen.State = err.Error()
		}
		if seen.Done = seen.State == ""; seen.Done {
			ids = found
			return seen, nil
		}
		// Looking must not take a large share of the time that the controllers need.
		_ = wake.Pause(ctx, sinceLook(began))
		return seen, nil
	})
	return ids, err
}

// sinceLook is how long to wait after a look at the cluster.
func sinceLook(began time.Time) time.Duration {
	return min(max(10*time.Since(began), 200*time.Millisecond), 2*time.Second)
}

// look says what is still missing, or returns the identities.
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
			why = "; are kwok and the controllers running?"
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
