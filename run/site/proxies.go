package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
)

// FindProxy returns the ready pod of a mesh's proxy that has its own pod: the one on a
// node, or any for "". The proxy must respond.
func (s *Site) FindProxy(ctx context.Context, proxies mesh.Proxies, node string) (Pod, error) {
	pod, err := s.readyProxy(ctx, proxies, node)
	if err != nil {
		return Pod{}, err
	}
	ref := PodOf(pod)
	return ref, s.askProxy(ctx, &ref, pod, proxies)
}

// ReadyProxy is like FindProxy, but the proxy need not respond.
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

// notReadyError reports that no proxy is ready, with the pods that may become one.
type notReadyError struct {
	text string
	pods []corev1.Pod
}

func (e *notReadyError) Error() string { return e.text }

// proxyEvery is how often AwaitProxy looks.
const proxyEvery = 200 * time.Millisecond

// AwaitProxy calls find, which is FindProxy or ReadyProxy, until it returns a proxy, an error
// that will not change, or the wait cannot succeed.
func (s *Site) AwaitProxy(ctx context.Context, find func(context.Context, mesh.Proxies, string) (Pod, error), proxies mesh.Proxies, node string) (Pod, error) {
	watch := podwait.New(s.Kube, proxies.Namespace, "the proxy "+proxies.Selector)
	var last error
	for {
		pod, err := find(ctx, proxies, node)
		if err == nil {
			return pod, nil
		}
		if last == nil || ctx.Err() == nil { // else the end of the wait would appear as the cause
			last = err
		}
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || errors.Is(err, ErrUnobserved) {
			return Pod{}, s.unready(ctx, proxies, last)
		}
		var seen podwait.Seen
		if unready := (*notReadyError)(nil); errors.As(err, &unready) {
			seen.Pods, seen.Missing = unready.pods, max(0, 1-len(unready.pods))
		}
		if terminal := watch.Look(ctx, seen); terminal != nil && ctx.Err() == nil {
			return Pod{}, terminal
		}
		if ended := wake.Pause(ctx, proxyEvery); ended != nil {
			return Pod{}, s.unready(ctx, proxies, fmt.Errorf("%w: %w", last, ended))
		}
	}
}

// statusTime limits reading an object's status after the wait for its proxy has ended.
const statusTime = 10 * time.Second

// unready adds a hint, and the status of the object from which a proxy is created, to the
// error of a wait for that proxy.
func (s *Site) unready(ctx context.Context, proxies mesh.Proxies, err error) error {
	if proxies.Of != nil && s.lab != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ctx, cancel := ending.Within(ctx, statusTime)
		defer cancel()
		err = fmt.Errorf("%w; %s", err, s.statusOf(ctx, proxies))
	}
	if proxies.Hint != "" {
		err = errs.WithHint(err, "%s", proxies.Hint)
	}
	return err
}

// statusOf describes the status of the object from which proxies are created.
func (s *Site) statusOf(ctx context.Context, proxies mesh.Proxies) string {
	client, err := dynamic.NewForConfig(s.lab.RESTConfig())
	var object *unstructured.Unstructured
	if err == nil {
		object, err = client.Resource(proxies.Of.Resource).Namespace(proxies.Namespace).Get(ctx, proxies.Of.Name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Sprintf("the status of %s %s is unknown: %v", proxies.Of.Resource.Resource, proxies.Of.Name, err)
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var said []string
	for _, one := range conditions {
		if c, ok := one.(map[string]any); ok {
			said = append(said, fmt.Sprintf("%v is %v (%v: %v)", c["type"], c["status"], c["reason"], c["message"]))
		}
	}
	if len(said) == 0 {
		said = []string{"none"}
	}
	return fmt.Sprintf("conditions of %s %s: %s", object.GetKind(), object.GetName(), strings.Join(said, ", "))
}
