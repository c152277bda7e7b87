package thread

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Whichever threads are free, none of those that are used is the first one, and all of
// them end.
func TestApart(t *testing.T) {
	const times = 200
	first, err := os.Readlink("/proc/self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
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
		path := fmt.Sprintf("/proc/self/task/%d", id)
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("thread %d is still there", id)
			}
		}
	}
	if now, err := os.Readlink("/proc/self/ns/uts"); err != nil || now != first {
		t.Errorf("the process is in %s now, before in %s: %v", now, first, err)
	}
}
