package istio

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// statusElection begins the name of a revision's Lease for writing the status of
// Gateways. The istiod that wins it pushes everything to every proxy, since only a push
// works status out (pilot/pkg/bootstrap/server.go, "gateway status"). A fresh istiod
// stands for it every 7.5 to 16.5 s, and wins once the former has left
// (pilot/pkg/leaderelection): long after it is ready.
const statusElection = "istio-gateway-status-leader"

var leaseResource = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// How long, and how often, is looked for who has won an election: a Lease that was not
// given back lapses after 30 s.
const (
	electionLimit = 50 * time.Second
	electionEvery = 500 * time.Millisecond
)

// AwaitElected waits until one of istiod's replicas has won the election after which it
// pushes everything. An istiod without such a Lease is not waited for.
func (c *ControlPlane) AwaitElected(ctx context.Context) error {
	name := statusElection + "-" + c.revision
	ctx, cancel := context.WithTimeoutCause(ctx, electionLimit, fmt.Errorf("nobody has after %v", electionLimit))
	defer cancel()
	for {
		lease, err := c.leases.Namespace(Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("istio: read Lease %s/%s: %w", Namespace, name, err)
		}
		pods, err := c.pods(ctx)
		if err != nil {
			return err
		}
		if elected(lease, pods) {
			return nil
		}
		if err := wake.Pause(ctx, electionEvery); err != nil {
			return errs.WithHint(fmt.Errorf("istio: wait until one of istiod's replicas has won Lease %s/%s: %w", Namespace, name, context.Cause(ctx)),
				"kubectl -n %s get lease %s -o yaml says who has it", Namespace, name)
		}
	}
}

// elected says whether one of the pods holds a Lease.
func elected(lease *unstructured.Unstructured, pods []corev1.Pod) bool {
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == holder && p.DeletionTimestamp == nil })
}
