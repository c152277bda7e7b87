//go:build verify

package labtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/failpoint"
	"github.com/meshtrial/meshtrial/testing/must"
)

// DiesAt runs a test of the caller's package in a separate process with the given
// environment variables, which dies at its n-th step (0: at none). It returns the steps
// that the process reached, whether it died, and its output.
func DiesAt(ctx context.Context, t *testing.T, n int, test string, variables ...string) (steps []string, died bool, said string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "steps")
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^"+test+"$")
	cmd.Env = append(append(os.Environ(), variables...), fmt.Sprintf("%s=%d", failpoint.Variable, n), failpoint.LogVariable+"="+log)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if died = errors.As(err, &exit) && strings.Contains(exit.String(), "killed"); err != nil && !died {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(log)
	must.OK(t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n"), died, string(out)
}
