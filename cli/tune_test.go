package cli

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Scripts find folder run, a recorded control-plane run from which a capacity model can be
// fitted.
func TestTune(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/tune",
		Setup: func(e *testscript.Env) error {
			return os.CopyFS(filepath.Join(e.WorkDir, "run"), os.DirFS(filepath.Join("../kinds/testdata", "control-plane")))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// A tuning with a capacity model starts from what the model expects of each cell.
func TestExpectedBy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "model.json")
	run := filepath.Join("../kinds/testdata", "control-plane")
	env := &Env{Stdout: io.Discard, Stderr: io.Discard}
	must.OK(t, Run(t.Context(), []string{"assess", "capacity", "fit", run, "-o", file}, env))
	read := func(sets ...string) *study.Study {
		s, _, err := loadStudy(t.Context(), env, "tune-chapter-11", sets)
		must.OK(t, err)
		return s
	}
	m, err := readModel(t.Context(), file)
	must.OK(t, err)
	expected, err := app.ExpectedBy(m, lab.KindLocal, read())
	must.OK(t, err)
	s := read(expected)
	plan, err := app.CheckedPlan(s, 1)
	must.OK(t, err)
	if len(s.Tune.Expected) != 4 {
		t.Fatalf("%d findings are expected, want 4", len(s.Tune.Expected))
	}
	for _, e := range s.Tune.Expected {
		if len(e.Values) != len(plan.Cells) {
			t.Errorf("%s is expected in %d cells of %d", e.Finding, len(e.Values), len(plan.Cells))
		}
		for i, v := range e.Values {
			if v <= 0 {
				t.Errorf("%s of cell %d is expected to be %g", e.Finding, i, v)
			}
		}
	}
}
