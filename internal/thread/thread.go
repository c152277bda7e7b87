// Package thread runs functions on dedicated threads, such as functions that enter another
// network namespace, after which the thread must not run anything else.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Apart runs f on a thread that runs nothing else and ends with f, and returns f's error.
// It never uses the first thread of the process: that would not end, and /proc shows its
// namespaces as those of the process.
func Apart(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			result <- f() // never unlocked, so the thread ends with this goroutine
			return
		}
		done := make(chan struct{})
		go func() { // on another thread, as this goroutine holds the first
			defer close(done)
			runtime.LockOSThread()
			result <- f()
		}()
		<-done
		runtime.UnlockOSThread()
	}()
	return <-result
}
