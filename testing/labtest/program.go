package labtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/testing/module"
	"github.com/meshtrial/meshtrial/testing/must"
)

// programVariable names a program that is known to be current.
const programVariable = "MESHTRIAL_PROGRAM"

// built returns the program that the tests of this process use.
var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(programVariable); path != "" {
		return path, nil
	}
	root, err := module.Root()
	if err != nil {
		return "", err
	}
	return build(root)
})

// Program returns the path of the meshtrial program, built by `make build` from
// the current sources. It skips the test without root, which everything that
// the program does to a machine requires.
func Program(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a local lab takes root")
	}
	path, err := built()
	must.OK(t, err)
	return path
}

// build makes the program; tests of several packages take turns.
func build(root string) (string, error) {
	folder := filepath.Join(root, "bin")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	lock, err := os.Open(folder)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", folder, err)
	}
	cmd := exec.Command("make", "--no-print-directory", "-C", root, "build")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	return filepath.Join(folder, "meshtrial"), nil
}
