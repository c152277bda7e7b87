package labtest

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	dataplane "github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	resilience "github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Study writes a study file into a new folder, and returns its path.
func Study(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "study.yaml")
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// AboutTheMachine lists the checks that fail if the machine is busy, whatever the mesh
// does.
var AboutTheMachine = []string{"schedule-lag", "schedule-fit", "schedule-rate", "steady", "generator-cpu", "cpu-edges", "backlog"}

// OfTheMachine reports whether failing a trial's check is no evidence against the mesh.
// That is so for a check in [AboutTheMachine], for an account of threads whose reader was
// delayed, if it is off by no more than what its cgroup used meanwhile, and for CPU of a
// scenario that was counted late. Limits are those of a run without explicit ones.
func OfTheMachine(trial record.Trial, c record.Check) bool {
	if slices.Contains(AboutTheMachine, c.Name) {
		return true
	}
	if c.Name == "counted" {
		return trial.Scenario != nil && countedLate(trial)
	}
	part, found := strings.CutPrefix(c.Name, "threads-")
	th, measured := trial.Threads[part]
	least, longRead := dataplane.ThreadsLeast.Default, dataplane.ThreadsUnsure.Default*th.CPUS
	return found && measured && th.UnsureS > min(least, longRead) && math.Abs(th.UnaccountedS) <= th.UnsureS+least
}

// countedLate reports whether CPU of a scenario was counted so late that the machine may
// be the cause: by a tenth of the timeline, or by half of it if the clients or another
// check also indicate a busy machine.
func countedLate(trial record.Trial) bool {
	busy := trial.Scenario.Lag.At(0.99)/1e3 > resilience.ScheduleLagWarning.Default ||
		slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool { return !c.OK && slices.Contains(AboutTheMachine, c.Name) })
	least := 0.9
	if busy {
		least = 0.5
	}
	return trial.Scenario.CountedS >= least*trial.Window.Seconds
}

// Measured runs a command that measures, and returns all its output. The results may be
// invalid on a machine that is also used by others; any other failure ends the test.
func (m Machine) Measured(t *testing.T, args ...string) string {
	t.Helper()
	code, said := m.Run(t, args...)
	if code != errs.CodeOK && code != errs.CodeInvalid {
		t.Fatalf("%v: exit code %d\n%s", args, code, said)
	}
	return said
}

// Folder returns the folder of programs that are not built here, from an environment
// variable. Without it the test is skipped.
func Folder(t testing.TB, variable string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skipf("%s names no folder", variable)
	}
	return dir
}
