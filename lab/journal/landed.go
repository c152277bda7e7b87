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

// backLimit bounds how long a write that came too late may take to be taken back.
const backLimit = goneLimit + 30*time.Second

// landed says, of a write that has just been made of an object, that the Lease was
// held until then. A machine may have slept before the write arrived: then another
// run may have the Lease, which has found nothing to put back and thrown the note
// away. Such a write is taken back at once.
func (j *Journal) landed(ctx context.Context, o Object, back func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backLimit)
	defer cancel()
	lost := j.lease.await(ctx)
	if lost == nil {
		return nil
	}
	if err := back(ctx); err != nil { // without %w: nobody is to try again
		return errs.WithHint(fmt.Errorf("%w; what was written of %s after that could not be taken back: %v", lost, o, err),
			"look at it, and at who is at work: meshtrial cluster status")
	}
	return fmt.Errorf("%w; what was written of %s after that has been taken back", lost, o)
}

// unchanged gives an object that was just written its fields of before, if nobody
// else has written those since.
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

// unmade removes an object that was just made, if nobody else has written its fields
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

// latest calls back with an object as it was just written, and again with what it is now
// as long as somebody else is faster, such as a controller that reports its status. An
// object that is gone needs nothing.
func latest(at dynamic.ResourceInterface, written *unstructured.Unstructured, back func(context.Context, *unstructured.Unstructured) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := back(ctx, written)
		for apierrors.IsConflict(err) {
			var live *unstructured.Unstructured
			if live, err = at.Get(ctx, written.GetName(), metav1.GetOptions{}); err == nil {
				err = back(ctx, live)
			}
			if apierrors.IsConflict(err) && wake.Pause(ctx, goneLook) != nil {
				return err // somebody keeps writing it
			}
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// unremoved makes an object again that was just removed, once it is gone; not where
// somebody has done that already.
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
