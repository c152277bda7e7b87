package population

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// playedWithin is how long a simulated node may take until it is ready: where kwok runs,
// it is in a second.
const playedWithin = 30 * time.Second

// TryNode makes the first simulated node of a population, where one of these sizes has
// any, and waits until it is ready: where nobody plays it, that is known before anything
// else is made. What an earlier population left goes before, but for its nodes. Whoever
// gets an error is to call [World.Remove].
func (w *World) TryNode(ctx context.Context, sizes Sizes) error {
	return w.tryNode(ctx, sizes, playedWithin)
}

func (w *World) tryNode(ctx context.Context, sizes Sizes, limit time.Duration) error {
	if sizes.nodes() == 0 {
		return nil
	}
	first := node(0)
	if err := stamp(first); err != nil {
		return err
	}
	if err := w.bring(ctx, []*unstructured.Unstructured{first}); err != nil {
		return fmt.Errorf("population: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		began := time.Now()
		n, err := w.kube.CoreV1().Nodes().Get(ctx, first.GetName(), metav1.GetOptions{}) // the limit is the node's, not the answer's
		if err == nil && nodeReady(n) {
			return nil
		}
		if (err == nil || passing(err)) && wake.Pause(limited, sinceLook(began)) == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return notReady(first.GetName(), limit, err)
	}
}

// notReady is what to say of a simulated node that was not ready in time; unread is why
// the last look did not see it, nil where it did.
func notReady(name string, limit time.Duration, unread error) error {
	switch {
	case apierrors.IsNotFound(unread):
		return errs.WithHint(fmt.Errorf("population: the simulated node %s was deleted before it was ready", name),
			"a cloud's node controller may delete nodes that its cloud does not have: docs/cluster.md, Simulated nodes")
	case unread != nil:
		return fmt.Errorf("population: read the simulated node %s: %w", name, unread)
	}
	return errs.WithHint(fmt.Errorf("population: the simulated node %s was not ready within %v", name, limit),
		"kwok plays simulated nodes and their pods; a lab on this machine has it, any other cluster needs it beforehand (kwok.sigs.k8s.io): docs/cluster.md, Simulated nodes")
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
