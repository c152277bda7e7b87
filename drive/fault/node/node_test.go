package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

const (
	testToken = "a token of a test"
	// What the test binary does if this is set: nothing, or serve.
	testRole = "MESHTRIAL_TEST_NODE"
)

func TestMain(m *testing.M) {
	switch os.Getenv(testRole) {
	case "idle":
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		<-ended
	case "hungry": // allocates memory and keeps some
		for kept := [][]byte{}; ; time.Sleep(time.Millisecond) {
			if len(kept) == 32 {
				kept = kept[16:]
			}
			kept = append(kept, bytes.Repeat([]byte{1}, 256<<10))
		}
	case "serve":
		s, err := New(Options{Control: "127.0.0.1:0", Token: testToken, Cgroups: cgroups})
		if err == nil {
			fmt.Println(s.Address())
			err = s.Serve(context.Background())
		}
		fmt.Println(err)
		os.Exit(1)
	default:
		os.Exit(m.Run())
	}
}

// testPod is a cgroup that looks like a pod's, with a network namespace.
type testPod struct {
	uid  string
	root string // its cgroup
}

var podCount = 0

// newPod creates a pod's cgroup in the first existing hierarchy.
func newPod(t *testing.T) testPod {
	t.Helper()
	return newPodIn(t, "/sys/fs/cgroup/pids", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup")
}

// newPodIn creates a pod's cgroup in the first of these roots that is a hierarchy.
func newPodIn(t *testing.T, roots ...string) testPod {
	t.Helper()
	asRoot(t)
	podCount++
	p := testPod{uid: fmt.Sprintf("meshtrial-test-%d-%d", os.Getpid(), podCount)}
	for _, root := range roots {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil {
			p.root = filepath.Join(root, "pod"+p.uid)
			break
		}
	}
	if p.root == "" {
		t.Skip("no cgroups here")
	}
	if err := os.Mkdir(p.root, 0o755); err != nil {
		t.Skipf("cgroups cannot be made here: %v", err)
	}
	t.Cleanup(func() { removeDir(t, p.root) })
	return p
}

// removeDir removes a cgroup once the kernel has released its processes.
func removeDir(t *testing.T, path string) {
	t.Helper()
	eventually.Succeeds(t, time.Minute, "the cgroup is removed", func() error { return os.Remove(path) })
}

// run starts an idle process with a given name in a container of the pod, in a new
// network namespace.
func (p testPod) run(t *testing.T, container, name string) (Container, *exec.Cmd) {
	t.Helper()
	return p.runAs(t, container, name, "idle")
}

// runAs is run with another role.
func (p testPod) runAs(t *testing.T, container, name, role string) (Container, *exec.Cmd) {
	t.Helper()
	c := Container{PodUID: p.uid, ID: "containerd://" + container + "-" + p.uid}
	dir := filepath.Join(p.root, strings.TrimPrefix(c.ID, "containerd://"))
	if err := os.Mkdir(dir, 0o755); err == nil {
		t.Cleanup(func() { removeDir(t, dir) })
	} else if !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	cmd := start(t, name, role)
	must.OK(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0))
	return c, cmd
}

func idle(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	return start(t, name, "idle")
}

func start(t *testing.T, name, role string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	must.OK(t, err)
	cmd := &exec.Cmd{Path: program, Args: []string{"/usr/bin/" + name}, Env: []string{testRole + "=" + role}, SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}}
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// state returns the letter of a process's state in /proc.
func state(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	now, err := processes{"/proc"}.stat(cmd.Process.Pid)
	if err != nil {
		return Gone
	}
	return string(now.State)
}

// serve runs a server until the test or the returned function ends it.
func serve(t *testing.T) (Client, func() error) {
	t.Helper()
	s, err := New(Options{Control: "127.0.0.1:0", Token: testToken, Cgroups: cgroups})
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	transport := &http.Transport{}
	var err1 error
	ended := false
	end := func() error {
		if !ended {
			ended = true
			transport.CloseIdleConnections()
			cancel()
			err1 = <-done
		}
		return err1
	}
	t.Cleanup(func() { must.OK(t, end()) })
	return Client{HTTPClient: &http.Client{Transport: transport}, BaseURL: "http://" + s.Address(), Token: testToken}, end
}

