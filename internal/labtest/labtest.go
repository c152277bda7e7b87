// Package labtest gives tests of other packages a real lab of their own: the
// program that `make build` left starts one in a state folder for this test
// alone, and the test's end takes it down. Where that cannot be (no root, no
// program) the test is skipped and says why.
package labtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshmark/meshmark/lab/local"
)

// Machine is what a test needs to start labs: the program, and a folder under
// which it keeps its state.
type Machine struct {
	Program string
	Dir     string // short, for the sake of sockets; removed with the test
}

// New prepares a lab of the test's own without starting it. It sets the
// environment of the test, so that package local means that lab too.
// MESHMARK_PROGRAM names another program than the one built in bin.
func New(t *testing.T) Machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a local lab takes root")
	}
	root := repository(t)
	program := os.Getenv("MESHMARK_PROGRAM")
	if program == "" {
		program = filepath.Join(root, "bin", "meshmark")
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("no meshmark program: %v; `make build` makes it", err)
	}
	dir, err := os.MkdirTemp("/tmp", "mm")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MESHMARK_SOURCE", filepath.Join(root, "components", "src"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "s"))
	t.Setenv("KUBECONFIG", "")
	t.Cleanup(func() {
		if _, err := local.Down(context.Background(), ""); err != nil {
			t.Errorf("take the lab down: %v", err)
		}
		os.RemoveAll(dir)
	})
	return Machine{Program: program, Dir: dir}
}

// Start starts a lab of the test's own, or takes the one whose state folder
// MESHMARK_TEST_LAB names, which it leaves as it is: while a test is written
// that saves the wait.
func Start(t *testing.T) *local.Lab {
	t.Helper()
	if state := os.Getenv("MESHMARK_TEST_LAB"); state != "" {
		l, err := local.Open(state)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	return New(t).Up(t)
}

// Kubectl runs a lab's own kubectl and returns all it said.
func Kubectl(t *testing.T, l *local.Lab, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(local.ToolsDir(os.Getenv("MESHMARK_TEST_LAB")), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig())
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Up starts the lab.
func (m Machine) Up(t *testing.T, args ...string) *local.Lab {
	t.Helper()
	if code, out := m.Run(t, append([]string{"lab", "up"}, args...)...); code != 0 {
		t.Fatalf("lab up: exit code %d\n%s", code, out)
	}
	l, err := local.Open("")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Run runs the program and returns its exit code and all it said.
func (m Machine) Run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := exec.Command(m.Program, args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

// repository is the folder of go.mod, at or above the test's own.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		above := filepath.Dir(dir)
		if above == dir {
			t.Fatal("no go.mod at or above the test's folder")
		}
		dir = above
	}
}
