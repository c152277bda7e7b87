package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// Owner is the process that a lab was started for and that takes it down at its end;
// nil for a lab that stays.
func (l *Lab) Owner() *procfs.Identity { return l.record.ForRun }

// Orphaned reports whether the lab's owner has ended without taking it down, as a
// killed run does.
func (l *Lab) Orphaned() bool {
	orphaned, err := l.record.orphaned()
	return err == nil && orphaned
}

func (r *record) orphaned() (bool, error) {
	if r.ForRun == nil {
		return false, nil
	}
	me, err := procfs.Self()
	return err == nil && procfs.LifeOf(*r.ForRun, me) == procfs.Dead, err
}

// Adopt makes this process the owner of an orphaned lab: Close takes it down, or with
// keep it stays. Of several processes only one gets the lab, and none while its owner
// lives.
func (l *Lab) Adopt(ctx context.Context, keep bool) (mine bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("take over lab %s: %w", l.record.ID, err)
		}
	}()
	end, err := l.paths.turn(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	r, err := l.paths.readRecord() // as it is now that nobody else changes it
	if err != nil {
		return false, err
	}
	orphaned, err := r.orphaned()
	if err != nil || !orphaned || r.ID != l.record.ID {
		return false, err
	}
	r.ForRun = nil
	paid := func() {}
	if !keep {
		me, err := procfs.Self()
		if err != nil {
			return false, err
		}
		r.ForRun, paid = &me, owe(ctx)
	}
	if err := l.paths.writeRecord(r); err != nil {
		paid()
		return false, err
	}
	l.record, l.down, l.paid = r, !keep, paid
	return true, nil
}

// turn locks the record of a running lab until end is called. It locks the folder
// itself, since init holds the lock file while the lab is up.
func (p paths) turn(ctx context.Context) (end func(), err error) {
	folder, err := os.Open(p.base)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = wake.Pause(ctx, 10*time.Millisecond)
			if err == nil {
				continue
			}
		}
		if err != nil {
			folder.Close()
			return nil, err
		}
		return func() { folder.Close() }, nil
	}
}
