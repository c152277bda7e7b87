package journal

import (
	"context"
	"fmt"

	"github.com/meshtrial/meshtrial/internal/failpoint"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// Apply creates an object, or sets the fields that it names on an existing one, like
// server-side apply. It returns the changed fields, and whether it created the object;
// with an error, it returns what was or may have been done.
func (j *Journal) Apply(ctx context.Context, object *unstructured.Unstructured, why string) (step []fields.Field, made bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for range tries {
		if step, made, err = j.applyOnce(ctx, object.DeepCopy(), why); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if err != nil {
		return step, made, fmt.Errorf("apply %s: %w", ObjectOf(object), err)
	}
	return step, made, nil
}

func (j *Journal) applyOnce(ctx context.Context, object *unstructured.Unstructured, why string) (step []fields.Field, made bool, err error) {
	at, err := j.open.Open(ctx, object, "")
	if err != nil {
		return nil, false, err
	}
	o := ObjectOf(object)
	live, err := at.Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made, err = j.make(ctx, at, object, why)
		return nil, made, err
	}
	if err != nil {
		return nil, false, err
	}
	e, err := j.entryFor(ctx, live, why)
	if err != nil {
		return nil, false, err
	}
	force := metav1.ApplyOptions{FieldManager: FieldManager, Force: true, DryRun: []string{metav1.DryRunAll}}
	wanted, err := at.Apply(ctx, o.Name, object, force)
	if err != nil {
		return nil, false, err
	}
	if step = fields.Diff(live.Object, wanted.Object); len(step) == 0 {
		return nil, false, nil
	}
	e.Fields = fields.Over(e.Fields, live.Object, wanted.Object)
	if err := j.note(ctx, e); err != nil {
		return nil, false, err
	}
	force.DryRun = nil
	object.SetResourceVersion(live.GetResourceVersion())
	written, err := at.Apply(ctx, o.Name, object, force)
	if refused(err) {
		return nil, false, err
	}
	if err != nil {
		return step, false, err
	}
	failpoint.Reach("applied", o)
	step, _ = fields.Seen(step, written.Object)
	if err := j.landed(ctx, o, unchanged(at, written, step)); err != nil {
		return nil, false, err
	}
	return step, false, j.noteWritten(ctx, e, written)
}

// make creates an object, and reports whether the object exists, or may exist, because
// of that.
func (j *Journal) make(ctx context.Context, at dynamic.ResourceInterface, object *unstructured.Unstructured, why string) (made bool, err error) {
	o := ObjectOf(object)
	e, err := find(ctx, j.kube, o)
	if err != nil {
		return false, err
	}
	if e != nil && e.Left != "" {
		return false, undecided(e)
	}
	fresh := &Entry{Object: o, Done: Made, Why: why, Fields: fields.Diff(nil, object.Object)}
	// Record the object with the API server's defaults, or as requested if a dry run
	// is not possible.
	if tried, err := at.Create(ctx, object, metav1.CreateOptions{FieldManager: FieldManager, DryRun: []string{metav1.DryRunAll}}); err == nil {
		fresh.Fields, _ = fields.Seen(fresh.Fields, tried.Object)
	}
	if e != nil {
		// An object that this journal removed must be restored to its original state.
		fresh.version, fresh.Number, fresh.Whole = e.version, e.Number, e.Whole
	}
	if err := j.note(ctx, fresh); err != nil {
		return false, err
	}
	written, err := at.Create(ctx, object, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil {
		return !refused(err), err
	}
	failpoint.Reach("made", o)
	if err := j.landed(ctx, o, unmade(at, written)); err != nil {
		return false, err
	}
	fresh.UID = string(written.GetUID())
	fresh.Fields = fields.Diff(nil, written.Object)
	return true, fresh.save(ctx, j.kube)
}

// Remove removes an object; a missing object is not an error.
func (j *Journal) Remove(ctx context.Context, o Object, why string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var err error
	for range tries {
		if err = j.removeOnce(ctx, o, why); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", o, err)
	}
	return nil
}

func (j *Journal) removeOnce(ctx context.Context, o Object, why string) error {
	at, live, err := j.read(ctx, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := j.entryFor(ctx, live, why)
	if err != nil {
		return err
	}
	if e.version == "" && live.GetDeletionTimestamp() != nil {
		return nil // removed by someone else
	}
	ours := e.Done == Made && e.version != ""
	if ours { // the entry already records what to restore
		if err := j.lease.await(ctx); err != nil {
			return err
		}
	} else {
		if e.Whole == nil {
			base, _ := fields.Undo(live.Object, e.Fields)
			e.Whole = restorable(base)
		}
		e.Done = Removed // keep its fields, in case the removal fails
		if err := j.note(ctx, e); err != nil {
			return err
		}
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	err = at.Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	gone := apierrors.IsNotFound(err) // removed by someone else
	if err != nil && !gone {
		return err
	}
	failpoint.Reach("removed", o)
	switch {
	case ours && e.Whole == nil:
		return e.forget(ctx, j.kube)
	case ours:
		return nil
	case gone:
		return nil
	}
	return j.landed(ctx, o, unremoved(at, live, e.Whole))
}

// restorable returns an object in a form that can be created again.
func restorable(live map[string]any) map[string]any {
	out := &unstructured.Unstructured{Object: live}
	out = out.DeepCopy()
	out.SetManagedFields(nil)
	out.SetUID("")
	out.SetResourceVersion("")
	out.SetGeneration(0)
	unstructured.RemoveNestedField(out.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(out.Object, "status")
	return out.Object
}
