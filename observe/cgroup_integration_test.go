//go:build integration

package observe

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// burnEnv makes the test binary burn CPU, half of it in the kernel, instead of
// running tests.
const burnEnv = "MESHTRIAL_TEST_BURN"

// threadsEnv, set in addition, makes it burn in threads that come and go.
const threadsEnv = "MESHTRIAL_TEST_BURN_THREADS"

func TestMain(m *testing.M) {
	if os.Getenv(burnEnv) == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(threadsEnv) != "" {
		burnThreads()
	}
	zero, err := os.Open("/dev/zero")
	if err != nil {
		os.Exit(1)
	}
	buffer := make([]byte, 64<<10)
	for x := 1; ; {
		for range 30_000 {
			x = x*1103515245 + 12345
		}
		_, _ = zero.Read(buffer)
		_ = x
	}
}

// container creates the cgroups that a runtime would create for a container in the
// detected hierarchies, below the given parents, and returns their path relative to
// the roots.
func container(t *testing.T, f *finder, parents ...string) string {
	t.Helper()
	path := filepath.Join(parents...)
	for _, root := range []string{f.cpuacct, f.cpu, f.memory} {
		if root == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Join(root, path), 0o755); err != nil {
			t.Skipf("cannot make a cgroup: %v", err)
		}
		t.Cleanup(func() {
			for dir := path; dir != "."; dir = filepath.Dir(dir) {
				_ = os.Remove(filepath.Join(root, dir)) // rmdir, which fails for shared parents
			}
		})
	}
	return path
}

// burn starts a busy process in a cgroup.
func burn(t *testing.T, f *finder, path string) int {
	t.Helper()
	self, err := os.Executable()
	must.OK(t, err)
	// The shell enters the cgroups first, so that all of the process's time is
	// charged to them.
	script := ""
	for _, root := range []string{f.cpuacct, f.cpu, f.memory} {
		if root != "" {
			script += "echo $$ > " + filepath.Join(root, path, "cgroup.procs") + " && "
		}
	}
	cmd := exec.Command("/bin/sh", "-c", script+"exec "+self)
	cmd.Env = append(os.Environ(), burnEnv+"=1")
	if os.Getenv(threadsEnv) == "" {
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// burning waits until a process started by [burn] is past the shell, and thus in its
// cgroups.
func burning(t *testing.T, pid int) {
	t.Helper()
	self, err := os.Executable()
	must.OK(t, err)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		program, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
		if program == self {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d runs %s, not %s: %v", pid, program, self, err)
		}
	}
}

func processCPU(t *testing.T, pid int) (user, system float64) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	must.OK(t, err)
	p, err := procfs.ParseProcess(data)
	must.OK(t, err)
	return float64(p.User) / procfs.TicksPerSecond, float64(p.System) / procfs.TicksPerSecond
}

func TestCgroupCPUAgreesWithTheProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make cgroups")
	}
	c, s := startServer(t, Options{})
	const uid, id = "0d2f8f5e-3a5c-4c1b-9b57-6f1f6b2f9a01", "5b0a7f0f2f6c4d1e9a3b8c7d6e5f40312233445566778899aabbccddeeff0011"
	path := container(t, s.finder, "meshtrial-test-"+strconv.Itoa(os.Getpid()), "kubepods", "besteffort", "pod"+uid, id)
	pid := burn(t, s.finder, path)
	targets := []Target{{Name: "container", ContainerID: "containerd://" + id}, {Name: "pod", PodUID: uid}}
	burning(t, pid)
	// Both are read at about the same time, unless the machine delays one of them. A
	// real error occurs every time.
	var wrong []string
	for range 4 {
		if wrong = cgroupDiffers(t, c, pid, targets); len(wrong) == 0 {
			return
		}
		t.Log(strings.Join(wrong, "\n"))
	}
	t.Error(strings.Join(wrong, "\n"))
}

