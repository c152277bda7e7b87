//go:build integration

package observe

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// spin keeps a thread busy for the given time.
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for range 10_000 {
			runtime.KeepAlive(end)
		}
	}
}

// burnThreads keeps two threads permanently busy, one of them a third of the
// time, starts a third after a while, and continuously starts threads that end
// soon.
func burnThreads() {
	thread := func(work func()) {
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			work()
		}()
	}
	thread(func() { spin(time.Hour) })
	thread(func() {
		for {
			spin(10 * time.Millisecond)
			time.Sleep(20 * time.Millisecond)
		}
	})
	time.AfterFunc(1500*time.Millisecond, func() { thread(func() { spin(time.Hour) }) })
	for {
		thread(func() { spin(15 * time.Millisecond) })
		time.Sleep(50 * time.Millisecond)
	}
}

// TestThreadsAgreeWithTheKernel verifies that the times of a real process's
// threads, including those that start and end in between, match what the kernel
// charged to its cgroup within 1%.
func TestThreadsAgreeWithTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make cgroups")
	}
	c, s := startServer(t, Options{})
	const uid, id = "3d2f8f5e-3a5c-4c1b-9b57-6f1f6b2f9a04", "8d0a7f0f2f6c4d1e9a3b8c7d6e5f40312233445566778899aabbccddeeff0044"
	path := container(t, s.finder, "meshtrial-test-"+strconv.Itoa(os.Getpid())+"-threads", "kubepods", "pod"+uid, id)
	t.Setenv(threadsEnv, "1")
	// A real error occurs every time; the effects of a busy machine do not.
	var wrong string
	for range 4 {
		pid := burn(t, s.finder, path)
		burning(t, pid)
		if wrong = threadsDiffer(t, c, id); wrong == "" {
			return
		}
		t.Log(wrong)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	t.Error(wrong)
}

// threadsDiffer describes errors in the times of the threads of a newly started
// process; "" if they are correct.
func threadsDiffer(t *testing.T, c Client, id string) string {
	t.Helper()
	start := time.Now().Add(60 * time.Millisecond)
	snapshots, err := c.Snapshots(t.Context(), SnapshotsRequest{AtUnixNS: []int64{start.UnixNano(), start.Add(3 * time.Second).UnixNano()},
		Targets: []Target{{Name: "c", ContainerID: id}}, Threads: true})
	must.OK(t, err)
	before, after := snapshots[0].Targets["c"].Threads, snapshots[1].Targets["c"].Threads
	got, err := after.Since(*before)
	if err != nil {
		return err.Error()
	}
	began := 0
	for _, th := range got.Threads {
		t.Logf("%d %s: %.3f s (user %.3f), waited %.3f s, switches %d + %d, began %v", th.TID, th.Name, th.CPU.TotalS(), th.CPU.UserS, th.WaitS, th.Voluntary, th.Involuntary, th.Began)
		if th.Began {
			began++
		}
	}
	t.Logf("cgroup %.4f s in %.3f s, ended %.4f s (%d of those there before), unaccounted %.5f s, unsure %.6f s", got.CPUS, got.Seconds, got.EndedS, got.Ended, got.UnaccountedS, got.UnsureS)
	if math.Abs(got.UnaccountedS) > 0.01*got.CPUS {
		return fmt.Sprintf("threads and cgroup differ by %.3f%%", 100*got.UnaccountedS/got.CPUS)
	}
	if got.CPUS < 0.2 || got.EndedS < 0.02*got.CPUS || began == 0 {
		return "the process did not do what the test is about"
	}
	return ""
}
