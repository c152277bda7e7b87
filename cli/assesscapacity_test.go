package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Scripts find folder run, a recorded control-plane run with two trials of one cell, 10 sidecars,
// and 5 services whose endpoints change; and folder data, a data-plane run.
func TestCapacity(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/assesscapacity",
		Setup: func(e *testscript.Env) error {
			for name, from := range map[string]string{"run": "control-plane", "data": "data-plane"} {
				if err := os.CopyFS(filepath.Join(e.WorkDir, name), os.DirFS(filepath.Join("../kinds/testdata", from))); err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}
