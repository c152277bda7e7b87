package labtest

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// StandStill suspends processes for a time, like a machine that sleeps or that its
// hypervisor suspends, and resumes them. Processes that they start meanwhile are
// suspended too if list then includes them.
func StandStill(t testing.TB, length time.Duration, list func() []int) {
	t.Helper()
	stopped := map[int]bool{}
	defer func() {
		for pid := range stopped {
			if err := unix.Kill(pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Errorf("let process %d go on: %v", pid, err)
			}
		}
	}()
	for more := true; more; {
		more = false
		for _, pid := range list() {
			if stopped[pid] {
				continue
			}
			switch err := unix.Kill(pid, unix.SIGSTOP); {
			case err == nil:
				stopped[pid], more = true, true
			case !errors.Is(err, unix.ESRCH):
				t.Fatalf("stop process %d: %v", pid, err)
			}
		}
	}
	if len(stopped) == 0 {
		t.Fatal("there is no process to stop")
	}
	t.Logf("%d processes stand still for %v", len(stopped), length)
	time.Sleep(length)
}
