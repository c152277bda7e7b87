package observe

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// taskTree adds threads to a process of a fake /proc.
func taskTree(t *testing.T) string {
	stat := func(id, name string, user, system, start string) string {
		return id + " (" + name + ") S 1 1 1 0 -1 4194368 100 0 0 0 " + user + " " + system + " 0 0 20 0 1 0 " + start + " 1000 200 1\n"
	}
	switches := "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"
	return tree(t, map[string]string{
		"stat":                     "cpu  100 10 50 1000 20 5 7 3 0 0\ncpu0 100 10 50 1000 20 5 7 3 0 0\nctxt 999\n",
		"4242/stat":                stat("4242", "envoy", "9", "9", "77"),
		"4242/task/4242/stat":      stat("4242", "envoy", "1", "2", "77"),
		"4242/task/4242/schedstat": "30000000 1000000 5\n",
		"4242/task/4242/status":    switches,
		"4242/task/4250/stat":      stat("4250", "wrk:worker_0", "100", "50", "78"),
		"4242/task/4250/schedstat": "1500000000 2000000 50\n",
		"4242/task/4250/status":    switches,
		"4242/task/4251/stat":      stat("4251", "ended meanwhile", "1", "1", "79"), // its schedstat is gone
	})
}

func TestThreadsOfACgroup(t *testing.T) {
	const dir = "kubepods/pod" + testUID + "/" + testContainer + "/"
	v1 := func(quota string) map[string]string {
		return map[string]string{
			"cpuacct/cpuacct.usage": "1", "cpu/cgroup.procs": "",
			"cpuacct/" + dir + "cpuacct.usage":      "1530000000",
			"cpuacct/" + dir + "cpuacct.usage_user": "1000000000",
			"cpuacct/" + dir + "cpuacct.usage_sys":  "530000000",
			"cpuacct/" + dir + "cgroup.procs":       "4242\n",
			"cpu/" + dir + "cpu.stat":               "nr_periods 10\nnr_throttled 2\nthrottled_time 77\n",
			"cpu/" + dir + "cpu.cfs_quota_us":       quota + "\n",
			"cpu/" + dir + "cpu.cfs_period_us":      "100000\n",
		}
	}
	v2 := func(quota string) map[string]string {
		return map[string]string{
			"cgroup.controllers": "cpu memory\n",
			dir + "cpu.stat": "usage_usec 1530000\nuser_usec 1000000\nsystem_usec 530000\n" +
				"nr_periods 10\nnr_throttled 2\nthrottled_usec 77\n",
			dir + "cgroup.procs": "4242\n", dir + "cpu.max": quota + " 100000\n",
		}
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		quota float64
	}{
		{"v1", v1("50000"), 0.5}, {"v1 without a limit", v1("-1"), 0},
		{"v2", v2("150000"), 1.5}, {"v2 without a limit", v2("max"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, _ := startServer(t, Options{CgroupRoot: tree(t, c.files), ProcRoot: taskTree(t)})
			var snapshots []Snapshot
			var first, last *ThreadsSample
			between := true
			// On a busy machine the first instant may have passed when the request
			// arrives.
			for lead := 60 * time.Millisecond; between && lead < 20*time.Second; lead *= 4 {
				now := time.Now()
				var err error
				snapshots, err = client.Snapshots(t.Context(), SnapshotsRequest{
					AtUnixNS: []int64{now.Add(lead).UnixNano(), now.Add(2 * lead).UnixNano()},
					Targets:  []Target{{Name: "proxy", ContainerID: testContainer}}, Threads: true})
				must.OK(t, err)
				first, last = snapshots[0].Targets["proxy"].Threads, snapshots[1].Targets["proxy"].Threads
				if first == nil || last == nil {
					t.Fatal("no threads")
				}
				between = first.AtUnixNS >= snapshots[0].AtUnixNS || last.AtUnixNS < snapshots[1].EndNS
			}
			if between {
				t.Error("threads were read between the instants")
			}
			if len(last.Threads) != 2 || last.Missing != "" || last.QuotaCores != c.quota || last.CPU.TotalNS != 1_530_000_000 || last.CPU.Throttled != 2 {
				t.Fatalf("%+v", last)
			}
			want := ThreadSample{PID: 4242, TID: 4250, Name: "wrk:worker_0", Start: 78, RunNS: 1_500_000_000, WaitNS: 2_000_000, UserTicks: 100, SystemTicks: 50, Voluntary: 12, Involuntary: 3}
			if last.Threads[1] != want {
				t.Errorf("worker %+v", last.Threads[1])
			}
			threads, err := last.Since(*first)
			if err != nil || threads.CPUS != 0 || threads.UnaccountedS != 0 || len(threads.Threads) != 2 {
				t.Errorf("%+v, %v", threads, err)
			}
		})
	}
}

// A kernel that keeps no times of threads is not mistaken for one whose threads were
// idle.
func TestKernelsWithoutTimesOfThreads(t *testing.T) {
	proc := taskTree(t)
	for _, tid := range []string{"4242", "4250"} {
		must.OK(t, os.Remove(filepath.Join(proc, "4242/task", tid, "schedstat")))
	}
	client, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "pod"+testUID, testContainer), ProcRoot: proc})
	snapshots, err := client.Snapshots(t.Context(), SnapshotsRequest{AtUnixNS: []int64{time.Now().UnixNano()}, Targets: []Target{{Name: "c", ContainerID: testContainer}}, Threads: true})
	must.OK(t, err)
	if got := snapshots[0].Targets["c"].Threads; got == nil || !strings.Contains(got.Missing, "CONFIG_SCHED_INFO") {
		t.Errorf("%+v", got)
	}
}

