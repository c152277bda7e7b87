package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The study command as scripts. "study ARGS..." is "meshtrial study ARGS..."; "exits N study
// ARGS..." requires that exit code.
func TestStudyScripts(t *testing.T) {
	run := func(ts *testscript.TestScript, args []string) int {
		env := &Env{Stdin: strings.NewReader(""), Stdout: ts.Stdout(), Stderr: ts.Stderr()}
		root := &cobra.Command{Use: "meshtrial", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(newStudyCommand(env))
		root.SetArgs(args)
		root.SetOut(env.Stdout)
		root.SetErr(env.Stderr)
		markUsageErrors(root)
		// The command reads paths relative to the working directory.
		for i, a := range args {
			if strings.HasSuffix(a, ".yaml") && !strings.HasPrefix(a, "-") && !strings.Contains(a, "=") {
				args[i] = ts.MkAbs(a)
			}
		}
		err := root.Execute()
		if err != nil && !errors.Is(err, errQuiet) {
			fmt.Fprintf(env.Stderr, "meshtrial: %v\n", strings.ReplaceAll(err.Error(), ts.MkAbs(".")+"/", ""))
			if hint := errs.Hint(err); hint != "" {
				fmt.Fprintf(env.Stderr, "  hint: %s\n", hint)
			}
		}
		return errs.Code(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/study",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"study": func(ts *testscript.TestScript, neg bool, args []string) {
				if code := run(ts, append([]string{"study"}, args...)); (code != 0) != neg {
					ts.Fatalf("exit code %d", code)
				}
			},
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				if code := run(ts, args[1:]); code != want {
					ts.Fatalf("exit code %d, want %d", code, want)
				}
			},
		},
	})
}

func TestStudyFromStandardInput(t *testing.T) {
	var out bytes.Buffer
	env := &Env{Stdin: strings.NewReader("name: x\nquestion: y\nfactors: {rate: [1, max]}\n"), Stdout: &out, Stderr: &out}
	cmd := newStudyCommand(env)
	cmd.SetArgs([]string{"check", "-"})
	must.OK(t, cmd.Execute())
	if want := "-: ok: 2 cells, 2 trials per block, 26s to 4m7s\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
