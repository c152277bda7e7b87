package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// NamespacePrefix is the name prefix of every run's namespace.
const NamespacePrefix = "meshtrial-"

// ownerAnnotation of a run's namespace holds its owner as JSON.
const ownerAnnotation = "meshtrial.dev/runner"

// KindAnnotation of a run's namespace names the kind of its study: some kinds
// create objects outside the namespace, and can remove them.
const KindAnnotation = "meshtrial.dev/kind"

// leaseAnnotation of a run's namespace means that its creator held the cluster's
// Lease. If another run holds the Lease, its run is dead.
const leaseAnnotation = "meshtrial.dev/leased"

// annotate records a namespace's owner.
func annotate(ns *corev1.Namespace, owner procfs.Identity) error {
	text, err := json.Marshal(owner)
	if err != nil {
		return err
	}
	if ns.Annotations == nil {
		ns.Annotations = map[string]string{}
	}
	ns.Annotations[ownerAnnotation] = string(text)
	return nil
}

// Leftover is a namespace whose run may have ended without removing it.
type Leftover struct {
	Namespace string
	Since     time.Time
	// Owner describes the process that created it; "" if unknown.
	Owner string
	// Dead means that the run is certainly over. Otherwise it may be running on
	// another machine.
	Dead bool
	// Run is the run's name.
	Run string
	// Kind is the kind of its study; "" without a study.
	Kind string
}

// Leftovers lists the namespaces of runs that are not known to be in progress.
// The caller must hold the cluster's Lease.
func Leftovers(ctx context.Context, kube kubernetes.Interface) ([]Leftover, error) {
	me, err := procfs.Self()
	if err != nil {
		return nil, fmt.Errorf("find what earlier runs left: %w", err)
	}
	list, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: RunLabel})
	if err != nil {
		return nil, fmt.Errorf("find what earlier runs left: %w", err)
	}
	var out []Leftover
	for i := range list.Items {
		ns := &list.Items[i]
		if ns.DeletionTimestamp != nil || !strings.HasPrefix(ns.Name, NamespacePrefix) {
			continue
		}
		l := Leftover{Namespace: ns.Name, Since: ns.CreationTimestamp.Time, Run: ns.Labels[RunLabel],
			Kind: ns.Annotations[KindAnnotation]}
		l.Dead = ns.Annotations[leaseAnnotation] != ""
		var owner procfs.Identity
		if json.Unmarshal([]byte(ns.Annotations[ownerAnnotation]), &owner) == nil {
			l.Owner = owner.String()
			switch procfs.LifeOf(owner, me) {
			case procfs.Alive:
				continue
			case procfs.Dead:
				l.Dead = true
			}
		}
		out = append(out, l)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Namespace < out[j].Namespace })
	return out, nil
}

// RestoreTimeout limits the time to revert a run's changes outside its
// namespace.
const RestoreTimeout = 5 * time.Minute

// SlicesTime limits the preceding deletion of EndpointSlices without pods, each
// with its Service: 30,000 took about three minutes on two cores.
func SlicesTime(slices int) time.Duration {
	if slices == 0 {
		return 0
	}
	return time.Minute + time.Duration(slices)*10*time.Millisecond
}

// RemoveLeftovers removes the namespaces of the dead runs among all, and waits
// until they are gone, so that their terminating pods disturb no measurement.
func RemoveLeftovers(ctx context.Context, kube kubernetes.Interface, all []Leftover) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	dead := slices.DeleteFunc(slices.Clone(all), func(l Leftover) bool { return !l.Dead })
	for _, l := range dead {
		if err := RemoveNamespace(ctx, kube, l.Namespace); err != nil {
			return err
		}
	}
	for _, l := range dead {
		if err := awaitGone(ctx, kube, l.Namespace); err != nil {
			return err
		}
	}
	return nil
}

func awaitGone(ctx context.Context, kube kubernetes.Interface, namespace string) error {
	for {
		_, err := kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil && ctx.Err() == nil && !kubernetes.Transient(err) {
			return fmt.Errorf("wait for namespace %s to terminate: %w", namespace, err)
		}
		if ended := wake.Pause(ctx, goneLook); ended != nil {
			return errs.WithHint(errors.Join(fmt.Errorf("namespace %s of an earlier run does not terminate: %w", namespace, ended), err),
				"kubectl describe namespace %s", namespace)
		}
	}
}

// goneLook is the polling interval for what earlier runs left.
const goneLook = 200 * time.Millisecond

// RemoveNamespace deletes a namespace with everything that a run created. It is
// not an error if the namespace is already gone.
func RemoveNamespace(ctx context.Context, kube kubernetes.Interface, namespace string) error {
	err := kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{
		PropagationPolicy: Ptr(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return errs.WithHint(fmt.Errorf("delete namespace %s: %w", namespace, err), "kubectl delete namespace %s", namespace)
	}
	return nil
}

// endingTimeout limits the wait for pods of earlier runs. Most pods that ignore
// SIGTERM end within it.
const endingTimeout = time.Minute

// AwaitEnding waits until the pods of finished runs are gone. A run removes its
// namespace without waiting, but a hundred terminating pods take seconds of a
// node's CPU, which the next run would measure. It calls begins if it has to
// wait, and returns the namespaces that may still have pods after a minute. It does
// not wait for pods that the user may not list.
func AwaitEnding(ctx context.Context, kube kubernetes.Interface, begins func(namespaces []string)) ([]string, error) {
	list, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: RunLabel})
	if err != nil {
		return nil, fmt.Errorf("find what earlier runs left: %w", err)
	}
	var ending []string
	for _, ns := range list.Items {
		if ns.DeletionTimestamp != nil && strings.HasPrefix(ns.Name, NamespacePrefix) {
			ending = append(ending, ns.Name)
		}
	}
	limited, cancel := context.WithTimeout(ctx, endingTimeout)
	defer cancel()
	for first := true; ; first = false {
		ending = slices.DeleteFunc(ending, func(namespace string) bool {
			pods, err := kube.CoreV1().Pods(namespace).List(limited, metav1.ListOptions{Limit: 1})
			return apierrors.IsForbidden(err) || err == nil && len(pods.Items) == 0 // retry on other errors
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
		_ = wake.Pause(limited, goneLook)
	}
}
