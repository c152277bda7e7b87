package lab

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Objects that a run made or that are being deleted do not count as existing for
// the next user.
func TestStays(t *testing.T) {
	now := metav1.Now()
	for name, tt := range map[string]struct {
		change func(*unstructured.Unstructured)
		stays  bool
	}{
		"somebody's": {func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"app": "istiod"}) }, true},
		"a run's":    {func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"run": "one"}) }, false},
		"dying":      {func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&now) }, false},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		tt.change(o)
		if got := stays(o, "run"); got != tt.stays {
			t.Errorf("%s stays: %v", name, got)
		}
	}
}
