package journal

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/failpoint"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// A user may ask for a run's changes to stay. The run's entries are then kept alongside
// those of active runs: they are reverted only on request, and a run that changes the same
// object adds its own on top. A Secret marks the point of decision: before it exists, the
// next run reverts everything; afterwards, the next run keeps the rest.

const keepLabel = "keep"

// keepName returns the name of the Secret that records that a run's changes stay.
func keepName(run string) string { return "keep-" + shortSum(run) }

func shortSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// StaysError reports that the changes stay although recording that is unfinished. The next
// run finishes it.
type StaysError struct{ Err error }

func (e *StaysError) Error() string {
	return "the changes stay, but not all are recorded as kept: " + e.Err.Error()
}

func (e *StaysError) Unwrap() error { return e.Err }

// Keep makes all changes of the holder's run stay until [Journal.TakeBack]. why says who
// asked for it. Keep returns the number of objects. After an error the caller must still
// revert everything, unless it is a [StaysError].
func (j *Journal) Keep(ctx context.Context, why string) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.lease.await(ctx); err != nil {
		return 0, err
	}
	coded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	_, err := j.kube.Resource(secrets).Namespace(Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "meshtrial.dev/journal",
		"metadata": map[string]any{"name": keepName(j.run), "namespace": Namespace, "labels": map[string]any{Label: keepLabel}},
		"data":     map[string]any{"run": coded(j.run), "why": coded(why)},
	}}, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		j.unheard = true
		return 0, fmt.Errorf("record that the changes stay: %w", err)
	}
	failpoint.Reach("to be kept")
	n, err := j.keepAll(ctx, j.run, why)
	if err != nil {
		return n, &StaysError{err}
	}
	return n, nil
}

// unkeep withdraws a Keep with an unknown outcome before anything is reverted: the next
// run must keep all or nothing.
func (j *Journal) unkeep(ctx context.Context) error {
	err := j.kube.Resource(secrets).Namespace(Namespace).Delete(ctx, keepName(j.run), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return errs.WithHint(fmt.Errorf("nothing was reverted, because the changes may be recorded as kept: %w", err),
			"once the cluster responds, meshtrial cluster status shows whether they are kept; meshtrial cluster restore --run %s then reverts them", j.run)
	}
	j.unheard = false
	return nil
}

// finishKeeping keeps the entries that dead runs had decided to keep.
func (j *Journal) finishKeeping(ctx context.Context) error {
	list, err := j.kube.Resource(secrets).Namespace(Namespace).List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + keepLabel})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the journal in namespace %s: %w", Namespace, err)
	}
	for i := range list.Items {
		var texts [2]string
		for n, key := range []string{"run", "why"} {
			coded, _, _ := unstructured.NestedString(list.Items[i].Object, "data", key)
			text, err := base64.StdEncoding.DecodeString(coded)
			if err != nil || len(text) == 0 {
				return errs.WithHint(fmt.Errorf("journal: Secret %s/%s does not name the run whose changes stay", Namespace, list.Items[i].GetName()), "inspect it before you delete it")
			}
			texts[n] = string(text)
		}
		if _, err := j.keepAll(ctx, texts[0], texts[1]); err != nil {
			return err
		}
	}
	return nil
}

// keepAll keeps the entries of a run, then removes the Secret that requests it.
func (j *Journal) keepAll(ctx context.Context, run, why string) (int, error) {
	entries, err := j.readable(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range entries {
		if e.Run != run {
			continue
		}
		if n++; e.Kept != "" {
			continue // kept by a run that died afterwards
		}
		if err := keepOne(ctx, j.kube, e, why); err != nil {
			return n, err
		}
		failpoint.Reach("kept", e.Object)
	}
	err = j.kube.Resource(secrets).Namespace(Namespace).Delete(ctx, keepName(run), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return n, fmt.Errorf("record that the changes of run %s stay: %w", run, err)
	}
	return n, nil
}

// keepOne turns an entry of an active run into a kept one. Fields that the run left alone
// stay recorded.
func keepOne(ctx context.Context, kube dynamic.Interface, e *Entry, why string) error {
	kept := *e
	kept.Kept, kept.version, kept.Left, kept.LeftFields, kept.LeftWhole = why, "", "", nil, false
	if err := kept.save(ctx, kube); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if e.Left == "" {
		return e.forget(ctx, kube)
	}
	e.Done, e.Fields, e.Whole, e.LeftWhole = Changed, nil, nil, false
	return e.save(ctx, kube)
}

// Kept returns the entries of changes that stay on request.
func (j *Journal) Kept(ctx context.Context) ([]*Entry, error) {
	entries, err := j.readable(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e *Entry) bool { return e.Kept == "" }), nil
}

// TakeBack is [Journal.Restore] for all entries, including kept ones.
func (j *Journal) TakeBack(ctx context.Context, which func(*Entry) bool) ([]Outcome, error) {
	return j.restore(ctx, which)
}

// underneath refuses to revert an entry beneath another run's change to the object, unless
// that is reverted too: its fields would count as changed by others.
func underneath(e *Entry, entries, todo []*Entry) error {
	for _, top := range slices.Backward(entries) {
		if top.Object == e.Object && top.Number > e.Number && !top.settled() && !slices.Contains(todo, top) {
			return errs.WithHint(fmt.Errorf("run %s has changed it since", top.Run), "first revert that: meshtrial cluster restore --run %s", top.Run)
		}
	}
	return nil
}

// added lists what others added to a created object; rest is the object without the run's
// fields. Labels and annotations do not count: controllers and tools write them.
func added(o Object, rest map[string]any) (out []string) {
	for _, f := range fields.Diff(nil, rest) {
		if path := f.String(); !strings.HasPrefix(path, "metadata.") {
			out = append(out, fmt.Sprintf("%s is %s; it did not exist before, and this program did not write it", path, shown(o, f, f.Wrote[0])))
		}
	}
	return out
}
