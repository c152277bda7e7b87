package observe

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp/jsonhttptest"
	"github.com/meshtrial/meshtrial/record/probe"
	"github.com/meshtrial/meshtrial/testing/must"
)

// startServer runs a server for the duration of a test.
func startServer(t *testing.T, options Options) (Client, *Server) {
	t.Helper()
	options.Control = "127.0.0.1:0"
	s, err := New(options)
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return Client{BaseURL: "http://" + s.Address()}, s
}

// tree writes files to a temporary directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return root
}

const (
	testUID       = "0d2f8f5e-3a5c-4c1b-9b57-6f1f6b2f9a01"
	testContainer = "5b0a7f0f2f6c4d1e9a3b8c7d6e5f40312233445566778899aabbccddeeff0011"
)

func procTree(t *testing.T) string {
	return tree(t, map[string]string{
		"stat":                  "cpu  100 10 50 1000 20 5 7 3 0 0\ncpu0 100 10 50 1000 20 5 7 3 0 0\nctxt 999\n",
		"pressure/cpu":          "some avg10=1.00 avg60=0.00 avg300=0.00 total=5000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"pressure/memory":       "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
		"pressure/io":           "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
		"4242/smaps_rollup":     "0-1 ---p 0 00:00 0 [rollup]\nRss:  300 kB\nPss:  200 kB\n",
		"4243/smaps_rollup":     "0-1 ---p 0 00:00 0 [rollup]\nRss:  30 kB\nPss:  20 kB\n",
		"4242/comm":             "envoy\n",
		"4243/comm":             "pilot-agent\n",
		"4242/net/snmp":         "Tcp: RtoMin MaxConn ActiveOpens PassiveOpens CurrEstab InSegs OutSegs RetransSegs\nTcp: 200 -1 11 12 4 100 90 1\n",
		"4242/net/dev":          "head\neth0: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n",
		"sys/kernel/osrelease":  "6.1\n",
		"self/this/is/not/read": "",
	})
}

func v1Tree(t *testing.T, pod, container string) string {
	dir := "/meshtrial-x/kubepods/burstable/" + pod
	return tree(t, map[string]string{
		"cpuacct/cpuacct.usage":                                     "1",
		"cpuacct" + dir + "/cpuacct.usage":                          "5000",
		"cpuacct" + dir + "/cpuacct.usage_user":                     "4000",
		"cpuacct" + dir + "/cpuacct.usage_sys":                      "900",
		"cpuacct" + dir + "/cgroup.procs":                           "",
		"cpuacct" + dir + "/" + container + "/cpuacct.usage":        "3000000000",
		"cpuacct" + dir + "/" + container + "/cgroup.procs":         "4242\n4243\n4244\n0\n",
		"cpuacct" + dir + "/" + container + "/cpuacct.stat":         "user 200\nsystem 100\n",
		"cpu/cgroup.procs":                                          "",
		"cpu" + dir + "/" + container + "/cpu.stat":                 "nr_periods 10\nnr_throttled 2\nthrottled_time 77\n",
		"memory/memory.usage_in_bytes":                              "1",
		"memory" + dir + "/" + container + "/memory.usage_in_bytes": "123456\n",
	})
}

func TestSnapshotOfAFakeV1Node(t *testing.T) {
	c, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "pod"+testUID, testContainer), ProcRoot: procTree(t)})
	snapshot, err := c.Snapshot(t.Context(), []Target{{Name: "worker", PodUID: testUID, ContainerID: "containerd://" + testContainer}, {Name: "pod", PodUID: testUID}}, true)
	must.OK(t, err)
	worker := snapshot.Targets["worker"]
	// An old kernel without usage_user: the split comes from cpuacct.stat.
	if worker.Threads != nil || worker.CPU.TotalNS != 3e9 || worker.CPU.UserNS != 2e9 || worker.CPU.SystemNS != 1e9 || worker.CPU.ThrottledNS != 77 || worker.CPU.Periods != 10 {
		t.Errorf("worker CPU: %+v, threads that were not asked for: %v", worker.CPU, worker.Threads)
	}
	if m := worker.Memory; m == nil || m.CgroupBytes != 123456 || m.PSSBytes != 220*1024 || m.RSSBytes != 330*1024 || m.Processes != 2 || m.Missing != "" {
		t.Errorf("worker memory: %+v", m)
	}
	if by := worker.Memory.PSSByCommand; len(by) != 2 || by["envoy"] != 200*1024 || by["pilot-agent"] != 20*1024 {
		t.Errorf("memory by command: %v", by)
	}
	if n := worker.Net; n == nil || n.Established != 4 || n.ActiveOpens != 11 || n.PassiveOpen != 12 || n.Retransmits != 1 {
		t.Errorf("worker sockets: %+v", n)
	}
	if cpu := snapshot.Targets["pod"].CPU; cpu.TotalNS != 5000 || cpu.UserNS != 4000 {
		t.Errorf("pod CPU: %+v", cpu)
	}
	machine := snapshot.Machine
	if machine.UserNS != 110*1e7 || machine.SoftIRQNS != 7e7 || machine.IdleNS != 1020*1e7 || machine.StealNS != 3e7 || machine.CPUs != 1 ||
		!machine.Pressure || machine.CPUSomeNS != 5e6 || machine.MemorySomeNS != 7000 || machine.IOSomeNS != 9000 || machine.ContextSwitches != 999 {
		t.Errorf("machine: %+v", machine)
	}
}

