// Package thread runs functions on threads of their own, such as those that enter another
// network namespace and may not run anything else afterwards.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Apart runs f on a thread that nothing else will run on and that ends with f, and returns
// f's error. It is never the first thread of the process: that one would not end, and its
// namespaces are what /proc shows as those of the process.
func Apart(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			result <- f() // never unlocked: the thread ends with this goroutine
			return
		}
		done := make(chan struct{})
		go func() { // on another thread, as the first one is taken
			defer close(done)
			runtime.LockOSThread()
			result <- f()
		}()
		<-done
		runtime.UnlockOSThread()
	}()
	return <-result
}