func status(err error) int {
	var s *jsonhttp.StatusError
	if errors.As(err, &s) {
		return s.Status
	}
	return 0
}

// tables lists our tables in a process's network namespace.
func tables(t *testing.T, cmd *exec.Cmd) []mark {
	t.Helper()
	ns, err := openNamespace(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid))
	must.OK(t, err)
	defer ns.Close()
	found, err := marks(ns)
	must.OK(t, err)
	return found
}

func TestOnlyTheContainersProcessesAreStopped(t *testing.T) {
	asRoot(t)
	leakcheck.Goroutines(t)
	pod := newPod(t)
	container, envoy := pod.run(t, "proxy", "envoy")
	_, agent := pod.run(t, "proxy", "pilot-agent")
	_, other := pod.run(t, "app", "envoy")
	stranger := idle(t, "envoy")
	client, _ := serve(t)
	all, err := client.Processes(t.Context(), container)
	if err != nil || len(all) != 2 || all[0].Kind != KindEnvoy || all[1].Kind != KindAgent {
		t.Fatalf("%+v, %v", all, err)
	}
	if all, err := client.Processes(t.Context(), Container{PodUID: container.PodUID}); err != nil || len(all) != 3 {
		t.Errorf("of the pod: %+v, %v", all, err)
	}
	stop := SignalRequest{Container: container, Kind: KindEnvoy, Signal: SignalStop, LeaseMS: 60_000}
	f, err := client.Signal(t.Context(), stop)
	if err != nil || len(f.Processes) != 1 || f.Processes[0].PID != envoy.Process.Pid {
		t.Fatalf("%+v, %v", f, err)
	}
	now, err := client.Look(t.Context(), f.Processes)
	if err != nil || now[0].State != "T" {
		t.Errorf("%+v, %v", now, err)
	}
	for _, cmd := range []*exec.Cmd{agent, other, stranger} {
		// D: waiting for disk
		if s := state(t, cmd); s != "S" && s != "R" && s != "D" {
			t.Errorf("process %d is in state %s", cmd.Process.Pid, s)
		}
	}
	if _, err := client.Signal(t.Context(), stop); status(err) != http.StatusConflict {
		t.Errorf("stopped twice: %v", err)
	}
	if list, err := client.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != f.ID {
		t.Errorf("%+v, %v", list, err)
	}
	must.OK(t, must.Err(client.Undo(t.Context(), f.ID)))
	if s := state(t, envoy); s == "T" {
		t.Error("it is still stopped")
	}
	if found := tables(t, envoy); len(found) > 0 {
		t.Errorf("tables %v are left", found)
	}
	if _, err := client.Undo(t.Context(), f.ID); status(err) != http.StatusNotFound {
		t.Errorf("undone twice: %v", err)
	}
}

func TestKill(t *testing.T) {
	asRoot(t)
	pod := newPod(t)
	container, victim := pod.run(t, "discovery", "pilot-discovery")
	_, other := pod.run(t, "discovery", "meshtrial")
	client, _ := serve(t)
	request := SignalRequest{Container: container, Kind: KindIstiod, Signal: SignalKill}
	f, err := client.Signal(t.Context(), request)
	if err != nil || f.ID != "" || len(f.Processes) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	eventually.Holds(t, "its end", func() bool { s := state(t, victim); return s == "Z" || s == Gone })
	if s := state(t, other); s == "Z" || s == Gone {
		t.Error("the other process of the container ended too")
	}
	_ = victim.Wait()
	if now, err := client.Look(t.Context(), f.Processes); err != nil || now[0].State != Gone {
		t.Errorf("%+v, %v", now, err)
	}
	if _, err := client.Signal(t.Context(), request); status(err) != http.StatusNotFound {
		t.Errorf("killed twice: %v", err)
	}
	request.ID = "containerd://0123456789abcdef"
	if _, err := client.Signal(t.Context(), request); status(err) != http.StatusNotFound {
		t.Errorf("a container that is not there: %v", err)
	}
	request.Container = Container{PodUID: "another-pod", ID: container.ID}
	if _, err := client.Signal(t.Context(), request); status(err) != http.StatusNotFound {
		t.Errorf("a container of another pod: %v", err)
	}
	client.Token = "another token of a test"
	if _, err := client.List(t.Context()); status(err) != http.StatusUnauthorized {
		t.Errorf("another token: %v", err)
	}
}

