package runner

import (
	"errors"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Whoever ends a run by taking its rights away learns first how to get rid of what it left.
func TestRemoved(t *testing.T) {
	ended := errs.WithHint(errors.New("wait for pods: Unauthorized"), "kubectl get events")
	left := errs.WithHint(errors.New("the control plane was not reverted: Unauthorized"), "kubectl delete namespace x")
	if got := Removed(ended, nil); got != ended {
		t.Errorf("nothing is left: %v", got)
	}
	for _, err := range []error{nil, ended} {
		got := Removed(err, left)
		if !errors.Is(got, left) || err != nil && !errors.Is(got, err) || !strings.HasPrefix(errs.Hint(got), "meshtrial cluster restore ") {
			t.Errorf("%v (hint %q)", got, errs.Hint(got))
		}
	}
}
