package istio

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// statusElection is the name prefix of a revision's Lease for writing the status of Gateways. The
// istiod that wins it pushes everything to every proxy, because only a push computes status
// (pilot/pkg/bootstrap/server.go, "gateway status"). A new istiod stands for election every 7.5 to
// 16.5 s, and wins once the previous one has left (pilot/pkg/leaderelection): long after it is
// ready.
const statusElection = "istio-gateway-status-leader"

var leaseResource = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// Timeout and polling interval for the winner of an election. A Lease that was not released expires
// after 30 s.
const (
	electionLimit = 50 * time.Second
	electionEvery = 500 * time.Millisecond
)

// electionBegins is how long a Lease may take to appear. The first istiod of a revision creates it
// and thereby wins: when it starts, before it is ready (server.go, configcontroller.go), or on its
// second attempt if that failed. An istiod that holds no elections, or only for all revisions
// together, never creates it.
const electionBegins = 17 * time.Second

// AwaitElected waits until one of istiod's replicas has won the election after which it pushes
// everything. If the Lease does not exist, it waits for it once per template of istiod's pods,
// because the levers of another trial may have prevented it.
func (c *ControlPlane) AwaitElected(ctx context.Context) error {
	name := statusElection + "-" + c.revision
	begins := time.Now().Add(electionBegins)
	ctx, cancel := context.WithTimeoutCause(ctx, electionLimit, fmt.Errorf("no replica has after %v", electionLimit))
	defer cancel()
	var last error
	for {
		template := ""
		held, won, err := c.election(ctx, name)
		if err == nil && !held {
			template, err = c.template(ctx)
		}
		switch {
		case won:
			return nil
		case err == nil && !held && (c.unelected[template] || !time.Now().Before(begins)):
			if c.unelected == nil {
				c.unelected = map[string]bool{}
			}
			c.unelected[template] = true
			return nil
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case ctx.Err() == nil:
			last = err
		}
		if wake.Pause(ctx, electionEvery) == nil {
			continue
		}
		err = fmt.Errorf("istio: wait until a replica of istiod holds Lease %s/%s: %w", Namespace, name, context.Cause(ctx))
		if last != nil {
			err = fmt.Errorf("%w: the last read failed: %w", err, last)
		}
		return errs.WithHint(err, "kubectl -n %s get lease %s -o yaml shows its holder", Namespace, name)
	}
}

// template returns the template of istiod's pods, as text.
func (c *ControlPlane) template(ctx context.Context) (string, error) {
	d, err := c.deployment(ctx)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(d.Spec.Template)
	return string(text), err
}

// election reports whether an election's Lease exists, and whether one of istiod's pods holds it.
func (c *ControlPlane) election(ctx context.Context, name string) (held, won bool, err error) {
	lease, err := c.leases.Namespace(Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("istio: read Lease %s/%s: %w", Namespace, name, err)
	}
	pods, err := c.pods(ctx)
	if err != nil {
		return true, false, err
	}
	return true, elected(lease, pods), nil
}

// elected reports whether one of the pods holds a Lease.
func elected(lease *unstructured.Unstructured, pods []corev1.Pod) bool {
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == holder && p.DeletionTimestamp == nil })
}
