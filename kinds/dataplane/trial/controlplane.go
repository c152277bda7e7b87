package trial

import (
	"context"
	"fmt"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// seenControl records the control plane at the start of the trial, and now.
func (t *trialRun) seenControl(ctx context.Context, before []string) {
	after, err := t.d.FindControlPlane(ctx, t.o.Mesh)
	if err != nil {
		t.seen.Unmeasured = append(t.seen.Unmeasured, fmt.Sprintf("whether the mesh's control plane stayed the same is unknown: %v", err))
		return
	}
	t.seen.Control = &verdict.ControlPlane{Before: before, After: after}
}

// wholeControl removes the control plane's usage from the record if some of its pods could not be
// read.
func (t *trialRun) wholeControl(out *record.Trial) {
	why := t.d.ControlUnseen()
	if why == "" {
		return
	}
	delete(out.CPU, record.PartControl)
	delete(out.Memory, record.PartControl)
	delete(out.Waits, record.PartControl)
	delete(out.Threads, record.PartControl)
	t.seen.Unmeasured = append(t.seen.Unmeasured, why)
}
