// Package labtest gives tests of other packages a real lab.
//
// [Start] and [Shared] return a running lab: the one in the state folder
// MESHTRIAL_TEST_LAB, one shared by the tests of a package (see [Sharing]), or
// a lab only for the test. [New] prepares a lab that the test starts and ends
// itself. The program is built from the current sources unless
// MESHTRIAL_PROGRAM names one. If no lab is possible (without root), the test
// is skipped with the reason.
//
// Each test logs which lab it has, how long that took to start and how long it
// was used; testing/testrun sums this up.
package labtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/module"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Machine is what a test needs to start labs: the program and the folder for
// its state.
type Machine struct {
	Program string // the meshtrial program
	Name    string // name of the lab, for the test's log
	home    string // XDG_STATE_HOME of the lab
	dir     string // removed with the lab; "" if it is not ours
}

// New prepares a lab only for the test, without starting it. It sets the test's
// environment so that package local uses that lab too.
func New(t *testing.T) Machine {
	t.Helper()
	m := prepare(t)
	m.use(t)
	t.Cleanup(func() {
		if err := m.remove(); err != nil {
			t.Error(err)
		}
	})
	m.account(t)
	return m
}

// prepare makes a folder for a lab, with a short path because of sockets.
func prepare(t *testing.T) Machine {
	t.Helper()
	program := Program(t)
	dir, err := os.MkdirTemp("/tmp", "mm")
	must.OK(t, err)
	m := Machine{Program: program, Name: "of-" + packageName(t), home: filepath.Join(dir, "s"), dir: dir}
	interrupts.note(m)
	return m
}

// packageName returns the folder of the test's package in the repository.
func packageName(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	must.OK(t, err)
	root, err := module.Root()
	must.OK(t, err)
	name, err := filepath.Rel(root, dir)
	must.OK(t, err)
	return filepath.ToSlash(name)
}

// account logs how long the test uses the lab.
func (m Machine) account(t *testing.T) {
	began := time.Now()
	t.Logf("lab %s: wanted", m.Name)
	t.Cleanup(func() { t.Logf("lab %s: used for %.1f s", m.Name, time.Since(began).Seconds()) })
}

// State returns the folder of the lab's state.
func (m Machine) State() string { return filepath.Join(m.home, "meshtrial", "lab") }

// Env returns the environment in which the program finds the lab.
func (m Machine) Env() []string {
	env := os.Environ()
	for name, value := range m.variables() {
		env = append(env, name+"="+value)
	}
	return env
}

func (m Machine) variables() map[string]string {
	return map[string]string{
		"XDG_STATE_HOME": m.home,
		"KUBECONFIG":     "",
	}
}

// use sets the environment of the test.
func (m Machine) use(t *testing.T) {
	t.Helper()
	for name, value := range m.variables() {
		t.Setenv(name, value)
	}
}

// remove takes the lab down, if there is one, and removes its folder.
func (m Machine) remove() error {
	err := m.down()
	interrupts.forget(m)
	return err
}

func (m Machine) down() error {
	if _, err := local.Down(context.Background(), m.State()); err != nil {
		return fmt.Errorf("take the lab down: %w", err)
	}
	if m.dir == "" {
		return os.RemoveAll(m.oursFile())
	}
	return os.RemoveAll(m.dir)
}

// Up starts the lab.
func (m Machine) Up(t *testing.T, args ...string) *local.Lab {
	t.Helper()
	began := time.Now()
	if code, out := m.Run(t, append([]string{"lab", "up"}, args...)...); code != 0 {
		t.Fatalf("lab up: exit code %d\n%s", code, out)
	}
	t.Logf("lab %s: up in %.1f s", m.Name, time.Since(began).Seconds())
	l, err := local.Open(m.State())
	must.OK(t, err)
	return l
}

// Command returns a call of the program that finds the lab.
func (m Machine) Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(m.Program, args...)
	cmd.Env = m.Env()
	return cmd
}

// Run runs the program and returns its exit code and all its output.
func (m Machine) Run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := m.Command(t, args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	}
	must.OK(t, err)
	return 0, string(out)
}

// Succeeds runs the program, which must succeed, and returns all its output.
func (m Machine) Succeeds(t *testing.T, args ...string) string {
	t.Helper()
	code, said := m.Run(t, args...)
	if code != 0 {
		t.Fatalf("%v: exit code %d\n%s", args, code, said)
	}
	return said
}

// Kubectl runs a lab's own kubectl and returns all its output.
func Kubectl(t *testing.T, l *local.Lab, input string, args ...string) string {
	t.Helper()
	state := filepath.Dir(l.Kubeconfig())
	cmd := exec.Command(filepath.Join(local.ToolsDir(state), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig())
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}
