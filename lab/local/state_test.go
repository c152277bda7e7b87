package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/testing/must"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestRecord(t *testing.T) {
	p := paths{t.TempDir()}
	if _, err := p.readRecord(); !errors.Is(err, errNoRecord) {
		t.Errorf("without a record: %v", err)
	}
	want := &record{Schema: recordSchema, ID: "abc123", Phase: phaseReady, Started: testTime, Network: testNetwork, Cgroup: "/meshtrial-abc123",
		Sysctls: map[string]int{inotifyInstances: 128}}
	must.OK(t, p.writeRecord(want))
	got, err := p.readRecord()
	if err != nil || got.ID != want.ID || got.Network != want.Network || got.Sysctls[inotifyInstances] != 128 {
		t.Errorf("%+v, %v", got, err)
	}
	for name, text := range map[string]string{"torn": `{"id": "abc1`, "empty": "", "id that is a path": `{"id": "../../x"}`} {
		must.OK(t, os.WriteFile(p.record(), []byte(text), 0o600))
		if _, err := p.readRecord(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestIDs(t *testing.T) {
	for range 100 {
		if id := newID(); !validID(id) || len(hostInterface(id)) > 15 {
			t.Errorf("%q", id)
		}
	}
	for _, bad := range []string{"", "abc", "abc1234", "../abc", "zzzzzz", "failed"} {
		if validID(bad) {
			t.Errorf("%q counts as an id", bad)
		}
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "lock")
	first, err := lockFile(path)
	must.OK(t, err)
	if _, err := lockFile(path); !errors.Is(err, errLocked) {
		t.Errorf("taken twice: %v", err)
	}
	// A child that inherits the file keeps the lock.
	cmd := exec.Command("sleep", "30")
	cmd.ExtraFiles = []*os.File{first}
	must.OK(t, cmd.Start())
	first.Close()
	if _, err := lockFile(path); !errors.Is(err, errLocked) {
		t.Errorf("taken while a child holds it: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	again, err := lockFile(path)
	must.OK(t, err)
	again.Close()
}

func TestProcessIdentity(t *testing.T) {
	cmd := exec.Command("sleep", "30")
	must.OK(t, cmd.Start())
	pid := cmd.Process.Pid
	r := &record{InitPID: pid, InitStart: startTicks(pid), BootID: bootID()}
	if !r.initAlive() {
		t.Error("a running process counts as dead")
	}
	for name, other := range map[string]*record{
		"no pid":                {BootID: bootID()},
		"another boot":          {InitPID: pid, InitStart: r.InitStart, BootID: "x"},
		"another process":       {InitPID: pid, InitStart: r.InitStart + 1, BootID: bootID()},
		"a pid that never was":  {InitPID: 1 << 30, InitStart: 1, BootID: bootID()},
		"a record without time": {InitPID: pid, BootID: bootID()},
	} {
		if other.initAlive() {
			t.Errorf("%s counts as alive", name)
		}
		other.endInit(t.Context())
	}
	if startTicks(pid) != r.InitStart {
		t.Fatal("a process that is not the record's was ended")
	}
	go cmd.Wait()
	r.endInit(t.Context())
	if r.initAlive() {
		t.Error("the record's process was not ended")
	}
}

func TestChooseNetwork(t *testing.T) {
	n, err := chooseNetwork(nil, 1)
	must.OK(t, err)
	if n != testNetwork {
		t.Errorf("on an empty machine: %+v", n)
	}
	if n.dns().String() != "10.96.0.10" || n.apiURL() != "https://10.254.77.2:6443" {
		t.Errorf("dns %s, api %s", n.dns(), n.apiURL())
	}
	if _, err := chooseNetwork([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, 1); err == nil {
		t.Error("10.0.0.0/8 is taken, and yet ranges were found")
	}
	rapid.Check(t, func(t *rapid.T) {
		var taken []netip.Prefix
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			a := [4]byte{10, rapid.Byte().Draw(t, "b"), rapid.Byte().Draw(t, "c"), rapid.Byte().Draw(t, "d")}
			taken = append(taken, netip.PrefixFrom(netip.AddrFrom4(a), rapid.IntRange(9, 32).Draw(t, "bits")).Masked())
		}
		n, err := chooseNetwork(taken, 3)
		if err != nil {
			return // everything is taken, which is reported
		}
		all := []netip.Prefix{n.Host.Masked(), n.Pods, n.Services, n.Nodes}
		for i, p := range all {
			for _, q := range append(append([]netip.Prefix{}, taken...), all[i+1:]...) {
				if p.Overlaps(q) {
					t.Fatalf("%s overlaps %s", p, q)
				}
			}
		}
	})
}

// TestSweep removes what a lab left in a state folder, with or without a
// record.
func TestSweep(t *testing.T) {
	for name, record := range map[string]string{
		"good record":  `{"schema":1,"id":"0badf0","phase":"starting"}`,
		"torn record":  `{"schema":1,"id":"0ba`,
		"no record":    "",
		"other schema": `{"schema":99,"id":"0badf0","new":true}`,
	} {
		p := paths{t.TempDir()}
		for _, dir := range []string{"0badf0/pki", "0badf1/log", "failed"} {
			must.OK(t, os.MkdirAll(filepath.Join(p.base, dir), 0o700))
		}
		for _, file := range []string{"kubeconfig", "lab.json.tmp", "0badf0/pki/ca.key", "lock", "failed/etcd.log"} {
			must.OK(t, os.WriteFile(filepath.Join(p.base, file), []byte("x"), 0o600))
		}
		if record != "" {
			must.OK(t, os.WriteFile(p.record(), []byte(record), 0o600))
		}
		if err := sweep(context.Background(), p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		left, err := list(p.base)
		if err != nil || len(left) != 2 || left[0] != "failed" || left[1] != "lock" {
			t.Errorf("%s: left %q, %v", name, left, err)
		}
	}
	if err := sweep(context.Background(), paths{filepath.Join(t.TempDir(), "none")}); err != nil {
		t.Errorf("no state folder: %v", err)
	}
}

// Labs that end at the same time do not rely on each other to restore the
// machine's sysctls: each lab's link is gone before it checks which others are
// running.
func TestSweepsAtOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace takes root")
	}
	const control = "net/ipv4/ip_default_ttl" // each network namespace has its own
	raisable[control] = 66
	t.Cleanup(func() { delete(raisable, control) })
	store := t.TempDir()
	var labs []paths
	ids := []string{"0badf2", "0badf3"}
	for _, id := range ids {
		p := paths{t.TempDir()}
		must.OK(t, p.writeRecord(&record{Schema: recordSchema, ID: id, ImageStore: filepath.Join(store, id), Sysctls: map[string]int{control: 65}}))
		labs = append(labs, p)
	}
	host, skip := sysctls{"/proc/sys"}, ""
	sweepAll := func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		here, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer here.Close()
		if err := host.set(map[string]int{control: 66}); err != nil {
			skip = err.Error()
			return nil
		}
		for _, id := range ids {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = hostInterface(id)
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "peer-" + id}); err != nil {
				return err
			}
		}
		endTurn, err := takeTurn(t.Context(), turnSocket)
		if err != nil {
			return err
		}
		defer endTurn()
		swept := make(chan error, len(labs))
		for _, p := range labs {
			go func() {
				swept <- thread.Apart(func() error {
					err := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET)
					if err == nil {
						err = sweep(t.Context(), p)
					}
					return err
				})
			}()
		}
		var all []error
		for end := time.Now().Add(20 * time.Second); othersRun(nil); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				all = append(all, errors.New("a link stays while another lab has the turn"))
				break
			}
		}
		endTurn()
		for range labs {
			all = append(all, <-swept)
		}
		if now, err := host.read(control); err != nil || now != 65 {
			all = append(all, fmt.Errorf("%s is %d, %v", control, now, err))
		}
		return errors.Join(all...)
	}
	must.OK(t, thread.Apart(sweepAll))
	if skip != "" {
		t.Skip(skip)
	}
	if left, err := list(store); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

