package site

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
)

// endingTimeout bounds the wait for pods of earlier runs: as long as most pods
// take that ignore the signal to end.
const endingTimeout = time.Minute

// AwaitEnding waits until the pods of runs that have ended are gone: a run
// removes its namespace and does not wait for it, but the end of a hundred pods
// takes a node seconds of CPU, which the next run would measure along. It calls
// begins if there is something to wait for, and returns the namespaces that
// still have pods after a minute, or of which that is not known.
func AwaitEnding(ctx context.Context, kube kubernetes.Interface, begins func(namespaces []string)) ([]string, error) {
	list, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: RunLabel})
	if err != nil {
		return nil, fmt.Errorf("look for what earlier runs left: %w", err)
	}
	var ending []string
	for _, ns := range list.Items {
		if ns.DeletionTimestamp != nil && strings.HasPrefix(ns.Name, NamespacePrefix) {
			ending = append(ending, ns.Name)
		}
	}
	limited, cancel := context.WithTimeout(ctx, endingTimeout)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for first := true; ; first = false {
		ending = slices.DeleteFunc(ending, func(namespace string) bool {
			pods, err := kube.CoreV1().Pods(namespace).List(limited, metav1.ListOptions{Limit: 1})
			return err == nil && len(pods.Items) == 0 // who cannot be asked is asked again
		})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case len(ending) == 0:
			return nil, nil
		case limited.Err() != nil:
			return ending, nil
		case first:
			begins(ending)
		}
		select {
		case <-limited.Done():
		case <-ticker.C:
		}
	}
}
