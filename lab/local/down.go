package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/wake"
)

// Time limits on init's own shutdown, and on removing a lab's leftovers.
const (
	termGrace  = time.Second
	sweepLimit = time.Minute
)

// Down ends the running lab of a state folder ("" means the default), if any, and
// removes everything that it or a crashed lab left behind. It reports whether a lab
// was running. It is idempotent.
func Down(ctx context.Context, dir string) (wasRunning bool, err error) {
	p, err := stateDir(dir)
	if err != nil {
		return false, err
	}
	lock, err := lockFile(p.lock())
	if errors.Is(err, errLocked) {
		wasRunning = true
		lock, err = p.end(ctx)
	}
	if err != nil {
		return wasRunning, err
	}
	defer lock.Close()
	limited, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	if err := sweep(limited, p); err != nil {
		return wasRunning, err
	}
	return wasRunning, os.RemoveAll(filepath.Join(p.base, "failed"))
}

// end ends the init that holds the lock, and takes over the lock.
func (p paths) end(ctx context.Context) (*os.File, error) {
	limited, cancel := context.WithTimeoutCause(ctx, sweepLimit, errors.New("another meshtrial command is working on this lab"))
	defer cancel()
	for {
		// The lock is held by init, or by an Up that has not started it yet.
		if r, err := p.readRecord(); err == nil && r.initAlive() {
			r.endInit(ctx)
		}
		lock, err := lockFile(p.lock())
		if !errors.Is(err, errLocked) {
			return lock, err
		}
		if err := wake.Pause(limited, 10*time.Millisecond); err != nil {
			return nil, fmt.Errorf("the lab does not stop: %w", err)
		}
	}
}

// endInit ends the record's init, but not a later process with its PID, and waits
// until every process of its PID namespace is gone or ctx ends.
func (r *record) endInit(ctx context.Context) {
	fd, err := unix.PidfdOpen(r.InitPID, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if !r.initAlive() { // checked again now that the descriptor pins the process
		return
	}
	unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
	if !waitPidfd(ctx, fd, termGrace) && ctx.Err() == nil {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		waitPidfd(ctx, fd, sweepLimit)
	}
}

// waitPidfd waits until a process has ended. The first process of a PID namespace
// ends after all others in it.
func waitPidfd(ctx context.Context, fd int, limit time.Duration) bool {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for limited.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20) // ms
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
	return false
}

// sweep removes what labs of this state folder left outside their namespaces. The
// caller holds the lock, so none of them is running.
func sweep(ctx context.Context, p paths) error {
	entries, err := os.ReadDir(p.base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// A lab's folder, interface and cgroup are named after its ID, so all are found
	// even without its record.
	ids := map[string]bool{}
	var all []error
	r, err := p.readRecord()
	if err == nil {
		ids[r.ID] = true
		r.endInit(ctx) // the lock is free, but init may still be ending
	}
	for _, entry := range entries {
		if entry.IsDir() && validID(entry.Name()) {
			ids[entry.Name()] = true
		}
	}
	groups, err := machineCgroups()
	if err != nil {
		return err
	}
	for id := range ids {
		if r != nil && r.ImageStore != "" {
			all = append(all, os.RemoveAll(nodeStores(r.ImageStore, id)))
		}
		all = append(all,
			unlinkHost(hostInterface(id)),
			groups.remove(ctx, "/meshtrial-"+id),
			os.RemoveAll(string(p.dir(id))))
	}
	// After the link: of several labs that end together, the last one must not see
	// another.
	if r != nil && r.ImageStore != "" {
		pending := filepath.Join(filepath.Dir(r.ImageStore), "sysctls.json")
		all = append(all, restoreControls(ctx, r.Sysctls, pending, ids))
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	for _, file := range []string{p.kubeconfig(), p.kubeconfig() + ".tmp", p.record() + ".tmp", p.record()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
