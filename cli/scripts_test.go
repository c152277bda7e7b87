package cli

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

type scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string)

// TestScripts runs the scripts that need nothing but files of the repository: by the scripts' folder, what the scripts
// call each of these files or folders, and where it is.
func TestScripts(t *testing.T) {
	for folder, files := range map[string]map[string]string{
		"assess":         {"sidecar.json.gz": "advise/scope/testdata/sidecar.json.gz"},
		"assesscapacity": {"run": "kinds/testdata/control-plane", "data": "kinds/testdata/data-plane"},
		"assessconfig": {"sidecar.json.gz": "advise/scope/testdata/sidecar.json.gz",
			"gateway.json.gz":  "advise/scope/testdata/gateway.json.gz",
			"clusters.json.gz": "advise/scope/testdata/clusters.json.gz",
			"ztunnel.json":     "advise/scope/testdata/ztunnel.json"},
		"assesslimits": {"healthy": "kinds/testdata/control-plane", "data-plane": "kinds/testdata/data-plane",
			"resilience": "kinds/testdata/resilience"},
		"assesstraffic": nil,
		"components":    nil,
		"lab":           nil,
		"load":          nil,
		"profile": {"meshtrial.perf.txt": "observe/profile/testdata/meshtrial.perf.txt",
			"kernel.perf.txt": "observe/profile/testdata/kernel.perf.txt"},
		"study": nil,
		"tune":  {"run": "kinds/testdata/control-plane"},
	} {
		t.Run(folder, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir: filepath.Join("testdata", folder),
				Setup: func(e *testscript.Env) error {
					e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state")) // no lab runs there
					for name, from := range files {
						if err := exec.Command("cp", "-r", filepath.Join("..", from), filepath.Join(e.WorkDir, name)).Run(); err != nil {
							return err
						}
					}
					return nil
				},
				Cmds: scriptCommands{"exits": exits, "sums": checkScopeSums, "cut": cutFile, "slow-run": slowRun},
			})
		})
	}
}

// exits runs meshtrial and requires an exit code: exits CODE ARGUMENT...
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("meshtrial", args[1:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}