func TestSnapshotOfAFakeV2Node(t *testing.T) {
	dir := "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + strings.ReplaceAll(testUID, "-", "_") + ".slice/cri-containerd-" + testContainer + ".scope/"
	root := tree(t, map[string]string{
		"cgroup.controllers":     "cpu memory\n",
		dir + "cpu.stat":         "usage_usec 1000\nuser_usec 700\nsystem_usec 300\nnr_periods 5\nnr_throttled 1\nthrottled_usec 40\n",
		dir + "memory.current":   "999\n",
		dir + "cgroup.procs":     "",
		dir + "sub/cgroup.procs": "4242\n",
	})
	c, _ := startServer(t, Options{CgroupRoot: root, ProcRoot: procTree(t)})
	snapshot, err := c.Snapshot(t.Context(), []Target{{Name: "x", ContainerID: testContainer}}, true)
	must.OK(t, err)
	x := snapshot.Targets["x"]
	if x.CPU.TotalNS != 1e6 || x.CPU.UserNS != 7e5 || x.CPU.SystemNS != 3e5 || x.CPU.ThrottledNS != 4e4 {
		t.Errorf("%+v", x.CPU)
	}
	if x.Memory.CgroupBytes != 999 || x.Memory.PSSBytes != 200*1024 {
		t.Errorf("%+v", x.Memory)
	}
	request := SnapshotsRequest{AtUnixNS: []int64{1, 2, 3}, Targets: []Target{{Name: "x", ContainerID: testContainer}}, Probes: []string{"network"}}
	shots, err := c.Snapshots(t.Context(), request)
	must.OK(t, err)
	for i, want := range []uint64{30, 0, 30} { // only at the edges
		if got := shots[i].Targets["x"].Probed["network_bytes"]; got != want {
			t.Errorf("snapshot %d has %d bytes, want %d", i, got, want)
		}
	}
	request.Probes = []string{"nothing"}
	if _, err := c.Snapshots(t.Context(), request); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), `probes[0]: there is no probe "nothing"`) {
		t.Errorf("%v", err)
	}
}

// A target that may end, and has ended, does not affect the others and has no readings.
func TestTargetThatMayEnd(t *testing.T) {
	c, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "pod"+testUID, testContainer), ProcRoot: procTree(t)})
	now := time.Now().UnixNano()
	all, err := c.Snapshots(t.Context(), SnapshotsRequest{AtUnixNS: []int64{now, now + 1}, Memory: true, Threads: true, Processes: true, Probes: []string{probe.Names()[0]},
		Targets: []Target{{Name: "there", ContainerID: testContainer, MayEnd: true}, {Name: "gone", ContainerID: strings.Repeat("0", 64), MayEnd: true}}})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d snapshots, %v", len(all), err)
	}
	for _, shot := range all {
		there, gone := shot.Targets["there"], shot.Targets["gone"]
		if there.Error != "" || there.CPU.TotalNS != 3e9 {
			t.Errorf("the other: %+v", there)
		}
		if !strings.Contains(gone.Error, "no cgroup found") || gone.CPU != (CPUSample{}) || gone.Memory != nil || gone.Net != nil || gone.Probed != nil || gone.Threads == nil || gone.Threads.Missing == "" {
			t.Errorf("one that has ended: %+v", gone)
		}
	}
	if _, err := all[1].Targets["gone"].Since(all[0].Targets["gone"]); err == nil {
		t.Error("nothing is told of what was never read")
	}
}

