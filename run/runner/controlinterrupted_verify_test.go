//go:build verify

package runner_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// TestControlInterrupted interrupts a run twice, which still cleans up; kills
// another, which leaves everything for the next; and resumes it to the end.
func TestControlInterrupted(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(b.dir, "stopped")
	const changes = 6 // several seconds of changes follow the signal
	file := b.controlStudy(t, "stopped", changes, 2)
	start := func(args ...string) *going {
		g := b.start(t, out, args...)
		b.changed(t, g, 2)
		return g
	}
	code, text := start(file, "--out", out).end(t, syscall.SIGINT, syscall.SIGTERM)
	if code != errs.CodeInterrupted || !strings.Contains(text, "still to be reverted:\n") || !strings.Contains(text, "changed in the cluster\n") {
		t.Errorf("interrupted twice: exit code %d\n%s", code, text)
	}
	b.undone(t)
	start("--resume", out).end(t, syscall.SIGKILL)
	if left := b.namespaces(t); len(left) == 0 {
		t.Error("a killed run left no namespace to know it by")
	}
	code, text = b.meshtrial(t, "run", "--resume", out)
	measured(t, code, text)
	b.verifyControl(t, out, 2, changes)
	b.undone(t)
}
