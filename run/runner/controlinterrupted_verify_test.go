//go:build verify

package runner_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// TestControlInterrupted interrupts a run twice, which then cleans up all the
// same; kills another, which leaves everything for the next; and resumes to the
// end.
func TestControlInterrupted(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(b.dir, "stopped")
	const changes = 6 // some seconds of them come after the signal
	file := b.controlStudy(t, "stopped", changes, 2)
	start := func(args ...string) (stop func(...syscall.Signal) (code int, said string)) {
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
		return func(signals ...syscall.Signal) (int, string) {
			defer func() {
				if t.Failed() {
					_ = cmd.Process.Kill()
					<-ended
					t.Logf("%s", &text)
				}
			}()
			b.changed(t, 2, ended)
			for _, signal := range signals {
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			if <-ended; err == nil {
				t.Errorf("%v did not end the run", signals)
			}
			return cmd.ProcessState.ExitCode(), text.String()
		}
	}
	code, text := start("run", file, "--out", out)(syscall.SIGINT, syscall.SIGTERM)
	if code != errs.CodeInterrupted || !strings.Contains(text, "still to be put back:\n") || !strings.Contains(text, "changed in the cluster\n") {
		t.Errorf("interrupted twice: exit code %d\n%s", code, text)
	}
	b.undone(t)
	start("run", "--resume", out)(syscall.SIGKILL)
	if left := b.namespaces(t); len(left) == 0 {
		t.Error("a killed run left no namespace to know it by")
	}
	code, text = b.meshtrial(t, "run", "--resume", out)
	measured(t, code, text)
	b.verifyControl(t, out, 2, changes)
	b.undone(t)
}
