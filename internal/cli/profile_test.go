package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestProfileScripts runs on profiles recorded by perf.
func TestProfileScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/profile",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"meshmark", "kernel"} {
				data, err := os.ReadFile("../../profile/testdata/" + name + ".perf.txt")
				if err != nil {
					return err
				}
				if err := os.WriteFile(e.Cd+"/"+name+".perf.txt", data, 0o644); err != nil {
					return err
				}
			}
			e.Setenv("XDG_STATE_HOME", e.Cd+"/state") // no lab runs there
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"cut": cutFile},
	})
}

// cutFile takes the last line's end off a file.
func cutFile(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path, []byte(strings.TrimRight(ts.ReadFile(args[0]), "\n")), 0o644))
}
