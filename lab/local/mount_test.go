package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The folders of a node's network have the lab's content whenever the node starts,
// whatever others added to them.
func TestLayNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	s := testSpec(t)
	s.CNI = t.TempDir()
	put(t, filepath.Join(s.CNI, "ptp"), "a plugin")
	put(t, filepath.Join(s.Dir.conf("cni"), "10-lab.conflist"), "{}")
	for range 2 { // the node starts, dies and starts again
		must.OK(t, thread.Apart(func() error { return laidOut(t, s) }))
	}
	if names, err := list(s.CNI); err != nil || !slices.Equal(names, []string{"ptp"}) {
		t.Errorf("the cache has the plugins %q, %v", names, err)
	}
}

// laidOut sets up a node's network in a mount namespace that ends with the thread,
// checks it, and adds to it.
func laidOut(t *testing.T, s *spec) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	err := errors.Join(mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), mount("tmpfs", "/run", "tmpfs", 0, ""))
	if err == nil {
		err = s.layNetwork()
	}
	if err != nil {
		return err
	}
	plugins, err := list(lab.CNIBinDir)
	networks, also := list(lab.CNIConfDir)
	if err := errors.Join(err, also); err != nil {
		return err
	}
	if !slices.Equal(plugins, []string{"ptp"}) || !slices.Equal(networks, []string{"10-lab.conflist"}) {
		t.Errorf("the node has the plugins %q and the networks %q", plugins, networks)
	}
	text, err := os.ReadFile(filepath.Join(lab.CNIBinDir, "ptp"))
	if err != nil || string(text) != "a plugin" {
		t.Errorf("the plugin is %q, %v", text, err)
	}
	return errors.Join(os.WriteFile(filepath.Join(lab.CNIBinDir, "added"), nil, 0o600), os.WriteFile(filepath.Join(lab.CNIConfDir, "added"), nil, 0o600))
}

// Files that a machine lacks exist only for the node; existing files are unchanged.
func TestSupplyEtc(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	etc := filepath.Join(dir, "etc")
	put(t, filepath.Join(etc, "passwd"), "me:x:0:0::/:/bin/sh\n")
	put(t, filepath.Join(etc, "own", "file"), "own\n")
	if err := os.Symlink("../run/systemd/resolve/stub-resolv.conf", filepath.Join(etc, "resolv.conf")); err != nil { // its target is masked
		t.Fatal(err)
	}
	inside := map[string]string{}
	err := thread.Apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		scratch := filepath.Join(dir, "scratch")
		if err := errors.Join(os.Mkdir(scratch, 0o755), unix.Mount("tmpfs", scratch, "tmpfs", 0, "")); err != nil {
			return err
		}
		if err := supplyEtc(etc, scratch); err != nil {
			return err
		}
		for _, name := range []string{"hosts", "resolv.conf", "passwd", "group", "own/file"} {
			data, err := os.ReadFile(filepath.Join(etc, name))
			if err != nil {
				return err
			}
			inside[name] = string(data)
		}
		if err := supplyEtc(etc, filepath.Join(scratch, "again")); err != nil { // as a node of several does
			return err
		}
		return os.WriteFile(filepath.Join(etc, "written"), nil, 0o644)
	})
	must.OK(t, err)
	for name, want := range map[string]string{"hosts": etcFiles["hosts"], "resolv.conf": "", "passwd": "me:x:0:0::/:/bin/sh\n", "group": etcFiles["group"], "own/file": "own\n"} {
		if inside[name] != want {
			t.Errorf("%s is %q inside, want %q", name, inside[name], want)
		}
	}
	for _, name := range []string{"hosts", "resolv.conf", "group", "written"} {
		if _, err := os.Stat(filepath.Join(etc, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the machine has %s: %v", name, err)
		}
	}
}
