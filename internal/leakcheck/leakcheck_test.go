package leakcheck

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/thread"
)

func take(t *testing.T, o Options) *Snapshot {
	t.Helper()
	s, err := Take(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewFilesAndChanges(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Files: []string{dir}, Only: []string{"no process has this"}}
	before := take(t, o)
	if found := keep(take(t, o).New(before), dir); len(found) > 0 {
		t.Fatalf("nothing happened, found %q", found)
	}
	os.WriteFile(filepath.Join(dir, "new"), nil, 0o600)
	os.WriteFile(old, []byte("longer"), 0o600)
	found := strings.Join(keep(take(t, o).New(before), dir), "\n")
	for _, want := range []string{"file " + dir + "/new", "file " + old + " 600 6 bytes", "gone or changed: file " + old + " 600 1 bytes"} {
		if !strings.Contains(found, want) {
			t.Errorf("found\n%s\nwithout %s", found, want)
		}
	}
}

func TestProcessesAndListeners(t *testing.T) {
	o := Options{Files: []string{}, Only: []string{"sleep 4711", ".test "}}
	before := take(t, o)
	cmd := exec.Command("sleep", "4711")
	if err := cmd.Start(); err != nil {
		t.Skipf("no sleep: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	found := take(t, o).New(before)
	// A process that has just begun has no arguments yet.
	for end := time.Now().Add(time.Minute); len(keep(found, "sleep 4711")) == 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		found = take(t, o).New(before)
	}
	if len(keep(found, "sleep 4711")) != 1 {
		t.Errorf("the process was not found in %q", found)
	}
	if len(keep(found, "listener")) == 0 {
		t.Errorf("the listener was not found in %q", found)
	}
	others := o
	others.But = func() []string { return []string{"sleep 4711"} }
	if found := keep(take(t, others).New(before), "sleep 4711"); len(found) > 0 {
		t.Errorf("what is others' is found: %q", found)
	}
	listener.Close()
	cmd.Process.Kill()
	cmd.Wait()
	if found := keep(take(t, o).New(before), "sleep 4711"); len(found) > 0 {
		t.Errorf("after the end: %q", found)
	}
}

// keep drops what others did to the machine meanwhile.
func keep(found []string, word string) []string {
	var mine []string
	for _, f := range found {
		if strings.Contains(f, word) {
			mine = append(mine, f)
		}
	}
	return mine
}

func TestDeepest(t *testing.T) {
	if got := deepest("9:pids:/a\n8:cpu:/a/b/c\n0::/\n"); got != "/a/b/c" {
		t.Errorf("got %s", got)
	}
}

// A set of addresses that is left in this network is found.
func TestIPSets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("sets of addresses take root")
	}
	var found []string
	err := thread.Apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		before, after := &Snapshot{kinds: map[string]map[string]bool{}}, &Snapshot{kinds: map[string]map[string]bool{}}
		err := before.ipsets()
		if err == nil {
			err = netlink.IpsetCreate("left", "hash:ip", netlink.IpsetCreateOptions{Family: unix.AF_INET})
		}
		if err == nil {
			err = after.ipsets()
		}
		found = after.New(before)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0] != "ipset left (hash:ip)" {
		t.Errorf("found %q", found)
	}
}
