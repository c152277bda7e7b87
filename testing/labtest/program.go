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

// built is the program that this process has built.
var built struct {
	once sync.Once
	path string
	err  error
}

// Program returns the path of the meshtrial program, built by `make build` from
// the current sources. It skips the test without root, which everything that
// the program does to a machine requires.
func Program(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a local lab takes root")
	}
	root, err := module.Root()
	must.OK(t, err)
	built.once.Do(func() {
		if built.path = os.Getenv(programVariable); built.path == "" {
			built.path, built.err = build(root)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
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
