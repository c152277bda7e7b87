package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/procfs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespacePrefix begins the name of every run's namespace.
const NamespacePrefix = "meshtrial-"

// ownerAnnotation of a run's namespace holds its owner as JSON.
const ownerAnnotation = "meshtrial.dev/runner"

// KindAnnotation of a run's namespace names the kind of its study: some kinds
// change more than their namespace, and know how to put that back.
const KindAnnotation = "meshtrial.dev/kind"

// owner names the process that runs a run, for good: process IDs are used
// again, their start times are not, and both mean something only in one PID
// namespace of one boot of one machine.
type owner struct {
	Host         string `json:"host"` // for people
	Boot         string `json:"boot_id"`
	PIDNamespace string `json:"pid_namespace"`
	PID          int    `json:"pid"`
	StartTicks   uint64 `json:"start_ticks"` // since boot
}

// thisProcess is the owner that this process is.
func thisProcess() (owner, error) {
	o := owner{PID: os.Getpid()}
	o.Host, _ = os.Hostname()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return o, err
	}
	o.Boot = strings.TrimSpace(string(boot))
	if o.PIDNamespace, err = os.Readlink("/proc/self/ns/pid"); err != nil {
		return o, err
	}
	process, err := readProcess(o.PID)
	o.StartTicks = process.StartTime
	return o, err
}

func readProcess(pid int) (procfs.Process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procfs.Process{}, err
	}
	return procfs.ParseProcess(data)
}

// life is what can be told of an owner from here.
type life int

const (
	unknown life = iota // another machine, boot or PID namespace
	alive
	dead
)

// lifeOf tells whether o still runs, as far as the process me can see.
func lifeOf(o, me owner) life {
	if o.PID <= 0 || o.Boot == "" || o.Boot != me.Boot || o.PIDNamespace != me.PIDNamespace {
		return unknown
	}
	process, err := readProcess(o.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dead
	case err != nil:
		return unknown
	case process.StartTime != o.StartTicks || process.State == 'Z' || process.State == 'X':
		return dead
	}
	return alive
}

// annotate notes in a namespace whose it is.
func annotate(ns *corev1.Namespace, o owner) error {
	text, err := json.Marshal(o)
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
	// Owner says which process made it, for people; "" if that is not noted.
	Owner string
	// Dead says that the process certainly runs no more. Otherwise it may be
	// at work on another machine.
	Dead bool
	// Run is the run's name.
	Run string
	// Kind names the kind of its study; "" for what is no study's.
	Kind string
}

// Leftovers lists the namespaces of runs that are not known to be under way.
func Leftovers(ctx context.Context, kube kubernetes.Interface) ([]Leftover, error) {
	me, err := thisProcess()
	if err != nil {
		return nil, fmt.Errorf("look for what earlier runs left: %w", err)
	}
	list, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: RunLabel})
	if err != nil {
		return nil, fmt.Errorf("look for what earlier runs left: %w", err)
	}
	var out []Leftover
	for i := range list.Items {
		ns := &list.Items[i]
		if ns.DeletionTimestamp != nil || !strings.HasPrefix(ns.Name, NamespacePrefix) {
			continue
		}
		l := Leftover{Namespace: ns.Name, Since: ns.CreationTimestamp.Time, Run: ns.Labels[RunLabel],
			Kind: ns.Annotations[KindAnnotation]}
		var o owner
		if json.Unmarshal([]byte(ns.Annotations[ownerAnnotation]), &o) == nil {
			l.Owner = fmt.Sprintf("process %d on %s", o.PID, o.Host)
			switch lifeOf(o, me) {
			case alive:
				continue
			case dead:
				l.Dead = true
			}
		}
		out = append(out, l)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Namespace < out[j].Namespace })
	return out, nil
}

// RestoreTimeout bounds how long it may take to put back what a run changed
// outside its namespace.
const RestoreTimeout = 5 * time.Minute

// RemoveLeftovers removes the namespaces of the dead runs among all, and waits
// until they are gone, so that their pods' end disturbs no measurement.
func RemoveLeftovers(ctx context.Context, kube kubernetes.Interface, all []Leftover) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for _, l := range all {
		if l.Dead {
			if err := RemoveNamespace(ctx, kube, l.Namespace); err != nil {
				return err
			}
		}
	}
	for _, l := range all {
		if !l.Dead {
			continue
		}
		if err := awaitGone(ctx, kube, l.Namespace); err != nil {
			return err
		}
	}
	return nil
}

func awaitGone(ctx context.Context, kube kubernetes.Interface, namespace string) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, err := kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for the end of namespace %s: %w", namespace, err)
		}
		select {
		case <-ctx.Done():
			return errs.WithHint(fmt.Errorf("namespace %s of an earlier run does not end: %w", namespace, ctx.Err()),
				"kubectl describe namespace %s", namespace)
		case <-ticker.C:
		}
	}
}

// RemoveNamespace deletes a namespace, and with it everything that a run
// made; one that is gone is fine.
func RemoveNamespace(ctx context.Context, kube kubernetes.Interface, namespace string) error {
	err := kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{
		PropagationPolicy: Ptr(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return errs.WithHint(fmt.Errorf("remove namespace %s: %w", namespace, err), "kubectl delete namespace %s", namespace)
	}
	return nil
}