// If a process may have no more memory, the kernel kills it and counts the kill. The
// container's former limit is then restored for the surviving processes.
func TestOOM(t *testing.T) {
	asRoot(t)
	pod := newPodIn(t, "/sys/fs/cgroup/memory", "/sys/fs/cgroup")
	_ = os.WriteFile(filepath.Join(pod.root, "cgroup.subtree_control"), []byte("+memory"), 0) // version 2
	container, victim := pod.runAs(t, "istio-proxy", "ztunnel", "hungry")
	_, other := pod.run(t, "worker", "meshtrial")
	g, err := findMemoryGroup(cgroups, container)
	if err != nil {
		t.Skipf("cgroups bound no memory here: %v", err)
	}
	before, err := os.ReadFile(g.path(memoryLimit))
	if err != nil {
		t.Skipf("cgroups bound no memory here: %v", err)
	}
	eventually.Holds(t, "memory in use", func() bool { used, err := g.used(); return err == nil && used > 4<<20 })
	client, _ := serve(t)
	request := SignalRequest{Container: container, Kind: KindNode, Signal: SignalOOM}
	f, err := client.Signal(t.Context(), request)
	if err != nil || f.ID != "" || len(f.Processes) != 1 || f.Memory == nil || f.Memory.Kills < 1 || f.Memory.LimitBytes >= f.Memory.UsedBytes+1<<20 {
		t.Fatalf("%+v, %+v, %v", f, f.Memory, err)
	}
	var ended *exec.ExitError
	if err := victim.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
	if s := state(t, other); s == "Z" || s == Gone {
		t.Error("the process of another container ended too")
	}
	if after, err := os.ReadFile(g.path(memoryLimit)); err != nil || string(after) != string(before) {
		t.Errorf("the limit was %s and is %s, %v", before, after, err)
	}
	if _, err := client.Signal(t.Context(), request); status(err) != http.StatusNotFound {
		t.Errorf("what has ended: %v", err)
	}
}

func TestLeasesEnd(t *testing.T) {
	asRoot(t)
	leakcheck.Goroutines(t)
	pod := newPod(t)
	container, worker := pod.run(t, "worker", "meshtrial")
	client, end := serve(t)
	// A lease is renewed four times within its length. If this process itself stalled
	// for most of a lease, the lease rightly ended, and the attempt proves nothing.
	const length = 400 * time.Millisecond
	var f Fault
	for attempt := 1; ; attempt++ {
		var err error
		f, err = client.Signal(t.Context(), SignalRequest{Container: container, Kind: KindWorker, Signal: SignalStop, LeaseMS: length.Milliseconds()})
		must.OK(t, err)
		release := client.Keep(t.Context(), length, f.ID)
		stood := standsStill(3 * length)
		s := state(t, worker)
		err = release()
		if s == "T" && err == nil {
			break
		}
		if stood < length/8 || attempt == 10 {
			t.Fatalf("a kept lease ended: state %s, %v; the test stood still for %v", s, err, stood)
		}
		t.Logf("once more: the test stood still for %v", stood)
		eventually.Holds(t, "the end of the lease", func() bool { return state(t, worker) != "T" && len(tables(t, worker)) == 0 })
	}
	eventually.Holds(t, "the end of the lease", func() bool { return state(t, worker) != "T" })
	if _, err := client.Extend(t.Context(), time.Second, f.ID); status(err) != http.StatusNotFound {
		t.Errorf("an ended lease: %v", err)
	}
	// The end of the server ends active faults.
	must.OK(t, must.Err(client.Signal(t.Context(), SignalRequest{Container: container, Kind: KindWorker, Signal: SignalStop, LeaseMS: 60_000})))
	must.OK(t, end())
	if s := state(t, worker); s == "T" {
		t.Error("the server ended and left a process stopped")
	}
	if found := tables(t, worker); len(found) > 0 {
		t.Errorf("tables %v are left", found)
	}
}

// standsStill waits and returns the longest time for which this process did not run.
func standsStill(wait time.Duration) time.Duration {
	longest, last := time.Duration(0), time.Now()
	for end := last.Add(wait); last.Before(end); {
		time.Sleep(5 * time.Millisecond)
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
	}
	return longest
}

// Addresses of a pod and two others, on a link between namespaces.
const podIP, peerIP, otherIP = "198.51.100.1", "198.51.100.2", "198.51.100.3"

