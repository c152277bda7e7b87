//go:build verify

package extending

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Each change builds, and passes the tests of what it touches once the generated
// documents have been rewritten.
func TestChangesWork(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git, which applies the changes")
	}
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	files, err := list.Output()
	if err != nil {
		t.Skipf("this is no checkout of git: %v", err)
	}
	for _, c := range changes {
		t.Run(c.patch, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range strings.Split(strings.TrimSuffix(string(files), "\x00"), "\x00") {
				copyFile(t, filepath.Join(root, name), filepath.Join(dir, name))
			}
			run := func(args ...string) {
				t.Helper()
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
			run("git", "apply", c.path())
			run("go", "build", "./...")
			update := exec.Command("go", "test", "./study", "./lab/rights", "-run", "SchemaFile|ReferenceFile|Document", "-update")
			update.Dir = dir
			_ = update.Run() // the tests show whether they are right now
			run(append([]string{"go", "test"}, c.tests...)...)
		})
	}
}

// copyFile copies a file if it exists: a deleted one is still listed.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	must.OK(t, err)
}
