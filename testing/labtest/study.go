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

// Study writes a study file into a folder of its own, and returns its path.
func Study(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "study.yaml")
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// AboutTheMachine are the checks that fail where the machine is busy, whatever the mesh
// does.
var AboutTheMachine = []string{"schedule-lag", "schedule-fit", "schedule-rate", "steady", "generator-cpu", "cpu-edges"}

// OfTheMachine tells whether a check of a trial says nothing against the mesh if it fails:
// it is one of [AboutTheMachine], or an account of threads whose reader was kept from
// reading, if it is wrong by no more than what its cgroup used meanwhile, or CPU of a
// scenario that was counted late. Limits are those of a run that is given none.
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

// countedLate tells whether CPU of a scenario was counted as late as the machine may be to
// blame for: by a tenth of the timeline, or by half of it if the clients or another check
// say too that the machine was busy.
func countedLate(trial record.Trial) bool {
	busy := trial.Scenario.Lag.At(0.99)/1e3 > resilience.ScheduleLagWarning.Default ||
		slices.ContainsFunc(trial.Validity.Checks, func(c record.Check) bool { return !c.OK && slices.Contains(AboutTheMachine, c.Name) })
	least := 0.9
	if busy {
		least = 0.5
	}
	return trial.Scenario.CountedS >= least*trial.Window.Seconds
}

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
