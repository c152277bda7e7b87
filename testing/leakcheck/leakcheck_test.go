package leakcheck

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

func take(t *testing.T, o Options) *Snapshot {
	t.Helper()
	s, err := Take(o)
	must.OK(t, err)
	return s
}

func TestNewFilesAndChanges(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	must.OK(t, os.WriteFile(old, []byte("a"), 0o600))
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

// On a machine also used by others, changes in folders of the whole host count where a
// lab writes or where it is named, and nowhere else.
func TestFilesOfOthers(t *testing.T) {
	before := &Snapshot{kinds: map[string]map[string]bool{"file": {"/etc/ld.so.cache 644 5 bytes": true, "/var/lib/cni/old 644 1 bytes": true}}}
	now := &Snapshot{only: []string{"meshtrial-abc"}, host: true, kinds: map[string]map[string]bool{"file": {"/etc/ld.so.cache 644 6 bytes": true,
		"/etc/meshtrial-abc.conf 644 1 bytes": true, "/run/netns/": true, "/run/netns/x 644 0 bytes": true, "/opt/cnidaria 644 1 bytes": true}}}
	want := []string{"file /etc/meshtrial-abc.conf 644 1 bytes", "file /run/netns/", "file /run/netns/x 644 0 bytes", "gone or changed: file /var/lib/cni/old 644 1 bytes"}
	if found := now.New(before); !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	now.only = nil
	if found := now.New(before); len(found) != 7 {
		t.Errorf("on a machine of one's own: found %q", found)
	}
}

func TestProcessesAndListeners(t *testing.T) {
	// A number that no other test's process has.
	length := strconv.Itoa(1_000_000 + os.Getpid())
	name := "sleep " + length
	o := Options{Files: []string{}, Only: []string{name, ".test "}}
	before := take(t, o)
	cmd := exec.Command("sleep", length)
	if err := cmd.Start(); err != nil {
		t.Skipf("no sleep: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	var found []string
	eventually.Holds(t, "the process has arguments, as one that has just begun has not", func() bool {
		found = take(t, o).New(before)
		return len(keep(found, name)) > 0
	})
	if len(keep(found, name)) != 1 {
		t.Errorf("the process was not found in %q", found)
	}
	if len(keep(found, "listener")) == 0 {
		t.Errorf("the listener was not found in %q", found)
	}
	others := o
	others.But = func() []string { return []string{name} }
	if found := keep(take(t, others).New(before), name); len(found) > 0 {
		t.Errorf("what is others' is found: %q", found)
	}
	listener.Close()
	cmd.Process.Kill()
	cmd.Wait()
	if found := keep(take(t, o).New(before), name); len(found) > 0 {
		t.Errorf("after the end: %q", found)
	}
}

// keep drops what others did to the machine in the meantime.
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

// An address set left in this network is found.
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
	must.OK(t, err)
	if len(found) != 1 || found[0] != "ipset left (hash:ip)" {
		t.Errorf("found %q", found)
	}
}
