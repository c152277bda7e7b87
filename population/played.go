package population

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/errs"
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
		n, err := w.kube.CoreV1().Nodes().Get(limited, first.GetName(), metav1.GetOptions{})
		if err == nil && nodeReady(n) {
			return nil
		}
		if err == nil || limited.Err() == nil && passing(err) {
			if wake.Pause(limited, sinceLook(began)) == nil {
				continue
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		seen := ""
		if err != nil && limited.Err() == nil { // a controller of the cloud may have deleted it
			seen = ": " + err.Error()
		}
		return errs.WithHint(fmt.Errorf("population: the simulated node %s was not ready within %v%s", first.GetName(), limit, seen),
			"kwok plays simulated nodes and their pods; a lab on this machine has it, any other cluster needs it beforehand (kwok.sigs.k8s.io): docs/cluster.md, Simulated nodes")
	}
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
