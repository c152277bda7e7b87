//go:build verify

package runner_test

import (
	"bytes"
	"path/filepath"
	"syscall"
	"testing"
)

// TestControlInterrupted interrupts a run, which then cleans up; kills
// another, which leaves everything for the next; and resumes to the end.
func TestControlInterrupted(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(b.dir, "stopped")
	const changes = 6 // some seconds of them come after the signal
	file := b.controlStudy(t, "stopped", changes, 2)
	start := func(args ...string) (stop func(syscall.Signal)) {
		cmd := b.command(args...)
		var text bytes.Buffer
		cmd.Stdout, cmd.Stderr = &text, &text
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		var err error
		go func() {
			defer close(ended)
			err = cmd.Wait()
		}()
		return func(signal syscall.Signal) {
			defer func() {
				if t.Failed() {
					_ = cmd.Process.Kill()
					<-ended
					t.Logf("%s", &text)
				}
			}()
			b.changed(t, 2, ended)
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if <-ended; err == nil {
				t.Errorf("%v did not end the run", signal)
			}
		}
	}
	start("run", file, "--out", out)(syscall.SIGINT)
	b.undone(t)
	start("run", "--resume", out)(syscall.SIGKILL)
	if left := b.namespaces(t); len(left) == 0 {
		t.Error("a killed run left no namespace to know it by")
	}
	code, text := b.meshtrial(t, "run", "--resume", out)
	measured(t, code, text)
	b.verifyControl(t, out, 2, changes)
	b.undone(t)
}
