package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/meshtrial/meshtrial/drive/fault/drive"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/podstate"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// changer changes objects that outlive a trial and records each change first. It is a
// [journal.Journal].
type changer interface {
	Change(ctx context.Context, o journal.Object, why string, edit journal.Edit, texts ...[]fields.Step) ([]fields.Field, error)
	Apply(ctx context.Context, object *unstructured.Unstructured, why string) (step []fields.Field, made bool, err error)
	Remove(ctx context.Context, o journal.Object, why string) error
	Revert(ctx context.Context, o journal.Object, why string, step []fields.Field) error
	Restore(ctx context.Context, which func(*journal.Entry) bool) ([]journal.Outcome, error)
}

var _ changer = (*journal.Journal)(nil)

// leftovers are objects that outlive a trial and whose changes by steps could not be undone.
type leftovers struct {
	mu      sync.Mutex
	objects []journal.Object
}

func (l *leftovers) add(objects []journal.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range objects {
		if !slices.Contains(l.objects, o) {
			l.objects = append(l.objects, o)
		}
	}
}

// putRight reverts, before a trial begins, what steps of earlier trials failed to undo, since it
// would affect this trial without a trace in its record. It makes no requests if all steps were
// undone. Levers reverted along the way are set again afterwards.
func (s *stage) putRight(ctx context.Context) error {
	left := s.leftovers.objects
	if len(left) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, drive.RevertTime)
	defer cancel()
	done, err := s.changes.Restore(ctx, func(e *journal.Entry) bool { return slices.ContainsFunc(left, e.Object.Same) })
	for _, o := range done {
		if o.Err == nil {
			s.say("%s, left by a step of an earlier trial: %s", o.Entry.Object, o.Text)
		}
	}
	for _, o := range left {
		if err == nil && o.Kind == "Deployment" {
			err = servesAgain(ctx, s.Kube, o)
		}
	}
	if err != nil {
		names := make([]string, len(left))
		for i, o := range left {
			names[i] = o.String()
		}
		return errs.WithHint(fmt.Errorf("steps of earlier trials changed %s, which is not reverted and would affect this one: %w", strings.Join(names, ", "), err),
			"the run tries again when it ends; if that also fails: meshtrial cluster restore")
	}
	s.leftovers.objects = nil
	return nil
}

// servesAgain waits until a reverted Deployment has a ready pod, if it should have any: a control
// plane that was away takes time to return.
func servesAgain(ctx context.Context, kube kubernetes.Interface, o journal.Object) error {
	return podwait.Until(ctx, kube, o.Namespace, "a ready pod of "+o.String(), func(ctx context.Context) (podwait.Seen, error) {
		d, err := kube.AppsV1().Deployments(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err): // it no longer exists
			return podwait.Seen{Done: true}, nil
		case err != nil:
			return podwait.Seen{State: err.Error()}, nil
		case d.Spec.Replicas != nil && *d.Spec.Replicas == 0 || d.Status.ReadyReplicas > 0:
			return podwait.Seen{Done: true}, nil
		}
		seen := podwait.Seen{State: "it has none", Maker: podstate.Object{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}}
		seen.Pods, seen.Missing = lab.NewestPods(ctx, kube, d)
		return seen, nil
	})
}