// connect links a process's network namespace to a new one with the two other addresses,
// and returns the latter. A server listens in the former.
func connect(t *testing.T, cmd *exec.Cmd) *namespace {
	t.Helper()
	pod, err := openNamespace(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid))
	must.OK(t, err)
	t.Cleanup(func() { pod.Close() })
	far, err := scratch()
	must.OK(t, err)
	t.Cleanup(func() { far.Close() })
	up := func(name string, addresses ...string) func() error {
		return func() error {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			for _, text := range addresses {
				address, err := netlink.ParseAddr(text + "/24")
				if err != nil {
					return err
				}
				if err := netlink.AddrAdd(l, address); err != nil {
					return err
				}
			}
			return netlink.LinkSetUp(l)
		}
	}
	must.OK(t, far.do(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "far"}, PeerName: "near", PeerNamespace: netlink.NsFd(int(pod.Fd()))})
	}))
	must.OK(t, far.do(up("far", peerIP, otherIP)))
	must.OK(t, pod.do(up("near", podIP)))
	listen(t, pod)
	// A link needs a moment before packets cross it.
	eventually.Holds(t, "the link", func() bool { return !cutOff(far, peerIP) })
	return far
}

// listen accepts connections in a namespace until the test ends.
func listen(t *testing.T, ns *namespace) {
	t.Helper()
	var l net.Listener
	must.OK(t, ns.do(func() (err error) { l, err = net.Listen("tcp4", podIP+":80"); return err }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

// dial opens a connection from an address, allowing time for a machine that stalls for a
// while, and returns how long it took.
func dial(ns *namespace, from string) (took time.Duration, err error) {
	return dialFor(ns, from, 30*time.Second)
}

// cutOff reports whether no connection can be made from an address.
func cutOff(ns *namespace, from string) bool {
	_, err := dialFor(ns, from, 500*time.Millisecond)
	return err != nil
}

// dialUntil dials repeatedly until a connection takes at most most, and returns the
// shortest time: a busy machine makes it longer, never shorter.
func dialUntil(ns *namespace, from string, most time.Duration) (shortest time.Duration, err error) {
	for range 100 {
		took, err := dial(ns, from)
		if err != nil {
			return took, err
		}
		if shortest == 0 || took < shortest {
			shortest = took
		}
		if shortest <= most {
			break
		}
	}
	return shortest, nil
}

func dialFor(ns *namespace, from string, limit time.Duration) (took time.Duration, err error) {
	begin := time.Now()
	err = ns.do(func() error {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: limit}
		c, err := d.Dial("tcp4", podIP+":80")
		if err == nil {
			c.Close()
		}
		return err
	})
	return time.Since(begin), err
}

func TestNetwork(t *testing.T) {
	asRoot(t)
	leakcheck.Goroutines(t)
	p := newPod(t)
	_, worker := p.run(t, "worker", "meshtrial")
	far := connect(t, worker)
	client, end := serve(t)
	for _, direction := range []string{In, Out, Both} {
		f, err := client.Network(t.Context(), NetworkRequest{PodUID: p.uid, Peers: []string{peerIP}, Direction: direction, Cut: true, LeaseMS: 60_000})
		must.OK(t, err)
		if !cutOff(far, peerIP) {
			t.Errorf("%s: a connection came through a cut", direction)
		}
		if _, err := dial(far, otherIP); err != nil {
			t.Errorf("%s: another than the peer is cut off too: %v", direction, err)
		}
		if f, err = client.Fault(t.Context(), f.ID); err != nil || f.Packets == nil || f.Packets.Dropped == 0 || f.Packets.Dropped != f.Packets.Matched {
			t.Errorf("%s: %+v, %+v, %v", direction, f, f.Packets, err)
		}
		must.OK(t, must.Err(client.Undo(t.Context(), f.ID)))
		if _, err := dial(far, peerIP); err != nil {
			t.Errorf("%s: after the end: %v", direction, err)
		}
	}
	const delay = 50 * time.Millisecond
	f, err := client.Network(t.Context(), NetworkRequest{PodUID: p.uid, Peers: []string{peerIP}, Direction: In, DelayNS: int64(delay), LeaseMS: 60_000})
	must.OK(t, err)
	if took, err := dialUntil(far, peerIP, 3*delay); err != nil || took < delay || took > 3*delay {
		t.Errorf("a delayed connection took %v, %v", took, err)
	}
	if took, err := dialUntil(far, otherIP, delay-1); err != nil || took >= delay {
		t.Errorf("another one took %v, %v", took, err)
	}
	eventually.Holds(t, "the connection's other packets", func() bool {
		f, err = client.Fault(t.Context(), f.ID)
		return err != nil || f.Packets.Delayed >= 3 && f.Packets.Delayed == f.Packets.Matched
	})
	if f, err := client.Undo(t.Context(), f.ID); err != nil || f.Packets.Delayed < 3 || f.Packets.Dropped > 0 {
		t.Errorf("%+v, %v", f.Packets, err)
	}
	for name, peer := range map[string]string{"its own address": podIP, "a name": "localhost", "loopback": "127.0.0.1"} {
		if _, err := client.Network(t.Context(), NetworkRequest{PodUID: p.uid, Peers: []string{peer}, Direction: In, Cut: true, LeaseMS: 1000}); status(err) != http.StatusBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A lease expires, and the server ends.
	must.OK(t, must.Err(client.Network(t.Context(), NetworkRequest{PodUID: p.uid, Peers: []string{peerIP}, Direction: In, Cut: true, LeaseMS: 100})))
	eventually.Holds(t, "the end of the lease", func() bool { return len(tables(t, worker)) == 0 })
	for _, r := range []NetworkRequest{{Lose: 0.5}, {DelayNS: 1e6, RateBits: 1e6}} {
		r.PodUID, r.Peers, r.Direction, r.LeaseMS = p.uid, []string{peerIP, "2001:db8::1"}, Both, 60_000
		must.OK(t, must.Err(client.Network(t.Context(), r)))
	}
	must.OK(t, end())
	if found := tables(t, worker); len(found) > 0 {
		t.Errorf("tables %v are left", found)
	}
	if _, err := dial(far, peerIP); err != nil {
		t.Errorf("after the end of the server: %v", err)
	}
}

func TestKilledServerIsPutRight(t *testing.T) {
	asRoot(t)
	p := newPod(t)
	container, worker := p.run(t, "worker", "meshtrial")
	far := connect(t, worker)
	program, err := os.Executable()
	must.OK(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), testRole+"=serve")
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line := make([]byte, 100)
	n, err := out.Read(line)
	must.OK(t, err)
	client := Client{BaseURL: "http://" + strings.TrimSpace(string(line[:n])), Token: testToken}
	must.OK(t, must.Err(client.Network(t.Context(), NetworkRequest{PodUID: p.uid, Peers: []string{peerIP}, Direction: In, Cut: true, LeaseMS: 60_000})))
	must.OK(t, must.Err(client.Network(t.Context(), NetworkRequest{PodUID: p.uid, Peers: []string{otherIP}, Direction: In, DelayNS: int64(300 * time.Millisecond), LeaseMS: 60_000})))
	must.OK(t, must.Err(client.Signal(t.Context(), SignalRequest{Container: container, Kind: KindWorker, Signal: SignalStop, LeaseMS: 60_000})))
	before := tables(t, worker)
	if len(before) != 3 || !slices.ContainsFunc(before, func(m mark) bool { return m.Stopped.PID == worker.Process.Pid }) {
		t.Fatalf("marks %v", before)
	}
	// Another server does not touch what a running one has done.
	newServer(t)
	if found := tables(t, worker); len(found) != 3 || state(t, worker) != "T" {
		t.Fatalf("marks %v, state %s", found, state(t, worker))
	}
	must.OK(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if took, err := dialUntil(far, otherIP, 250*time.Millisecond); err != nil || took > 250*time.Millisecond {
		t.Errorf("without its server a delay should be none; it took %v, %v", took, err)
	}
	if len(tables(t, worker)) != 3 || state(t, worker) != "T" {
		t.Error("the killed server left nothing: this test shows nothing")
	}
	newServer(t)
	if found := tables(t, worker); len(found) > 0 {
		t.Errorf("marks %v are left", found)
	}
	eventually.Holds(t, "the process goes on", func() bool { return state(t, worker) != "T" })
	if _, err := dial(far, peerIP); err != nil {
		t.Errorf("still cut: %v", err)
	}
}
