package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/thread"
)

// What a machine lacks is there for the node and nowhere else; what it has is as it was.
func TestSupplyEtc(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts take root")
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
	if err != nil {
		t.Fatal(err)
	}
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
