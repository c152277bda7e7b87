package deptest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// While go build is silent, make build reports what is being fetched, how many
// packages of how many are compiled, and the remaining time; then go's own
// errors.
func TestBuildSaysHowFarItIs(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		want   []string
	}{
		"built": {0, []string{`building \./cmd/x: 1 modules fetched`, `building \./cmd/x: 25 of at most 50 packages compiled, the last one a/b25; at most \d+ s left`}},
		"fails": {3, []string{`1 modules fetched`, `(?m)^# a/b25$`, `b25\.go:3:1: no such thing`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := filepath.Join(t.TempDir(), "go")
			script := `#!/bin/bash
if [ "$1" = list ]; then seq 50; exit; fi
if [ "$*" != "build -v -o out ./cmd/x" ]; then echo "called with $*" >&2; exit 9; fi
echo "go: downloading m v1" >&2; sleep 2.5
for i in $(seq 25); do echo "a/b$i" >&2; done; sleep 2.5
if [ "$STATUS" != 0 ]; then echo "# a/b25" >&2; echo "b25.go:3:1: no such thing" >&2; fi
exit $STATUS
`
			must.OK(t, os.WriteFile(fake, []byte(script), 0o755))
			cmd := exec.Command("../../.ci/build", "-o", "out", "./cmd/x")
			cmd.Env = append(os.Environ(), "GO="+fake, "BUILD_SAY_EVERY=1", "STATUS="+string(rune('0'+c.status)))
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if cmd.ProcessState.ExitCode() != c.status {
				t.Errorf("exit code %d (%v), want %d", cmd.ProcessState.ExitCode(), err, c.status)
			}
			if !strings.Contains(string(out), "build -o out ./cmd/x\n") {
				t.Errorf("it does not say what it runs: %q", out)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(stderr.String()) {
					t.Errorf("nothing matches %q in\n%s", want, stderr.String())
				}
			}
		})
	}
}
