package perf

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOnlyPlainFilesAreOpened: a path in a profile may name a device, and
// opening some of them has consequences.
func TestOnlyPlainFilesAreOpened(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, pipe, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	if _, err := readELF(pipe); err == nil || !strings.Contains(err.Error(), "no plain file") {
		t.Errorf("a pipe: %v", err)
	}
	event := make([]byte, 4096)
	if n, err := unix.Read(watch, event); err != unix.EAGAIN {
		t.Errorf("the pipe was opened: %d bytes of events, %v", n, err)
	}
	if _, err := readELF(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// TestTail: perf's output and its messages come from two goroutines, and only
// their beginning is kept.
func TestTail(t *testing.T) {
	var kept tail
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for range 100 {
				if n, err := kept.Write(make([]byte, 1000)); n != 1000 || err != nil {
					t.Error(n, err)
				}
			}
		})
	}
	writers.Wait()
	if kept.b.Len() != maxStderr {
		t.Errorf("%d bytes are kept, the limit is %d", kept.b.Len(), maxStderr)
	}
}

// TestEndsTooSoon: perf may end well before it was to, and say nothing.
func TestEndsTooSoon(t *testing.T) {
	if got := (&process{}).failed(nil).Error(); got != "perf: it ended too soon" {
		t.Errorf("%q", got)
	}
}