func TestDownWithoutLab(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		was, err := Down(context.Background(), dir)
		if was || err != nil {
			t.Errorf("was running %t, %v", was, err)
		}
	}
	if status, err := GetStatus(dir); err != nil || status.State != StateNone {
		t.Errorf("%+v, %v", status, err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("open: %v", err)
	}
	if _, err := LogFiles(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("logs: %v", err)
	}
}

func TestSysctls(t *testing.T) {
	s := sysctls{t.TempDir()}
	const name = "fs/inotify/max_user_instances"
	if raise, err := s.toRaise(name, 100); err != nil || raise != nil {
		t.Errorf("a control that this kernel lacks: %v, %v", raise, err)
	}
	must.OK(t, os.MkdirAll(filepath.Join(s.root, "fs/inotify"), 0o700))
	os.WriteFile(filepath.Join(s.root, name), []byte("128\n"), 0o600)
	raise, err := s.toRaise(name, 8192)
	if err != nil || raise[name] != 128 {
		t.Fatalf("%v, %v", raise, err)
	}
	must.OK(t, s.set(map[string]int{name: 8192}))
	if again, err := s.toRaise(name, 8192); err != nil || again != nil {
		t.Errorf("high enough: %v, %v", again, err)
	}
	// Another lab is still running when the one that raised it ends; the other,
	// which raised nothing, restores it.
	pending := filepath.Join(t.TempDir(), "sysctls.json")
	for i, last := range []bool{false, true, true} {
		values := raise
		if i > 0 {
			values = nil
		}
		must.OK(t, s.restore(values, pending, !last))
		want := 8192
		if last {
			want = 128
		}
		if now, _ := s.read(name); now != want {
			t.Errorf("lab %d ended: %d, want %d", i, now, want)
		}
	}
	if _, err := os.Stat(pending); err == nil {
		t.Error("the note of pending values was left")
	}
	// A value that someone else has set while labs were running stays.
	must.OK(t, s.set(map[string]int{name: 65536}))
	for _, othersRun := range []bool{true, false} {
		must.OK(t, s.restore(raise, pending, othersRun))
	}
	if now, _ := s.read(name); now != 65536 {
		t.Errorf("somebody else's value: %d, want 65536", now)
	}
	if _, err := os.Stat(pending); err == nil {
		t.Error("the note of a value that is somebody else's was left")
	}
}
