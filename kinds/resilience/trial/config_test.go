package trial

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
)

// applier is a journal that reports the outcome of applying an object, and records how that is
// reverted.
type applier struct {
	changer
	step []fields.Field
	made bool
	err  error
	back []string
}

func (a *applier) Apply(context.Context, *unstructured.Unstructured, string) ([]fields.Field, bool, error) {
	return a.step, a.made, a.err
}

func (a *applier) Revert(context.Context, journal.Object, string, []fields.Field) error {
	a.back = append(a.back, "revert")
	return nil
}

// Restore is called for the object as another step recorded it, by an earlier API version.
func (a *applier) Restore(_ context.Context, which func(*journal.Entry) bool) ([]journal.Outcome, error) {
	if which(&journal.Entry{Object: journal.Object{APIVersion: "networking.istio.io/v1beta1", Kind: "Sidecar", Name: "a"}}) {
		a.back = append(a.back, "restore")
	}
	return nil, nil
}

// A step's change is reverted at its end, even if its outcome was never received. An object that
// the API server rejected, as a step may expect, has nothing to revert: searching for it would
// fail.
func TestUndo(t *testing.T) {
	step := []fields.Field{{}}
	lost := errors.New("connection reset by peer")
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "sidecars"}, "a", nil)
	for name, c := range map[string]struct {
		applier
		want string
	}{
		"changed":                   {applier{step: step}, "revert"},
		"changed, but nobody heard": {applier{step: step, err: lost}, "revert"},
		"made":                      {applier{made: true}, "restore"},
		"made, but nobody heard":    {applier{made: true, err: lost}, "restore"},
		"as it was wanted":          {applier{}, ""},
		"refused":                   {applier{err: refused}, ""},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": map[string]any{"name": "a"}}}
		one := &changed{object: object}
		if err := one.act(t.Context(), &c.applier); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if err := one.undo(t.Context(), &c.applier); err != nil || strings.Join(c.back, ", ") != c.want {
			t.Errorf("%s: taken back by %q, want %q; %v", name, c.back, c.want, err)
		}
	}
}

// A pod's name goes wherever an object has a place for it.
func TestPodInObject(t *testing.T) {
	o, err := objectOf(map[string]any{"apiVersion": "v1", "kind": "A", "spec": map[string]any{"list": []any{"$(POD)", "x-$(POD)"}}}, "edge-0")
	if list, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "list"); err != nil || strings.Join(list, " ") != "edge-0 x-edge-0" {
		t.Errorf("%q, %v", list, err)
	}
}

// Pods without a proxy give no configuration, and no error either.
func TestNobodyToWitness(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	h := &executor{scenarioTrial: &scenarioTrial{stage: &stage{}, scene: sceneOf(t, "drain"), census: &census{pods: map[string]*resident{}}}}
	if _, err := h.witness(ctx); err == nil || strings.Contains(err.Error(), "%!") {
		t.Errorf("error %v", err)
	}
}
