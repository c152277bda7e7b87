package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
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
