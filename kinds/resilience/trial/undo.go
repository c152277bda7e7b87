package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/site"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// undoName is the ConfigMap in a run's namespace that says how to put back
// what steps changed outside of it, should the run die before it does so
// itself: an entry is there before the change is made, and goes after it was
// undone.
const undoName = "meshtrial-undo"

// undoNote says how one object was.
type undoNote struct {
	// Before is the whole object, with at least its kind, namespace and name.
	Before *unstructured.Unstructured `json:"before"`
	// Absent says that there was none.
	Absent bool `json:"absent,omitempty"`
	// Replicas of a Deployment, where that is all that is changed.
	Replicas *int32 `json:"replicas,omitempty"`
}

// promise notes how something was, before it is changed. forget takes the
// note away again.
func (s *stage) promise(ctx context.Context, note undoNote) (forget func(context.Context) error, err error) {
	text, err := json.Marshal(note)
	if err != nil {
		return nil, fmt.Errorf("note what to undo: %w", err)
	}
	s.undoMu.Lock()
	s.undos++
	key := fmt.Sprintf("%06d", s.undos)
	s.undoMu.Unlock()
	maps := s.Kube.CoreV1().ConfigMaps(s.Namespace)
	empty := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: undoName, Namespace: s.Namespace, Labels: site.Labels(s.Run, undoName)}}
	if _, err := maps.Create(ctx, empty, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("note what to undo: %w", err)
	}
	set := func(ctx context.Context, value *string) error {
		patch, err := json.Marshal(map[string]any{"data": map[string]*string{key: value}})
		if err == nil {
			_, err = maps.Patch(ctx, undoName, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			return fmt.Errorf("note what to undo: %w", err)
		}
		return nil
	}
	value := string(text)
	return func(ctx context.Context) error { return set(ctx, nil) }, set(ctx, &value)
}

// restoreNotes puts back what a run that died had changed outside its
// namespace, the latest first.
func restoreNotes(ctx context.Context, kube kubernetes.Interface, apply *lab.Applier, namespace string) error {
	notes, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, undoName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what to undo: %w", err)
	}
	numbers := make([]int, 0, len(notes.Data))
	for key := range notes.Data {
		if n, err := strconv.Atoi(key); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	slices.Reverse(numbers)
	var all []error
	for _, n := range numbers {
		var note undoNote
		if err := json.Unmarshal([]byte(notes.Data[fmt.Sprintf("%06d", n)]), &note); err != nil || note.Before == nil {
			all = append(all, fmt.Errorf("note %d of what to undo is damaged: %w", n, err))
			continue
		}
		all = append(all, note.restore(ctx, apply))
	}
	return errors.Join(all...)
}

// restore puts an object back as it was.
func (n undoNote) restore(ctx context.Context, apply *lab.Applier) error {
	what := fmt.Sprintf("%s %s/%s", n.Before.GetKind(), n.Before.GetNamespace(), n.Before.GetName())
	fail := func(err error) error { return fmt.Errorf("put back %s: %w", what, err) }
	at, err := apply.Open(ctx, n.Before, "")
	if err != nil {
		return fail(err)
	}
	if n.Replicas != nil {
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, *n.Replicas)
		if _, err := at.Patch(ctx, n.Before.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return fail(err)
		}
		return nil
	}
	if n.Absent {
		if err := at.Delete(ctx, n.Before.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fail(err)
		}
		return nil
	}
	old := n.Before.DeepCopy()
	old.SetManagedFields(nil)
	old.SetUID("")
	now, err := at.Get(ctx, old.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		old.SetResourceVersion("")
		_, err = at.Create(ctx, old, metav1.CreateOptions{})
	case err == nil:
		old.SetResourceVersion(now.GetResourceVersion())
		_, err = at.Update(ctx, old, metav1.UpdateOptions{})
	}
	if err != nil {
		return fail(err)
	}
	return nil
}