// A complete reading is preferred to an incomplete one, however fast the latter was.
func TestBetterReadings(t *testing.T) {
	quick, slow, broken := &ThreadsSample{UnsureNS: 1}, &ThreadsSample{UnsureNS: 2}, &ThreadsSample{Missing: "no process"}
	for _, c := range []struct {
		a, b *ThreadsSample
		want bool
	}{{quick, slow, true}, {slow, quick, false}, {slow, slow, false}, {slow, broken, true}, {broken, slow, false}, {broken, broken, false}} {
		if got := c.a.better(c.b); got != c.want {
			t.Errorf("%+v better than %+v: %v", c.a, c.b, got)
		}
	}
}

// Threads are also read for a single instant: before a window's counters at its
// beginning, and after them at its end.
func TestThreadsOfOneInstant(t *testing.T) {
	client, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "pod"+testUID, testContainer), ProcRoot: taskTree(t)})
	for _, edge := range []Edge{Begin, End} {
		shot, err := client.One(t.Context(), SnapshotsRequest{Targets: []Target{{Name: "c", ContainerID: testContainer}}, Threads: true, Edge: edge})
		must.OK(t, err)
		threads := shot.Targets["c"].Threads
		if threads == nil || len(threads.Threads) != 2 {
			t.Fatalf("edge %q: %+v", edge, threads)
		}
		if edge == Begin && threads.AtUnixNS > shot.StartNS || edge == End && threads.AtUnixNS < shot.EndNS {
			t.Errorf("edge %q: threads at %d, counters from %d to %d", edge, threads.AtUnixNS, shot.StartNS, shot.EndNS)
		}
	}
}

// sample returns a sample of one process with its total, and threads with the given
// nanoseconds.
func sample(cgroup, process uint64, threads ...ThreadSample) ThreadsSample {
	s := ThreadsSample{AtUnixNS: int64(cgroup), CPU: CPUSample{TotalNS: cgroup, Inode: 3, Periods: cgroup / 1e8, Throttled: cgroup / 2e8, ThrottledNS: cgroup / 10},
		QuotaCores: 0.5, Processes: []ProcessSample{{PID: 1, Command: "envoy", Start: 4, TotalNS: process}}}
	for _, t := range threads {
		t.PID = 1
		s.Threads = append(s.Threads, t)
	}
	return s
}

func TestThreadsSince(t *testing.T) {
	const ms = 1_000_000
	before := sample(1000*ms, 1000*ms,
		ThreadSample{TID: 1, Name: "envoy", Start: 4, RunNS: 100 * ms},
		ThreadSample{TID: 2, Name: "wrk:worker_0", Start: 5, RunNS: 500 * ms, WaitNS: 10 * ms, UserTicks: 30, SystemTicks: 20, Voluntary: 4},
		ThreadSample{TID: 3, Name: "ends", Start: 6, RunNS: 400 * ms})
	after := sample(3000*ms, 3000*ms,
		ThreadSample{TID: 1, Name: "envoy", Start: 4, RunNS: 200 * ms},
		ThreadSample{TID: 2, Name: "wrk:worker_0", Start: 5, RunNS: 1700 * ms, WaitNS: 60 * ms, UserTicks: 120, SystemTicks: 50, Voluntary: 9, Involuntary: 2},
		ThreadSample{TID: 3, Name: "has its id", Start: 900, RunNS: 300 * ms, UserTicks: 30})
	got, err := after.Since(before)
	must.OK(t, err)
	close := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if !close(got.CPUS, 2) || !close(got.Seconds, 2) || got.Ended != 1 || !close(got.EndedS, 0.4) || !close(got.UnaccountedS, 0) {
		t.Errorf("account %+v", got)
	}
	if got.Periods != 20 || got.Throttled != 10 || !close(got.ThrottledS, 0.2) || got.QuotaCores != 0.5 {
		t.Errorf("throttling %+v", got)
	}
	worker := got.Threads[1]
	if n, ok := worker.Worker(); !ok || n != 0 || worker.Main() || worker.Began || worker.Process != "envoy" ||
		!close(worker.CPU.UserS, 0.9) || !close(worker.CPU.SystemS, 0.3) || !close(worker.WaitS, 0.05) || worker.Voluntary != 5 || worker.Involuntary != 2 {
		t.Errorf("worker %+v", worker)
	}
	if again := got.Threads[2]; !again.Began || !close(again.CPU.UserS, 0.3) {
		t.Errorf("a thread with the id of another: %+v", again)
	}
	if !got.Threads[0].Main() {
		t.Error("the first thread is the main one")
	}
}

func TestThreadsThatCannotBeCompared(t *testing.T) {
	base := sample(5, 5)
	for name, change := range map[string]func(*ThreadsSample){
		"another cgroup": func(s *ThreadsSample) { s.CPU.Inode++ },
		"it fell":        func(s *ThreadsSample) { s.CPU.TotalNS = 4 },
	} {
		after := sample(5, 5)
		change(&after)
		if _, err := after.Since(base); !errors.Is(err, ErrReset) {
			t.Errorf("%s: %v", name, err)
		}
	}
	missing := sample(6, 6)
	missing.Missing = "no process"
	if _, err := missing.Since(base); err == nil {
		t.Error("a sample with something missing has an account")
	}
	// If a process's own account cannot be read, the use of ended threads is unknown.
	after := sample(9, 0)
	if got, err := after.Since(sample(5, 0)); err != nil || got.EndedS != 0 || got.UnaccountedS != 4e-9 {
		t.Errorf("%+v, %v", got, err)
	}
}
