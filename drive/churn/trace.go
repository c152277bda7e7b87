package churn

import (
	"errors"
	"fmt"
	"slices"
)

// Trace is a recorded sequence of changes. Package study reads it from a
// study or from a file that it names.
type Trace struct {
	Changes []TraceChange
}

// TraceChange is one of them.
type TraceChange struct {
	OffsetNS int64  // since the start
	Kind     string // one of Kinds, but mixed
}

// Validate says what is wrong with the trace.
func (t *Trace) Validate() error {
	if len(t.Changes) == 0 {
		return errors.New("churn: the trace has no changes")
	}
	if len(t.Changes) > MaxChanges {
		return fmt.Errorf("churn: the trace's %d changes are more than %d", len(t.Changes), MaxChanges)
	}
	last := int64(0)
	for i, c := range t.Changes {
		if c.OffsetNS < last {
			return fmt.Errorf("churn: change %d of the trace is before the one it follows", i)
		}
		last = c.OffsetNS
		if !traceable(c.Kind) {
			return fmt.Errorf("churn: change %d of the trace: no kind of change is called %.40q", i, c.Kind)
		}
	}
	return nil
}

func traceable(kind string) bool { return kind != KindMixed && slices.Contains(Kinds(), kind) }
