package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/lab/journal"
)

// RestoreOptions say what to revert in a cluster.
type RestoreOptions struct {
	Config *rest.Config
	// Run limits this to what one run changed and made, whether it is dead or not, and
	// includes what somebody asked to keep. "": what all dead runs changed and made.
	Run string
	// Wait is how long to wait for a run that is at work in the cluster.
	Wait time.Duration
	// Forget drops the notes of what stays as it is.
	Forget   bool
	Progress Progress
}

// Restored says what became of the changes in a cluster.
type Restored struct {
	Outcomes   []journal.Outcome
	Namespaces []string         // removed
	Forgotten  int              // notes
	Kept       []*journal.Entry // somebody asked to keep these
	Left       []*journal.Entry // somebody else changed these since
}

// Restore reverts what dead runs changed in a cluster, and removes what they made. If something
// could not be reverted it returns both a result and an error.
func Restore(ctx context.Context, o RestoreOptions) (*Restored, error) {
	var out *Restored
	claim := Claim{Config: o.Config, Run: CommandRun("restore"), Wait: o.Wait}
	err := Occupy(ctx, o.Progress, claim, func(ctx context.Context, j *journal.Journal) error {
		done, forgotten, failed, err := o.settle(ctx, j)
		if err != nil {
			return err
		}
		left, err := j.Left(ctx, o.which)
		if err != nil {
			return err
		}
		kept, err := j.Kept(ctx)
		if err != nil {
			return err
		}
		for _, text := range keptNotes(kept) {
			o.Progress.Note("%s", text)
		}
		removed, err := removeNamespaces(ctx, o.Progress, o.Config, o.Run)
		out = &Restored{Outcomes: done, Namespaces: removed, Forgotten: forgotten, Kept: kept, Left: left}
		return errors.Join(failed, err)
	})
	return out, err
}

// which selects the entries of the run, if one is named.
func (o *RestoreOptions) which(e *journal.Entry) bool { return o.Run == "" || e.Run == o.Run }

// restorer is the part of a journal that reverts and forgets.
type restorer interface {
	Restore(ctx context.Context, which func(*journal.Entry) bool) ([]journal.Outcome, error)
	TakeBack(ctx context.Context, which func(*journal.Entry) bool) ([]journal.Outcome, error)
	Forget(ctx context.Context, which func(*journal.Entry) bool) (int, error)
}

// settle reverts what is selected, and forgets the notes that may go. Changes that somebody
// asked to keep are reverted only by their run's name, and stay for good once forgotten.
func (o *RestoreOptions) settle(ctx context.Context,
	j restorer) (done []journal.Outcome, forgotten int, failed, err error) {
	restore := j.Restore
	if o.Run != "" && !o.Forget {
		restore = j.TakeBack
	}
	done, failed = restore(ctx, o.which)
	if !o.Forget || errors.Is(failed, journal.ErrLost) {
		return done, 0, failed, nil
	}
	forgotten, err = j.Forget(ctx, func(e *journal.Entry) bool {
		open := func(done journal.Outcome) bool { return done.Err != nil && done.Entry.Object == e.Object }
		// Of a run that is named, also what cannot be reverted.
		return o.which(e) && (o.Run != "" || e.Left != "" && !slices.ContainsFunc(done, open))
	})
	return done, forgotten, failed, err
}
