package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/testing/must"
)

// What `meshtrial run` rejects before it starts anything. $STATE is where the state of a lab
// would be.
func TestRunScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/run",
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("STATE", filepath.Join(env.WorkDir, "state", "meshtrial"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("KUBECONFIG", "")
			return nil
		},
		Cmds: scriptCommands{
			// refuses RUN-ARGS...: the run exits with 2, gives its reason on stderr only, and
			// creates neither a lab nor a run directory.
			"refuses": func(ts *testscript.TestScript, _ bool, args []string) {
				before := files(ts)
				exits(ts, false, append([]string{strconv.Itoa(errs.CodeUsage), "run"}, args...))
				if ts.ReadFile("stdout") != "" || !strings.HasPrefix(ts.ReadFile("stderr"), "meshtrial: ") {
					ts.Fatalf("not an error message on stderr alone")
				}
				if after := files(ts); after != before {
					ts.Fatalf("left behind:\n%s\nbefore:\n%s", after, before)
				}
			},
			// fill FILE SIZE: creates a file of SIZE bytes.
			"fill": func(ts *testscript.TestScript, _ bool, args []string) {
				size, err := strconv.Atoi(args[1])
				ts.Check(err)
				text := bytes.Repeat([]byte("# a long comment\n"), size/17+1)[:size]
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o644))
			},
			// a-run DIR FILE [HEADER]: creates the directory of a run of study FILE. HEADER is
			// JSON to add to its header.
			"a-run": func(ts *testscript.TestScript, _ bool, args []string) {
				s, source, err := loadStudy(context.Background(), &Env{}, ts.MkAbs(args[1]), nil)
				ts.Check(err)
				header := record.Header{Kind: string(s.Kind), RunID: "r", Seed: 1, Rules: verdict.Limits(nil).Rules(kinds.Of(s).Limits)}
				if len(args) > 2 {
					ts.Check(json.Unmarshal([]byte(args[2]), &header))
				}
				dir, err := store.Create(ts.MkAbs(args[0]), header, source, s.Marshal())
				ts.Check(err)
				ts.Check(dir.Close())
			},
		},
	})
}

// files lists the files in the script's directory.
func files(ts *testscript.TestScript) string {
	var out strings.Builder
	ts.Check(filepath.WalkDir(ts.MkAbs("."), func(path string, entry os.DirEntry, err error) error {
		if entry != nil && entry.Name() != ".tmp" {
			out.WriteString(path + "\n")
		}
		return err
	}))
	return out.String()
}

// Without root there can be no local lab: the run reports what the machine lacks before it builds
// or starts anything.
func TestRunWithoutRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to be another user takes root")
	}
	dir, err := os.MkdirTemp("/tmp", "mm")
	must.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	must.OK(t, errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "home"), 0o755), os.Chown(filepath.Join(dir, "home"), nobody, nobody)))
	program := filepath.Join(dir, "meshtrial") // the test program acts as meshtrial under this name
	own, err := os.Executable()
	must.OK(t, err)
	must.OK(t, exec.Command("cp", own, program).Run())
	home := filepath.Join(dir, "home")
	cmd := exec.Command(program, "run", "quick")
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != errs.CodeUsage {
		t.Errorf("ended with %v:\n%s", err, out)
	}
	contains(t, string(out), "this machine cannot run a local lab", "root", "hint: ")
	if _, err := os.Stat(filepath.Join(home, "runs")); err == nil {
		t.Error("a run directory was begun")
	}
	if entries, err := os.ReadDir(filepath.Join(home, ".cache")); err == nil && len(entries) > 0 {
		t.Errorf("the cache has %v", entries)
	}
}
