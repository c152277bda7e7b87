package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// backLimit bounds reverting a write that came too late.
const backLimit = goneLimit + 30*time.Second

// landed checks after a write that the Lease was held until then. The machine may have
// slept before the write: another run may hold the Lease, and may have discarded the entry
// because nothing had changed yet. Such a write is reverted at once.
func (j *Journal) landed(ctx context.Context, o Object, back func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backLimit)
	defer cancel()
	lost := j.lease.await(ctx)
	if lost == nil {
		return nil
	}
	if err := back(ctx); err != nil { // not wrapped by %w, so that it is not retried
		return errs.WithHint(fmt.Errorf("%w; changes written to %s after that could not be reverted: %v", lost, o, err),
			"inspect it, and the active run: meshtrial cluster status")
	}
	return fmt.Errorf("%w; changes written to %s after that were reverted", lost, o)
}

// unchanged resets the fields of an object that was just written, unless others have
// written them since.
func unchanged(at dynamic.ResourceInterface, written *unstructured.Unstructured, step []fields.Field) func(context.Context) error {
	return latest(at, written, func(ctx context.Context, live *unstructured.Unstructured) error {
		before, answers := fields.Undo(live.Object, step)
		if left := foreign(ObjectOf(written), answers); len(left) > 0 {
			return errors.New(strings.Join(left, "; "))
		}
		_, err := at.Update(ctx, &unstructured.Unstructured{Object: before}, metav1.UpdateOptions{FieldManager: FieldManager})
		return err
	})
}

// unmade removes an object that was just created, unless others have written its fields
// since.
func unmade(at dynamic.ResourceInterface, written *unstructured.Unstructured) func(context.Context) error {
	e := &Entry{Object: ObjectOf(written), UID: string(written.GetUID()), Fields: fields.Diff(nil, written.Object)}
	return latest(at, written, func(ctx context.Context, live *unstructured.Unstructured) error {
		if others := e.others(live); len(others) > 0 {
			return errors.New(strings.Join(others, "; "))
		}
		uid, version := live.GetUID(), live.GetResourceVersion()
		return at.Delete(ctx, live.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	})
}

// latest calls back with an object as it was just written, and after a conflict with its
// current state. A missing object needs no action.
func latest(at dynamic.ResourceInterface, written *unstructured.Unstructured, back func(context.Context, *unstructured.Unstructured) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := back(ctx, written)
		for apierrors.IsConflict(err) {
			var live *unstructured.Unstructured
			if live, err = at.Get(ctx, written.GetName(), metav1.GetOptions{}); err == nil {
				err = back(ctx, live)
			}
			if apierrors.IsConflict(err) && wake.Pause(ctx, goneLook) != nil {
				return err // someone else keeps writing it
			}
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// unremoved recreates an object that was just removed, once it is gone, unless someone
// else has recreated it.
func unremoved(at dynamic.ResourceInterface, removed *unstructured.Unstructured, whole map[string]any) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			_, err := at.Create(ctx, (&unstructured.Unstructured{Object: whole}).DeepCopy(), metav1.CreateOptions{FieldManager: FieldManager})
			if !apierrors.IsAlreadyExists(err) {
				return err
			}
			live, err := at.Get(ctx, removed.GetName(), metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				continue
			case err != nil:
				return err
			case live.GetUID() != removed.GetUID() || live.GetDeletionTimestamp() == nil:
				return nil
			}
			if wake.Pause(ctx, goneLook) != nil {
				return errEnding
			}
		}
	}
}
