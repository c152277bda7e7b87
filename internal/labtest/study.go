package labtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshtrial/meshtrial/errs"
)

// Study writes a study file into a folder of its own, and returns its path.
func Study(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "study.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// AboutTheMachine are the checks that fail where the machine is busy, whatever the mesh
// does.
var AboutTheMachine = []string{"schedule-lag", "schedule-fit", "schedule-rate", "steady", "generator-cpu", "cpu-edges"}

// Measured runs a command that measures, and returns all it said. Its figures may be
// invalid on a machine that others use too; any other failure ends the test.
func (m Machine) Measured(t *testing.T, args ...string) string {
	t.Helper()
	code, said := m.Run(t, args...)
	if code != errs.CodeOK && code != errs.CodeInvalid {
		t.Fatalf("%v: exit code %d\n%s", args, code, said)
	}
	return said
}

// Folder is where programs lie that are not built here: the folder that a variable of the
// environment names. Without it the test is skipped.
func Folder(t testing.TB, variable string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skipf("%s names no folder", variable)
	}
	return dir
}
