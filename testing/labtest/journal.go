package labtest

import (
	"context"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/must"
)

// journalWait bounds the wait for another test that holds the lab.
const journalWait = 20 * time.Minute

// Journal takes a lab's Lease for a run of the test, and returns it at the end.
// Changes that the test has not reverted by then are a failure.
func Journal(t *testing.T, l *local.Lab, run string) *journal.Journal {
	t.Helper()
	applier, err := lab.NewApplier(l.RESTConfig())
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), journalWait)
	defer cancel()
	j, err := journal.Enter(ctx, journal.Options{Config: l.RESTConfig(), Open: applier, Wait: journalWait, Keep: true,
		Holder: journal.Holder{Run: run, Study: t.Name(), Since: time.Now()}, Tell: func(text string) { t.Log(text) }})
	must.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		done, err := j.Restore(ctx, nil)
		for _, o := range done {
			t.Errorf("not reverted by the test: %s (%s)", o.Entry.Object, o.Text)
		}
		if err != nil {
			t.Error(err)
		}
		if err := j.Leave(ctx); err != nil {
			t.Error(err)
		}
	})
	return j
}
