package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// waiting is an attempt to acquire the Lease.
type waiting struct {
	Options
	kube     dynamic.Interface
	began    time.Time
	seen     watched
	told     string // the last reported reason for waiting
	answered bool   // the API server has answered
}

// acquire takes the Lease once it is free. It takes over a dead holder at once, and a
// silent one after [Lapse]. o limits the wait for a live holder, and acquire waits for an
// API server that has answered before unless that is gone for good.
func acquire(ctx context.Context, kube dynamic.Interface, o Options) (*unstructured.Unstructured, error) {
	w := &waiting{Options: o, kube: kube, began: time.Now()}
	for {
		taken, err := w.try(ctx)
		switch unheard := (*unheardError)(nil); {
		case errors.As(err, &unheard) && w.answered && time.Since(w.began) < o.Wait && !w.gone():
			w.tell("the API server", unheard)
		case taken != nil || err != nil:
			return taken, err
		}
		if err := wake.Pause(ctx, lookEvery); err != nil {
			return nil, fmt.Errorf("wait for the cluster's Lease: %w", err)
		}
	}
}

func (w *waiting) gone() bool { return w.Gone != nil && w.Gone() }

// tell reports what the attempt waits for, once.
func (w *waiting) tell(who string, what any) {
	if who != w.told {
		w.told = who
		w.say("waiting for the cluster: %v", what)
	}
}

// try takes the Lease if it is free, and returns nil if it is not.
func (w *waiting) try(ctx context.Context) (*unstructured.Unstructured, error) {
	if err := ensureNamespace(ctx, w.kube, w.say); err != nil {
		return nil, err
	}
	w.answered = true
	api := w.kube.Resource(leases).Namespace(Namespace)
	found, err := api.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return passed(api.Create(ctx, leaseOf(w.Holder, nil), metav1.CreateOptions{FieldManager: FieldManager}))
	}
	if err != nil {
		return nil, sayLease(err)
	}
	holder := holderOf(found)
	switch state := w.seen.look(found.GetResourceVersion(), holder, awake(), w.Dead); {
	case state == free:
		taken, err := passed(api.Update(ctx, leaseOf(w.Holder, found), metav1.UpdateOptions{FieldManager: FieldManager}))
		if taken == nil {
			return nil, err
		}
		return w.shutOut(ctx, holder, taken), nil
	case state == alive && time.Since(w.began) >= w.Wait:
		return nil, errs.WithHint(&HeldError{holder}, "wait for it with --wait 1h, or inspect it: meshtrial cluster status")
	}
	w.tell(holder.Run, holder)
	return nil, nil
}

// shutOut protects against a silent former holder that wakes up and may be about to remove
// an empty namespace. Removing the namespace here, while the Lease is held, makes the next
// one a different object. A nil result means that the Lease went with the namespace and
// must be taken again. A dead holder does not wake up, and one with entries does not
// remove the namespace.
func (w *waiting) shutOut(ctx context.Context, former Holder, taken *unstructured.Unstructured) *unstructured.Unstructured {
	if former.Run == "" || w.Keep || former.Process != "" && w.Dead != nil && w.Dead(former.Process) {
		return taken
	}
	if entries, err := Entries(ctx, w.kube); err != nil || len(entries) > 0 {
		return taken
	}
	held := func() error { return nil } // the Lease was taken a moment ago
	if removed, err := removeNamespace(ctx, w.kube, held); err != nil || !removed {
		return taken // prepared by an administrator, so no run removes it
	}
	return nil
}

// unheardError is the error of a request that the API server did not answer.
type unheardError struct{ error }

func (e *unheardError) Unwrap() error { return e.error }

// heard marks the error of an unanswered request.
func heard(err error) error {
	var told apierrors.APIStatus
	if err == nil || errors.As(err, &told) {
		return err
	}
	return &unheardError{err}
}

// passed returns a taken Lease, or nil if another attempt is worthwhile.
func passed(taken *unstructured.Unstructured, err error) (*unstructured.Unstructured, error) {
	switch {
	case err == nil:
		return taken, nil
	case passing(err):
		return nil, nil
	}
	return nil, sayLease(err)
}

func sayLease(err error) error {
	return errs.WithHint(fmt.Errorf("acquire Lease %s/%s, which names the active run: %w", Namespace, LeaseName, heard(err)), "meshtrial cluster check")
}

// passing reports whether a failed request is worth a retry.
func passing(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.HasStatusCause(err, "NamespaceTerminating")
}
