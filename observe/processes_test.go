package observe

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// This process is among the machine's, with its CPU time.
func TestProcesses(t *testing.T) {
	before := Processes("/proc", nil)
	x := 0.0
	for i := range 20_000_000 {
		x += math.Sqrt(float64(i))
	}
	after := Processes("/proc", nil)
	i := slices.IndexFunc(after, func(p ProcessSample) bool { return p.PID == os.Getpid() })
	if i < 0 || x == 0 {
		t.Fatal("this process is not there")
	}
	if after[i].Parent != os.Getppid() || after[i].Command == "" {
		t.Errorf("%+v, its parent is %d", after[i], os.Getppid())
	}
	if used := Used(before, after)[i]; used < 1e-3 {
		t.Errorf("it counted for a while and used %v s", used)
	}
	if without := Processes("/proc", map[int]bool{os.Getpid(): true}); slices.ContainsFunc(without, func(p ProcessSample) bool { return p.PID == os.Getpid() }) {
		t.Error("it was to be left out")
	}
	if got := Processes(t.TempDir(), nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

func TestUsedOfAnIDUsedAgain(t *testing.T) {
	before := []ProcessSample{{PID: 7, Start: 1, TotalNS: 5e9}, {PID: 8, Start: 1, TotalNS: 1e9}}
	after := []ProcessSample{{PID: 7, Start: 9, TotalNS: 1e9}, {PID: 8, Start: 1, TotalNS: 4e9}, {PID: 9, Start: 3, TotalNS: 2e9}}
	if got := Used(before, after); !slices.Equal(got, []float64{1, 3, 2}) {
		t.Errorf("%v", got)
	}
}

func TestOutside(t *testing.T) {
	all := []ProcessSample{{PID: 1}, {PID: 10, Parent: 1}, {PID: 11, Parent: 10}, {PID: 12, Parent: 11}, {PID: 20, Parent: 1}, {PID: 30, Parent: 31}, {PID: 31, Parent: 30}}
	if got := Outside(all, 10); !slices.Equal(got, []bool{true, false, false, false, true, true, true}) {
		t.Errorf("%v", got)
	}
}

// The account of a machine adds up: parts, cluster, and unattributed.
func TestOthers(t *testing.T) {
	node := Host{Before: []ProcessSample{{PID: 1, Command: "kubelet"}, {PID: 2, Command: "job"}},
		After: []ProcessSample{{PID: 1, Command: "kubelet", TotalNS: 2e8}, {PID: 2, Command: "job", TotalNS: 5e8}, {PID: 3, Command: "tiny", TotalNS: 1e6}}}
	of := func(got float64) float64 { return math.Round(got*1e9) / 1e9 }

	// The node is the machine itself: everything that does not belong to Kubernetes
	// is unattributed.
	got := Others(1.0, 2, 4, []Host{node}, nil)
	if of(got.ClusterS) != 0.2 || of(got.UnattributedS) != 0.8 || of(got.UnattributedRatio) != 0.1 {
		t.Errorf("%+v", got)
	}
	if len(got.Who) != 1 || got.Who[0].Command != "job" || of(got.Who[0].CPUS) != 0.5 {
		t.Errorf("who: %+v", got.Who)
	}

	// The node is a process of this machine: everything inside belongs to the lab,
	// and everything else does not.
	beside := &Host{Node: 100, Self: 50, After: []ProcessSample{{PID: 50, Command: "meshtrial", TotalNS: 1e8}, {PID: 100, Command: "meshtrial", TotalNS: 3e8},
		{PID: 101, Parent: 100, Command: "kubelet", TotalNS: 2e8}, {PID: 60, Command: "cc1", TotalNS: 3e8}, {PID: 61, Command: "cc1", TotalNS: 1e8}, {PID: 62, Command: "as", TotalNS: 5e8}}}
	beside.AfterNS = 2e9 // twice the window, with twice the use
	for i := range beside.After {
		beside.After[i].TotalNS *= 2
	}
	got = Others(1.9, 1, 2, []Host{node}, beside)
	if of(got.ClusterS) != 0.801 || of(got.UnattributedS) != 1.099 {
		t.Errorf("%+v", got)
	}
	if len(got.Who) != 2 || got.Who[0].Command != "as" || got.Who[1].Command != "cc1" || of(got.Who[1].CPUS) != 0.4 {
		t.Errorf("who: %+v", got.Who)
	}

	// Several nodes of this machine: each has its own processes, the control plane
	// runs on none, and there is only one machine.
	other := Host{After: []ProcessSample{{PID: 1, Command: "kubelet", TotalNS: 3e8}}}
	beside.Between = map[int]bool{100: true, 102: true}
	beside.After = append(beside.After, ProcessSample{PID: 102, Parent: 100, Command: "etcd", TotalNS: 1e8})
	got = Others(1.9, 1, 2, []Host{node, other}, beside)
	if of(got.ClusterS) != 1.451 || of(got.UnattributedS) != 0.449 || of(got.UnattributedRatio) != 0.2245 {
		t.Errorf("of several nodes: %+v", got)
	}
}

// Children share their parent's namespace unless they are given another.
func TestSameSpace(t *testing.T) {
	all := []ProcessSample{{PID: os.Getpid()}, {PID: os.Getppid()}, {PID: 1 << 30}}
	if got := SameSpace("/proc", all, os.Getpid()); !got[os.Getpid()] || !got[os.Getppid()] || got[1<<30] {
		t.Errorf("%v", got)
	}
	if got := SameSpace("/proc", all, 1<<30); len(got) > 0 {
		t.Errorf("of a process that is not there: %v", got)
	}
	root := t.TempDir()
	for pid, space := range map[string]string{"7": "pid:[1]", "8": "pid:[1]", "9": "pid:[2]"} {
		must.OK(t, os.MkdirAll(filepath.Join(root, pid, "ns"), 0o700))
		must.OK(t, os.Symlink(space, filepath.Join(root, pid, "ns", "pid")))
	}
	if got := SameSpace(root, []ProcessSample{{PID: 7}, {PID: 8}, {PID: 9}}, 7); len(got) != 2 || got[9] {
		t.Errorf("%v", got)
	}
}

func TestOfCluster(t *testing.T) {
	for command, want := range map[string]bool{"kubelet": true, "containerd-shim": true, "kube-controller": true, "meshtrial": true, "cc1": false, "envoy": false} {
		if got := (ProcessSample{Command: command}).OfCluster(); got != want {
			t.Errorf("%s: %v", command, got)
		}
	}
}

// Processes are read before a window's counters at its beginning, and after them at
// its end, so that the use of a process that ran throughout covers the window.
func TestProcessesSpanTheWindow(t *testing.T) {
	c, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "pod"+testUID, testContainer), ProcRoot: procTree(t)})
	targets := []Target{{Name: "worker", PodUID: testUID, ContainerID: "containerd://" + testContainer}}
	for _, memory := range []bool{false, true} {
		begin, err := c.One(t.Context(), SnapshotsRequest{Processes: true, Targets: targets, Memory: memory})
		must.OK(t, err)
		end, err := c.One(t.Context(), SnapshotsRequest{Processes: true, Targets: targets, Memory: memory, Edge: End})
		must.OK(t, err)
		if begin.ProcessesNS == 0 || begin.ProcessesNS > begin.StartNS {
			t.Errorf("at the beginning they are read at %d, counters from %d on", begin.ProcessesNS, begin.StartNS)
		}
		if end.ProcessesNS < end.EndNS {
			t.Errorf("at the end they are read at %d, counters until %d", end.ProcessesNS, end.EndNS)
		}
	}
	now := time.Now().UnixNano()
	both, err := c.Snapshots(t.Context(), SnapshotsRequest{AtUnixNS: []int64{now, now + 1}, Targets: targets, Processes: true, Edge: End})
	if err != nil || both[0].ProcessesNS == 0 || both[0].ProcessesNS > both[0].StartNS || both[1].ProcessesNS < both[1].EndNS {
		t.Errorf("of two instants: %+v, %v", both, err)
	}
	if _, err := c.One(t.Context(), SnapshotsRequest{Processes: true, Targets: targets, Edge: "middle"}); err == nil {
		t.Error("an edge that no window has")
	}
}