func TestBadRequests(t *testing.T) {
	c, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "pod"+testUID, testContainer), ProcRoot: procTree(t)})
	now := time.Now().UnixNano()
	good := Target{Name: "a", ContainerID: testContainer}
	for name, request := range map[string]SnapshotsRequest{
		"falling":       {AtUnixNS: []int64{now, now - 1}},
		"far ahead":     {AtUnixNS: []int64{now + int64(2*time.Hour)}},
		"no name":       {AtUnixNS: []int64{now}, Targets: []Target{{ContainerID: testContainer}}},
		"a name twice":  {AtUnixNS: []int64{now}, Targets: []Target{good, good}},
		"no id":         {AtUnixNS: []int64{now}, Targets: []Target{{Name: "a"}}},
		"a path for id": {AtUnixNS: []int64{now}, Targets: []Target{{Name: "a", ContainerID: "../../../etc/passwd"}}},
		"many targets":  {AtUnixNS: []int64{now}, Targets: make([]Target, MaxTargets+1)},
	} {
		if _, err := c.Snapshots(t.Context(), request); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
	missing := []Target{{Name: "a", ContainerID: strings.Repeat("0", 64)}}
	if _, err := c.Snapshot(t.Context(), missing, false); err == nil || !strings.Contains(err.Error(), "404") || errs.Hint(err) == "" {
		t.Errorf("unknown container: %v", err)
	}
	for _, body := range []string{"", "{", `{"targetz": []}`, `{} {}`, "null x"} {
		resp, err := http.Post(c.BaseURL+"/v1/snapshots", "application/json", strings.NewReader(body))
		must.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("%q: %d", body, resp.StatusCode)
		}
	}
}

func TestSnapshotsWaitForTheirInstants(t *testing.T) {
	c, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "pod"+testUID, testContainer), ProcRoot: procTree(t)})
	now := time.Now()
	request := SnapshotsRequest{Targets: []Target{{Name: "a", ContainerID: testContainer}}, Memory: true}
	for _, ms := range []int64{-50, 20, 40, 60} { // the first is in the past
		request.AtUnixNS = append(request.AtUnixNS, now.Add(time.Duration(ms)*time.Millisecond).UnixNano())
	}
	snapshots, err := c.Snapshots(t.Context(), request)
	must.OK(t, err)
	for i, snapshot := range snapshots {
		if snapshot.AtUnixNS != request.AtUnixNS[i] || snapshot.StartNS < snapshot.AtUnixNS || snapshot.EndNS < snapshot.StartNS {
			t.Errorf("instant %d: %+v", i, snapshot)
		}
		a := snapshot.Targets["a"]
		if hasMemory, last := a.Memory != nil, i == 3; hasMemory != last {
			t.Errorf("instant %d: memory %v", i, a.Memory)
		}
		if hasNet, edge := a.Net != nil, i == 0 || i == 3; hasNet != edge {
			t.Errorf("instant %d: sockets %v", i, a.Net)
		}
	}
}

func TestACancelledRequestEnds(t *testing.T) {
	c, s := startServer(t, Options{CgroupRoot: v1Tree(t, "pod"+testUID, testContainer), ProcRoot: procTree(t)})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Snapshots(ctx, SnapshotsRequest{AtUnixNS: []int64{time.Now().Add(time.Minute).UnixNano()}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	for len(s.places) > 0 { // until the server releases it, or the test times out
		time.Sleep(time.Millisecond)
	}
}

func TestClockAndMachine(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/cpuinfo": "processor : 0\nmodel name : Fast CPU\nflags : fpu hypervisor\n\nprocessor : 1\nmodel name : Fast CPU\n",
		"proc/meminfo": "MemTotal: 1024 kB\n",
		"proc/mounts":  "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
	})
	c, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "podx", testContainer), ProcRoot: procTree(t), Root: root})
	machine, err := c.Machine(t.Context())
	if err != nil || machine.CPUs != 2 || machine.CPUModel != "Fast CPU" || machine.MemoryBytes != 1<<20 || machine.CgroupMode != "v2" || machine.Virtual == "" {
		t.Errorf("%+v, %v", machine, err)
	}
	if clock, err := c.Clock(t.Context()); err != nil || clock.Ahead.Abs() > clock.Bound+time.Millisecond {
		t.Errorf("%+v, %v", clock, err)
	}
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	empty := t.TempDir()
	if _, err := New(Options{CgroupRoot: empty, Control: "127.0.0.1:0"}); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--cgroup-root") {
		t.Errorf("%v", err)
	}
	if _, err := New(Options{CgroupRoot: v1Tree(t, "podx", testContainer), ProcRoot: empty, Control: "127.0.0.1:0"}); !strings.Contains(errs.Hint(err), "--proc-root") {
		t.Errorf("%v", err)
	}
	if _, err := New(Options{CgroupRoot: v1Tree(t, "podx", testContainer), ProcRoot: procTree(t), Control: "nonsense"}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("%v", err)
	}
}

// A web page in a user's browser must not make a node take samples.
func TestPagesOfOthersAreRefused(t *testing.T) {
	c, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "podx", testContainer), ProcRoot: procTree(t)})
	jsonhttptest.RefusesStrangers(t, c.BaseURL, "/v1/snapshots")
}
