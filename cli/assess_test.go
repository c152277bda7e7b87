package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestAssessScripts assesses from files recorded of a lab.
func TestAssessScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/assess",
		Setup: func(e *testscript.Env) error {
			data, err := os.ReadFile("../advise/scope/testdata/sidecar.json.gz")
			if err != nil {
				return err
			}
			return os.WriteFile(e.Cd+"/sidecar.json.gz", data, 0o644)
		},
	})
}
