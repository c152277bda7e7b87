package population

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// playedWithin limits how long a simulated node takes to become ready. With kwok it
// takes a second.
const playedWithin = 30 * time.Second

// TryNode creates the first simulated node, if these sizes have any, and waits until it
// is ready. So a missing kwok is noticed before anything else is created. It first
// removes an earlier population, except its nodes. After an error, call [World.Remove].
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
		n, err := w.kube.CoreV1().Nodes().Get(ctx, first.GetName(), metav1.GetOptions{}) // the limit applies to the node, not to the answer
		if err == nil && nodeReady(n) {
			return nil
		}
		if (err == nil || transient(err)) && wake.Pause(limited, pauseAfter(began)) == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return notReady(first.GetName(), limit, err)
	}
}

// notReady returns the error for a simulated node that was not ready in time; unread is
// the error of reading it, if that failed.
func notReady(name string, limit time.Duration, unread error) error {
	switch {
	case apierrors.IsNotFound(unread):
		return errs.WithHint(fmt.Errorf("population: the simulated node %s was deleted before it was ready", name),
			"a cloud's node controller may delete nodes unknown to the cloud: docs/cluster.md, Simulated nodes")
	case unread != nil:
		return fmt.Errorf("population: read the simulated node %s: %w", name, unread)
	}
	return errs.WithHint(fmt.Errorf("population: the simulated node %s was not ready within %v", name, limit),
		"kwok runs simulated nodes and their pods; a local lab includes it, any other cluster must have it installed (kwok.sigs.k8s.io): docs/cluster.md, Simulated nodes")
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
