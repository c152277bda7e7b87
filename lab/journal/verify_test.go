//go:build verify

package journal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestLease checks that one run at a time holds the Lease: live holders are
// waited for or named, dead ones are succeeded, and a run that has lost it
// changes nothing.
func TestLease(t *testing.T) {
	g := newGuest(t)
	g.apply(t, web)
	ctx := t.Context()
	first := g.entered(t, "first")
	var held *journal.HeldError
	if _, err := g.enter(t, "impatient", func(o *journal.Options) { o.Wait = 0 }); !errors.As(err, &held) || held.Holder.Run != "first" {
		t.Fatalf("%v", err)
	}
	ended, stop := first.Context(ctx)
	defer stop()
	journal.Die(first)
	// The waiting run's clock decides, not the time in the Lease.
	began := time.Now()
	second := g.entered(t, "second")
	if waited := time.Since(began); waited < journal.Lapse-time.Second {
		t.Errorf("taken over after %v", waited)
	}
	// The first one wakes up again.
	if err := journal.Rise(ctx, first); !errors.Is(err, journal.ErrLost) {
		t.Errorf("%v", err)
	}
	<-ended.Done()
	if cause := context.Cause(ended); !errors.Is(cause, journal.ErrLost) {
		t.Errorf("its context ends with %v", cause)
	}
	if _, err := first.Change(ctx, webObject, "late", set("a", "metadata", "labels", "late")); !errors.Is(err, journal.ErrLost) {
		t.Errorf("%v", err)
	}
	if g.get(t, webObject).GetLabels()["late"] != "" {
		t.Error("one that has lost the Lease changes objects")
	}
	if err := first.Leave(ctx); err != nil {
		t.Error(err)
	}
	must.OK(t, second.Leave(ctx))
	g.gone(t)
}
