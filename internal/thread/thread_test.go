package thread

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Whichever threads are free, none of the threads used is the first one, and all of
// them end.
func TestApart(t *testing.T) {
	const times = 200
	first, err := os.Readlink("/proc/self/ns/uts")
	must.OK(t, err)
	used := make(chan int, times)
	var all sync.WaitGroup
	for range times {
		all.Go(func() {
			said := errors.New("said")
			if err := Apart(func() error { used <- unix.Gettid(); return said }); !errors.Is(err, said) {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	close(used)
	for id := range used {
		if id == unix.Getpid() {
			t.Error("ran on the first thread")
		}
		eventually.Holds(t, "the thread is gone", func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", id))
			return errors.Is(err, os.ErrNotExist)
		})
	}
	if now, err := os.Readlink("/proc/self/ns/uts"); err != nil || now != first {
		t.Errorf("the process is in %s now, before in %s: %v", now, first, err)
	}
}
