// Package nodetest lets a test run Node.js programs that a folder's
// package-lock.json pins, to check that committed files match what their
// sources generate.
package nodetest

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// limit is far more than any of these programs takes.
const limit = 3 * time.Minute

// Program returns the path of a file in the packages of folder. It skips the
// test, with the reason, if Node.js or the packages are missing.
func Program(t *testing.T, folder, file string) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("no Node.js on this machine: what is committed is not compared with what its sources make")
	}
	path := filepath.Join("node_modules", file)
	if _, err := os.Stat(filepath.Join(folder, path)); err != nil {
		t.Skipf("the packages of %s are not installed (make node-packages does it): what is committed is not compared with what its sources make", folder)
	}
	return path
}

// DependsOn reads files and folders, so that go test reruns the test when one
// of them changes: it does not see what other programs read.
func DependsOn(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				_, err = os.ReadFile(path)
			}
			return err
		})
		must.OK(t, err)
	}
}

// Run runs a script in folder.
func Run(t *testing.T, folder, script string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{script}, args...)...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("node %s in %s: %v\n%s", script, folder, err, out)
	}
}