// cgroupDiffers describes differences between the account of a cgroup over several
// seconds and that of its only process.
func cgroupDiffers(t *testing.T, c Client, pid int, targets []Target) (wrong []string) {
	t.Helper()
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	const seconds = 4
	first := time.Now().Add(50 * time.Millisecond)
	second := first.Add(seconds * time.Second)
	type usage struct {
		user, system float64
		began, ended time.Time // of reading
	}
	var edges [2]usage
	read := make(chan struct{})
	go func() {
		defer close(read)
		for i, at := range []time.Time{first, second} {
			time.Sleep(time.Until(at))
			edges[i].began = time.Now()
			edges[i].user, edges[i].system = processCPU(t, pid)
			edges[i].ended = time.Now()
		}
	}()
	snapshots, err := c.Snapshots(t.Context(), SnapshotsRequest{AtUnixNS: []int64{first.UnixNano(), second.UnixNano()}, Targets: targets, Memory: true})
	must.OK(t, err)
	<-read
	process := usage{user: edges[1].user - edges[0].user, system: edges[1].system - edges[0].system}
	// Between the two readings of an edge it may use up to one CPU, for as long as
	// the machine delays either reading.
	apart := 0.0
	for i, s := range snapshots {
		began, ended := min(s.StartNS, edges[i].began.UnixNano()), max(s.EndNS, edges[i].ended.UnixNano())
		apart += float64(ended-began) / 1e9
	}
	for _, name := range []string{"container", "pod"} {
		a, b := snapshots[0].Targets[name], snapshots[1].Targets[name]
		cpu, err := b.Since(a)
		must.OK(t, err)
		want := process.user + process.system
		t.Logf("%s: cgroup %.3f s (user %.3f, system %.3f), process %.2f s (user %.2f, system %.2f), window %.6f s",
			name, cpu.TotalS(), cpu.UserS, cpu.SystemS, want, process.user, process.system, float64(b.AtUnixNS-a.AtUnixNS)/1e9)
		// The process's own account is in ticks of 10 ms and was read by another
		// goroutine at about the same time.
		if math.Abs(cpu.TotalS()-want) > 0.02*want+0.03+apart {
			say("%s: cgroup says %.3f s, process %.3f s, read within %.3f s", name, cpu.TotalS(), want, apart)
		}
		if math.Abs(cpu.UserS-process.user) > 0.1*want || cpu.SystemS <= 0 {
			say("%s: user %.3f s, the process says %.3f s", name, cpu.UserS, process.user)
		}
		memory := b.Memory
		if memory == nil || memory.Processes != 1 || memory.PSSBytes < 500_000 || memory.RSSBytes < memory.PSSBytes || memory.Missing != "" {
			say("%s: memory %+v", name, memory)
		}
		if a.Memory != nil || b.Net == nil {
			t.Errorf("%s: memory was read at the start, or sockets not at the end", name)
		}
	}
	machine, pressure, err := snapshots[1].Machine.Since(snapshots[0].Machine)
	must.OK(t, err)
	if machine.TotalS() < 0.95*(process.user+process.system) || pressure.BusyRatio <= 0 || pressure.BusyRatio > 1 {
		say("machine %+v, pressure %+v", machine, pressure)
	}
	for i, snapshot := range snapshots {
		t.Logf("instant %d: started %.0f us late, read in %.0f us", i, float64(snapshot.StartNS-snapshot.AtUnixNS)/1e3, float64(snapshot.EndNS-snapshot.StartNS)/1e3)
		if snapshot.StartNS < snapshot.AtUnixNS {
			t.Errorf("instant %d was sampled early", i)
		}
	}
	return wrong
}

func TestSystemdNamesAreFound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make cgroups")
	}
	c, s := startServer(t, Options{})
	const uid, id = "1d2f8f5e-3a5c-4c1b-9b57-6f1f6b2f9a02", "6c0a7f0f2f6c4d1e9a3b8c7d6e5f40312233445566778899aabbccddeeff0022"
	path := container(t, s.finder, "meshtrial-test-"+strconv.Itoa(os.Getpid())+"-systemd", "kubepods.slice", "kubepods-burstable.slice",
		"kubepods-burstable-pod1d2f8f5e_3a5c_4c1b_9b57_6f1f6b2f9a02.slice", "cri-containerd-"+id+".scope")
	burn(t, s.finder, path)
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		snapshot, err := c.Snapshot(t.Context(), []Target{{Name: "c", ContainerID: id}, {Name: "p", PodUID: uid}}, false)
		must.OK(t, err)
		idle := false // until the process has entered
		for _, sample := range snapshot.Targets {
			idle = idle || sample.CPU.TotalNS == 0 || sample.Error != ""
		}
		if !idle && len(snapshot.Targets) == 2 {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%+v", snapshot.Targets)
		}
	}
}

func TestAContainerThatEndsInTheWindowHasNoCost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make cgroups")
	}
	c, s := startServer(t, Options{})
	const id = "7c0a7f0f2f6c4d1e9a3b8c7d6e5f40312233445566778899aabbccddeeff0033"
	parent := "meshtrial-test-" + strconv.Itoa(os.Getpid()) + "-gone"
	path := container(t, s.finder, parent, id)
	// On a busy machine the request may arrive after the cgroup has been replaced.
	var cost string
	for length := 100 * time.Millisecond; length < 20*time.Second; length *= 4 {
		if cost = costOfTheGone(t, c, s.finder, path, id, length); cost == "" {
			return
		}
	}
	t.Error(cost)
}

// costOfTheGone returns the reported cost of a cgroup that is removed after a while;
// "" if none is reported.
func costOfTheGone(t *testing.T, c Client, f *finder, path, id string, length time.Duration) string {
	t.Helper()
	now := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(length)
		for _, root := range []string{f.cpuacct, f.cpu, f.memory} {
			if root != "" {
				_ = os.Remove(filepath.Join(root, path))
				_ = os.Mkdir(filepath.Join(root, path), 0o755) // recreate the same name
			}
		}
	}()
	snapshots, err := c.Snapshots(t.Context(), SnapshotsRequest{
		AtUnixNS: []int64{now.UnixNano(), now.Add(3 * length).UnixNano()},
		Targets:  []Target{{Name: "gone", ContainerID: id}}})
	<-done
	if err != nil {
		return err.Error()
	}
	cpu, err := snapshots[1].Targets["gone"].Since(snapshots[0].Targets["gone"])
	if err == nil {
		return fmt.Sprintf("a removed cgroup has a cost: %+v", cpu)
	}
	t.Log(err)
	return ""
}
