package labtest

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Background starts a command in parallel with the test. ended is closed when the
// command has ended for any reason; said then holds its output. If the test ends
// first, it kills the command; a failed test shows the output.
func Background(t testing.TB, cmd *exec.Cmd) (said *bytes.Buffer, ended <-chan struct{}) {
	t.Helper()
	said = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	must.OK(t, cmd.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if t.Failed() {
			t.Logf("%v:\n%s", cmd.Args, said)
		}
	})
	return said, done
}
