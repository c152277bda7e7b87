package doctor

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/wake"
)

// ThisHost is the machine this program runs on.
type ThisHost struct{}

// UID is the effective user.
func (ThisHost) UID() int { return os.Geteuid() }

// LookPath finds a program on the path.
func (ThisHost) LookPath(name string) (string, error) { return exec.LookPath(name) }

// startLimit is the soft limit this process was given: the Go runtime raises
// it before main runs, and passes the old one on to children only.
func startLimit() (uint64, bool) {
	out, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	if err != nil {
		return 0, false
	}
	limit, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 64) // or "unlimited"
	return limit, err == nil && limit > 0
}

// FileLimit returns RLIMIT_NOFILE.
func (ThisHost) FileLimit() (soft, hard uint64, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, 0, err
	}
	soft = limit.Cur
	if given, ok := startLimit(); ok {
		soft = given
	}
	return soft, limit.Max, nil
}

// WakeLatency sleeps on a thread of its own with the kernel's timer slack
// turned off, so that what it sees is the kernel's and the hypervisor's doing.
func (ThisHost) WakeLatency(ctx context.Context, n int) ([]time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
			return nil, err
		}
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) }()
	}
	late := make([]time.Duration, 0, n)
	for range n {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		at := time.Now().Add(time.Millisecond)
		remaining := unix.NsecToTimespec(max(0, int64(time.Until(at)))) // the moment may be past on a busy machine
		if err := unix.Nanosleep(&remaining, nil); err == unix.EINTR {
			continue // the Go runtime's own signals; the sleep was cut short
		} else if err != nil {
			return nil, err
		}
		late = append(late, time.Since(at))
	}
	return late, nil
}

// Sleep waits for d, or until ctx ends.
func (ThisHost) Sleep(ctx context.Context, d time.Duration) error {
	return wake.Pause(ctx, d)
}
