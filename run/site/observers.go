package site

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// besideTime limits the wait for observers that no trial depends on.
const besideTime = 30 * time.Second

// AwaitObservers waits until an observer is ready on every node with pods of workloads.
// For a limited time it also waits for starting observers on other nodes that trials read.
// Once it has given up on one, it does not wait for it again until that observer has been
// ready.
func (s *Site) AwaitObservers(ctx context.Context) error {
	if s.Kubelets {
		return nil
	}
	var enough time.Time // since when all those that trials depend on are ready
	return podwait.Until(ctx, s.Kube, s.Namespace, "the observers", func(ctx context.Context) (podwait.Seen, error) {
		began := time.Now()
		pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return podwait.Seen{}, err
		}
		if lacking := Unobserved(pods.Items); len(lacking) > 0 {
			missing := slices.DeleteFunc(slices.Clone(lacking), func(node string) bool {
				return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Labels[mesh.AppLabel] == RoleObserve && p.Spec.NodeName == node })
			})
			there := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !slices.Contains(lacking, p.Spec.NodeName) })
			return podwait.Seen{State: "none on node " + strings.Join(lacking, ", "), Pods: there, Missing: len(missing)}, nil
		}
		lacking, err := s.coming(ctx, pods.Items)
		if err != nil || len(lacking) == 0 {
			return podwait.Seen{Done: true}, err
		}
		if enough.IsZero() {
			enough = began
		}
		if time.Since(enough) >= besideTime {
			s.giveUp(lacking)
			return podwait.Seen{Done: true}, nil
		}
		return podwait.Seen{State: "none yet on node " + strings.Join(lacking, ", ")}, nil
	})
}

// giveUp stops waiting for the observers of these nodes, and notes it.
func (s *Site) giveUp(nodes []string) {
	if s.missed == nil {
		s.missed = map[string]bool{}
	}
	for _, node := range nodes {
		s.missed[node] = true
	}
	if s.Note != nil {
		s.Note(fmt.Sprintf("no observer is ready on node %s after %v: nothing there is measured until one is; the run does not wait again", strings.Join(nodes, ", "), besideTime))
	}
}

// Unobserved returns the nodes that have pods of workloads but no ready observer.
func Unobserved(pods []corev1.Pod) []string {
	var out []string
	for i := range pods {
		node := pods[i].Spec.NodeName
		if app := pods[i].Labels[mesh.AppLabel]; app == RoleObserve || app == roleKeeper || slices.Contains(out, node) || lab.PodLost(&pods[i]) {
			continue
		}
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return p.Labels[mesh.AppLabel] == RoleObserve && p.Spec.NodeName == node && lab.PodReady(&p)
		}) {
			out = append(out, node)
		}
	}
	sort.Strings(out)
	return out
}

// coming returns the nodes with a starting observer that trials read in addition to the
// workloads' nodes: the control plane's, and all nodes of a shared machine, except those
// given up.
func (s *Site) coming(ctx context.Context, pods []corev1.Pod) ([]string, error) {
	beside := map[string]bool{}
	if s.mesh != nil {
		if namespace, selector := s.mesh.ControlPlane(); selector != "" {
			control, err := s.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
			if err != nil {
				return nil, fmt.Errorf("wait for the observers of mesh %s's control plane: %w", s.mesh.Name(), err)
			}
			for i := range control.Items {
				beside[control.Items[i].Spec.NodeName] = true
			}
		}
	}
	l, here := s.here()
	all := here && l.Size() > 1
	var out []string
	for i := range pods {
		pod := &pods[i]
		node := pod.Spec.NodeName
		if pod.Labels[mesh.AppLabel] != RoleObserve || pod.DeletionTimestamp != nil {
			continue
		}
		if lab.PodReady(pod) {
			delete(s.missed, node)
			continue
		}
		if _, silent := lab.PodSilent(pod); !silent && !s.missed[node] && (all || beside[node]) {
			out = append(out, node)
		}
	}
	sort.Strings(out)
	return out, nil
}
