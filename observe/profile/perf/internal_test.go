package perf

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestOnlyPlainFilesAreOpened: a path in a profile may name a device, and
// opening some devices has side effects.
func TestOnlyPlainFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	root, err := os.Open(dir)
	must.OK(t, err)
	defer root.Close()
	must.OK(t, unix.Mkfifo(pipe, 0o600))
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(watch)
	must.OK(t, must.Err(unix.InotifyAddWatch(watch, pipe, unix.IN_OPEN)))
	if _, err := readELF(root, "/pipe"); !errors.Is(err, errNotRegular) {
		t.Errorf("a pipe: %v", err)
	}
	event := make([]byte, 4096)
	if n, err := unix.Read(watch, event); err != unix.EAGAIN {
		t.Errorf("the pipe was opened: %d bytes of events, %v", n, err)
	}
	if _, err := readELF(root, "/none"); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// What enters another mount namespace never runs on the process's first thread, which would stay there.
func TestInsideIsApart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("entering a mount namespace needs root")
	}
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			err := Tool{Root: "/proc/self/root"}.inside(func() error {
				if unix.Gettid() == unix.Getpid() {
					t.Error("on the first thread")
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestInRoot verifies that links resolve as in a container, and never escape it.
func TestInRoot(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	in := filepath.Join(dir, "root")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	for _, d := range []string{"opt/real", "usr/bin"} {
		must.OK(t, os.MkdirAll(filepath.Join(in, d), 0o755))
	}
	for _, f := range []string{filepath.Join(in, "opt/real/perf"), outside} {
		must.OK(t, os.WriteFile(f, self, 0o755))
	}
	for name, to := range map[string]string{
		"usr/bin/perf": "/etc/perf", "etc": "/opt", "opt/perf": "real/../../../../opt/real/perf",
		"climbs": "../outside", "absolute": outside, "circle": "/circle", "directory": "/opt",
	} {
		must.OK(t, os.Symlink(to, filepath.Join(in, name)))
	}
	root, err := os.Open(in)
	must.OK(t, err)
	defer root.Close()
	for name, ok := range map[string]bool{
		"/usr/bin/perf": true, "/../../opt/real/perf": true, "/climbs": false, "/absolute": false, "/circle": false,
		"/directory": false, outside: false, "/": false,
	} {
		if _, err := readELF(root, name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all := rootsOf([]int{os.Getpid(), os.Getpid(), os.Getppid(), 1 << 30}); len(all) == 0 || len(all) > 2 {
		t.Errorf("%d roots", len(all))
	} else {
		all.Close()
	}
}

// If containers have different programs at one path, the build ID is that of the
// available program.
func TestTheirIDs(t *testing.T) {
	all := map[string][]string{"/a": {"1"}, "/b": {"1", "2"}, "/c": {"1", "2"}, "/d": {"1", "2"}}
	got := theirIDs(all, map[string]profile.ELF{"/b": {BuildID: "2"}, "/c": {BuildID: "3"}})
	if len(got) != 2 || got["/a"] != "1" || got["/b"] != "2" {
		t.Errorf("%v", got)
	}
}

// All CPUs are sampled if the file has room for it.
func TestFitsWide(t *testing.T) {
	for _, tt := range []struct {
		graph  string
		cpus   int
		length time.Duration
		want   bool
	}{
		{GraphFP, 2, time.Hour, true},
		{GraphNone, 64, time.Minute, true},
		{GraphFP, 128, 10 * time.Minute, false},
		{GraphDwarf, 1, time.Second, false},
	} {
		o := Options{Hz: DefaultHz, Length: tt.length, Graph: tt.graph}
		if got := o.fitsWide(tt.cpus, DefaultMaxBytes); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
