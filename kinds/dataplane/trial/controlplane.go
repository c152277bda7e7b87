package trial

import (
	"context"
	"fmt"

	"github.com/meshtrial/meshtrial/verdict"
)

// seenControl notes who was the control plane when the trial began, and is now.
func (t *trialRun) seenControl(ctx context.Context, before []string) {
	after, err := t.d.FindControlPlane(ctx, t.o.Mesh)
	if err != nil {
		t.seen.Unmeasured = append(t.seen.Unmeasured, fmt.Sprintf("whether the mesh's control plane was the same throughout is not known: %v", err))
		return
	}
	t.seen.Control = &verdict.ControlPlane{Before: before, After: after}
}
