package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/lab/journal/fields"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// revertObject reverts an object to its entry. It goes by the object's fields, not its UID: an
// object that was deleted and recreated from its live state (kubectl replace --force, a
// backup, an operator) still has the written values. The UID only decides whether an
// object with all fields of one that the run made is that object and may be removed.
func (j *Journal) revertObject(ctx context.Context, at dynamic.ResourceInterface, e *Entry, live *unstructured.Unstructured, out *Outcome) error {
	switch {
	case live == nil && e.Done == Changed:
		out.Back, out.Left, out.Text = nil, nil, "nothing to revert: the object is gone"
		return nil
	case live == nil:
		return j.restoreRemoved(ctx, at, e, out)
	case e.Done == Changed:
		return j.restoreChanged(ctx, at, e, live, out)
	case e.Done == Removed:
		return j.restoreStanding(ctx, at, e, live, out)
	case e.Whole != nil && e.another(live) && fields.Equal(live.Object, e.Whole): // reverted by a run that died afterwards
		out.Left, out.Text = nil, "already as it was"
		return nil
	}
	return j.restoreMade(ctx, at, e, live, out)
}

// another reports whether an object is not the one that the entry's run last saw under its
// name.
func (e *Entry) another(live *unstructured.Unstructured) bool { return string(live.GetUID()) != e.UID }

// restoreStanding reverts the removal of an object that exists: either it was never
// removed, or someone recreated it. A recreated object with other content belongs to
// someone else, except for fields that have the values the run wrote.
func (j *Journal) restoreStanding(ctx context.Context, at dynamic.ResourceInterface, e *Entry, live *unstructured.Unstructured, out *Outcome) error {
	otherwise, whole := e.otherwise(live), e.Whole
	if err := j.restoreChanged(ctx, at, e, live, out); err != nil {
		return err
	}
	if otherwise {
		e.Done, e.Whole = Removed, whole
		out.Text = "left alone: it was deleted, and someone recreated it differently"
		out.Left = append(out.Left, wholeObject)
	}
	return nil
}

// wholeObject marks an object with other content of which nothing was restored.
const wholeObject = "the whole object"

// otherwise reports whether someone recreated a removed object, and without the run's
// fields it differs from the original.
func (e *Entry) otherwise(live *unstructured.Unstructured) bool {
	rest, _ := fields.Undo(live.Object, e.Fields)
	return e.another(live) && !fields.Equal(rest, e.Whole)
}

// restoreChanged reverts the fields that still have the written values.
func (j *Journal) restoreChanged(ctx context.Context, at dynamic.ResourceInterface, e *Entry, live *unstructured.Unstructured, out *Outcome) error {
	out.Back, out.Left = nil, nil
	restored, answers := fields.Undo(live.Object, e.Fields)
	var left []fields.Field
	for _, a := range answers {
		switch a.State {
		case fields.Back:
			out.Back = append(out.Back, a.Field.String())
		case fields.Foreign:
			left = append(left, a.Field)
		}
	}
	out.Left = foreign(e.Object, answers)
	if len(out.Back) > 0 {
		next := &unstructured.Unstructured{Object: restored}
		if _, err := at.Update(ctx, next, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil {
			return err
		}
	}
	switch {
	case len(left) > 0:
		e.Done, e.Whole, e.LeftFields = Changed, nil, append(e.LeftFields, left...)
		out.Text = "left alone where someone else changed it"
	case len(out.Back) > 0:
		out.Text = "as it was"
	default:
		out.Text = "already as it was"
	}
	return nil
}

// foreign describes the fields that someone else changed.
func foreign(o Object, answers []fields.Answer) (out []string) {
	for _, a := range answers {
		if a.State == fields.Foreign {
			out = append(out, words(o, a))
		}
	}
	return out
}

// words describes a field that is left alone.
func words(o Object, a fields.Answer) string {
	wrote := json.RawMessage(nil)
	if n := len(a.Field.Wrote); n > 0 {
		wrote = a.Field.Wrote[n-1]
	}
	return fmt.Sprintf("%s is %s; it was %s, this program wrote %s", a.Field, shown(o, a.Field, a.Now), shown(o, a.Field, a.Field.Before), shown(o, a.Field, wrote))
}

// shown formats a field's value for terminals and logs; of a Secret it shows only type and
// labels.
func shown(o Object, f fields.Field, v json.RawMessage) string {
	text, path := short(v), f.String()
	if o.Kind != "Secret" || text == notSet || path == "type" || path == "immutable" || strings.HasPrefix(path, "metadata.labels") {
		return text
	}
	return "(hidden)"
}

// notSet stands for a missing value.
const notSet = "not set"

// short abbreviates a value.
func short(v json.RawMessage) string {
	const most = 60
	switch {
	case len(v) == 0 || string(v) == "null":
		return notSet
	case len([]rune(string(v))) > most:
		return string([]rune(string(v))[:most]) + "…"
	}
	return string(v)
}

// restoreRemoved recreates a removed object. An object that the run made and that is gone
// needs no action, unless it replaced another.
func (j *Journal) restoreRemoved(ctx context.Context, at dynamic.ResourceInterface, e *Entry, out *Outcome) error {
	if e.Whole == nil {
		out.Text = "already gone"
		return nil
	}
	_, err := at.Create(ctx, (&unstructured.Unstructured{Object: e.Whole}).DeepCopy(), metav1.CreateOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) { // the namespace is gone
		out.Text = "not recreated: its namespace is gone"
		out.Left = []string{"the whole object: it was deleted, and its namespace is gone"}
		return nil
	}
	if err != nil {
		return err
	}
	out.Text = "recreated as it was"
	return nil
}

// restoreMade removes an object that the run made, unless someone else has changed it.
func (j *Journal) restoreMade(ctx context.Context, at dynamic.ResourceInterface, e *Entry, live *unstructured.Unstructured, out *Outcome) error {
	if out.Left = e.others(live); len(out.Left) > 0 {
		out.Text = "left alone: someone else changed it"
		if e.Whole != nil {
			out.Left = append(out.Left, wholeObject+" that it replaced")
		}
		return nil
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	background := metav1.DeletePropagationBackground
	err := at.Delete(ctx, e.Object.Name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	out.Text = "deleted, as it did not exist before"
	if e.Whole != nil {
		return j.restoreRemoved(ctx, at, e, out)
	}
	return nil
}

// others describes others' changes to an object that the run made: the fields that differ
// from what was written. Additions count too, unless it is the very object that the run
// made and keeps for itself, as controllers add to such objects (a node to a pod, for
// example).
func (e *Entry) others(live *unstructured.Unstructured) []string {
	rest, answers := fields.Undo(live.Object, e.Fields)
	out := foreign(e.Object, answers)
	if e.Kept != "" || e.UID != "" && e.another(live) {
		out = append(out, added(e.Object, rest)...)
	}
	return out
}
