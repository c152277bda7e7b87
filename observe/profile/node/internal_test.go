package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/observe/profile/perf"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestProcessesAfterWaiting verifies that a profile that waited for a slot covers
// the container's processes at that time.
func TestProcessesAfterWaiting(t *testing.T) {
	root, id := t.TempDir(), strings.Repeat("ab", 32)
	cgroup := filepath.Join(root, "77", "cgroup") // a pipe, to detect when it is read
	must.OK(t, os.Mkdir(filepath.Dir(cgroup), 0o755))
	must.OK(t, unix.Mkfifo(cgroup, 0o600))
	options := Options{ProcRoot: root, Tool: perf.Tool{Path: "/nonexistent/perf"}}
	s := &Server{options: options, slots: make(chan struct{}, 1)}
	s.slots <- struct{}{}
	done := make(chan error, 1)
	go func() {
		_, err := s.take(t.Context(), Request{ContainerID: id, Hz: 99, Seconds: 1, Graph: perf.GraphNone})
		done <- err
	}()
	must.OK(t, os.WriteFile(cgroup, []byte("0::/kubepods/podx/"+id+"\n"), 0))
	for { // until it has been read
		fd, err := unix.Open(cgroup, unix.O_WRONLY|unix.O_NONBLOCK, 0)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		_ = unix.Close(fd)
		time.Sleep(time.Millisecond)
	}
	<-s.slots
	go func() { _ = os.WriteFile(cgroup, []byte("0::/kubepods/podx/"+strings.Repeat("cd", 32)+"\n"), 0) }()
	if err := <-done; !errors.Is(err, perf.ErrGone) {
		t.Errorf("the PID is another container's by now: %v", err)
	}
}
