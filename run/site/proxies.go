package site

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
)

// FindProxy is the ready pod of a mesh's proxy that has a pod of its own: the one
// on a node, or any for "". It must answer.
func (s *Site) FindProxy(ctx context.Context, proxies mesh.Proxies, node string) (Pod, error) {
	pod, err := s.readyProxy(ctx, proxies, node)
	if err != nil {
		return Pod{}, err
	}
	ref := PodOf(pod)
	return ref, s.askProxy(ctx, &ref, pod, proxies)
}

// ReadyProxy is that pod, whose proxy need not answer.
func (s *Site) ReadyProxy(ctx context.Context, proxies mesh.Proxies, node string) (Pod, error) {
	pod, err := s.readyProxy(ctx, proxies, node)
	if err != nil {
		return Pod{}, err
	}
	return PodOf(pod), nil
}

func (s *Site) readyProxy(ctx context.Context, proxies mesh.Proxies, node string) (*corev1.Pod, error) {
	pods, err := s.Kube.CoreV1().Pods(proxies.Namespace).List(ctx, metav1.ListOptions{LabelSelector: proxies.Selector})
	if err != nil {
		return nil, fmt.Errorf("list the proxies %s: %w", proxies.Selector, err)
	}
	var why []string
	var coming []corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if node != "" && pod.Spec.NodeName != node {
			continue
		}
		coming = append(coming, *pod)
		if !lab.PodReady(pod) {
			why = append(why, pod.Name+": "+lab.WhyNotReady(pod))
			continue
		}
		if !s.Observed(pod.Spec.NodeName) {
			return nil, fmt.Errorf("the proxy %s is on node %s: %w", pod.Name, pod.Spec.NodeName, ErrUnobserved)
		}
		return pod, nil
	}
	where := ""
	if node != "" {
		where = " on node " + node
	}
	if len(why) == 0 {
		why = []string{"there is no such pod"}
	}
	return nil, &notReadyError{fmt.Sprintf("no proxy %s is ready%s: %s", proxies.Selector, where, strings.Join(why, "; ")), coming}
}

// notReadyError says that a proxy is not ready, and keeps the pods that may become it.
type notReadyError struct {
	text string
	pods []corev1.Pod
}

func (e *notReadyError) Error() string { return e.text }

// WatchProxy returns the watch of a wait for a proxy: it is given the error of each look
// for it, and returns one where waiting on does not help.
func (s *Site) WatchProxy(proxies mesh.Proxies) func(ctx context.Context, looked error) error {
	watch := podwait.New(s.Kube, proxies.Namespace, "the proxy "+proxies.Selector)
	return func(ctx context.Context, looked error) error {
		var seen podwait.Seen
		if unready := (*notReadyError)(nil); errors.As(looked, &unready) {
			seen.Pods, seen.Missing = unready.pods, max(0, 1-len(unready.pods))
		}
		return watch.Look(ctx, seen)
	}
}
