//go:build integration || verify

package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

// bench has the tools of these tests: the meshtrial program and a separate
// state folder.
type bench struct {
	labtest.Machine
	before *leakcheck.Snapshot
}

func newBench(t *testing.T) *bench {
	t.Helper()
	m := labtest.New(t)
	b := &bench{Machine: m}
	var err error
	b.before, err = leakcheck.Take(b.leaks())
	must.OK(t, err)
	return b
}

// leaks returns where to look for what labs with these IDs could leave behind.
func (b *bench) leaks(ids ...string) leakcheck.Options {
	only := []string{b.State()}
	for _, id := range ids {
		only = append(only, "meshtrial-"+id, "mtrial-"+id)
	}
	return leakcheck.Options{Only: only}
}

// up starts a lab with the program.
func (b *bench) up(t *testing.T, args ...string) *local.Lab {
	t.Helper()
	l := b.Up(t, args...)
	t.Logf("lab up took %.1f s itself", l.UpTime().Seconds())
	return l
}

// down takes the lab down with the program and checks that nothing is left.
func (b *bench) down(t *testing.T, ids ...string) {
	t.Helper()
	began := time.Now()
	if code, out := b.Run(t, "lab", "down"); code != 0 {
		t.Fatalf("lab down: exit code %d\n%s", code, out)
	}
	t.Logf("lab down in %.1f s", time.Since(began).Seconds())
	leakcheck.Check(t, b.before, b.leaks(ids...), 20*time.Second)
	left, err := os.ReadDir(b.State())
	must.OK(t, err)
	for _, entry := range left {
		if entry.Name() != "lock" {
			t.Errorf("left in the state folder: %s", entry.Name())
		}
	}
}

// kubectl runs the lab's kubectl.
func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func tryKubectl(stdin string, args ...string) (string, error) {
	status, err := local.GetStatus("")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(local.ToolsDir(""), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+status.Kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
