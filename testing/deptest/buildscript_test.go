package deptest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// progress creates a file in a folder for each text that was wanted and has been written.
type progress struct {
	text   bytes.Buffer
	said   string
	wanted []string
}

func (p *progress) Write(text []byte) (int, error) {
	n, _ := p.text.Write(text) // it never fails
	for i, want := range p.wanted {
		if regexp.MustCompile(want).Match(p.text.Bytes()) {
			if err := os.WriteFile(filepath.Join(p.said, strconv.Itoa(i)), nil, 0o644); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

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
said() { until [ -e "$SAID/$1" ]; do sleep 0.1; done; }
echo "go: downloading m v1" >&2; said 0
for i in $(seq 25); do echo "a/b$i" >&2; done; if [ "$STATUS" = 0 ]; then said 1; fi
if [ "$STATUS" != 0 ]; then echo "# a/b25" >&2; echo "b25.go:3:1: no such thing" >&2; fi
exit $STATUS
`
			must.OK(t, os.WriteFile(fake, []byte(script), 0o755))
			cmd := exec.CommandContext(t.Context(), "../../.ci/build", "-o", "out", "./cmd/x")
			said := t.TempDir()
			cmd.Env = append(os.Environ(), "GO="+fake, "BUILD_SAY_EVERY=1", "SAID="+said, "STATUS="+string(rune('0'+c.status)))
			stderr := progress{said: said, wanted: c.want}
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if cmd.ProcessState.ExitCode() != c.status {
				t.Errorf("exit code %d (%v), want %d", cmd.ProcessState.ExitCode(), err, c.status)
			}
			if !strings.Contains(string(out), "build -o out ./cmd/x\n") {
				t.Errorf("it does not say what it runs: %q", out)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).MatchString(stderr.text.String()) {
					t.Errorf("nothing matches %q in\n%s", want, stderr.text.String())
				}
			}
		})
	}
}
