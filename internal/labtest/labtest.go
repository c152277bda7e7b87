// Package labtest gives tests of other packages a real lab: the program that
// `make build` left starts one in a state folder of its own, and it is taken
// down at the end, of the test or, where a package's tests share one (see
// [Sharing]), of all of them. Where that cannot be (no root, no program) the
// test is skipped and says why.
package labtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/lab/local"
)

// Machine is what a test needs to start labs: the program, and a folder under
// which it keeps its state.
type Machine struct {
	Program string
	Dir     string // short, for the sake of sockets; removed with the lab
}

// New prepares a lab of the test's own without starting it. It sets the
// environment of the test, so that package local means that lab too.
// MESHTRIAL_PROGRAM names another program than the one built in bin.
func New(t *testing.T) Machine {
	t.Helper()
	m := prepare(t)
	m.use(t)
	t.Cleanup(func() {
		if err := m.remove(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// prepare makes the folder.
func prepare(t *testing.T) Machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a local lab takes root")
	}
	program := os.Getenv("MESHTRIAL_PROGRAM")
	if program == "" {
		program = filepath.Join(repository(t), "bin", "meshtrial")
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("no meshtrial program: %v; `make build` makes it", err)
	}
	dir, err := os.MkdirTemp("/tmp", "mm")
	if err != nil {
		t.Fatal(err)
	}
	m := Machine{Program: program, Dir: dir}
	interrupts.note(m)
	return m
}

// interruptible are the labs that an interrupt of the tests takes down: no
// test's end comes then. A program that is starting one is interrupted along
// and cleans up itself.
type interruptible struct {
	once     sync.Once
	mu       sync.Mutex
	machines map[string]Machine // by folder
}

var interrupts = interruptible{machines: map[string]Machine{}}

func (i *interruptible) note(m Machine) {
	i.mu.Lock()
	i.machines[m.Dir] = m
	i.mu.Unlock()
	i.once.Do(func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
		go func() { // as long as the tests
			<-signals
			i.mu.Lock()
			for _, m := range i.machines {
				if err := m.down(); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}
			os.Exit(errs.CodeInterrupted)
		}()
	})
}

func (i *interruptible) forget(m Machine) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.machines, m.Dir)
}

// use sets the environment of the test.
func (m Machine) use(t *testing.T) {
	t.Helper()
	t.Setenv("MESHTRIAL_SOURCE", filepath.Join(repository(t), "components", "src"))
	t.Setenv("XDG_STATE_HOME", m.home())
	t.Setenv("KUBECONFIG", "")
}

// home is XDG_STATE_HOME of the lab.
func (m Machine) home() string { return filepath.Join(m.Dir, "s") }

// remove takes the lab down, if there is one, and its folder away.
func (m Machine) remove() error {
	err := m.down()
	interrupts.forget(m)
	return err
}

func (m Machine) down() error {
	if _, err := local.Down(context.Background(), filepath.Join(m.home(), "meshtrial", "lab")); err != nil {
		return fmt.Errorf("take the lab down: %w", err)
	}
	return os.RemoveAll(m.Dir)
}

// shared is the lab that the tests of this process have in common.
var shared struct {
	on   bool
	args []string
	lab  *Machine // nil while there is none
}

// Tests runs a package's tests that share a lab; it is a *testing.M for
// whoever takes one.
type Tests struct{ m *testing.M }

// Sharing has the tests of a package that call [Start] or [Shared] share one
// lab, which the first of them starts with args and the last one's end takes
// down: they run in turn, and each must leave it as it found it. A test that
// fails takes it down, so that it spoils no other.
//
//	func TestMain(m *testing.M) { os.Exit(labtest.Sharing(m).Run()) }
func Sharing(m *testing.M, args ...string) Tests {
	shared.on, shared.args = true, args
	return Tests{m}
}

// Run implements testing.M.
func (s Tests) Run() int {
	code := s.m.Run()
	if err := dropShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

func dropShared() error {
	if shared.lab == nil {
		return nil
	}
	m := *shared.lab
	shared.lab = nil
	return m.remove()
}

// Shared is a lab that runs: the one that the package's tests share, or else
// one of the test's own, started with args.
func Shared(t *testing.T, args ...string) (Machine, *local.Lab) {
	t.Helper()
	if !shared.on {
		m := New(t)
		return m, m.Up(t, args...)
	}
	t.Cleanup(func() {
		if t.Failed() {
			if err := dropShared(); err != nil {
				t.Error(err)
			}
		}
	})
	if shared.lab == nil {
		m := prepare(t)
		shared.lab = &m
		m.use(t)
		return m, m.Up(t, shared.args...)
	}
	shared.lab.use(t)
	l, err := local.Open("")
	if err != nil {
		t.Fatalf("the lab that the tests share: %v", err)
	}
	return *shared.lab, l
}

// Start gives a lab as [Shared] does, or the one whose state folder
// MESHTRIAL_TEST_LAB names, which it leaves as it is: while a test is written
// that saves the wait.
func Start(t *testing.T) *local.Lab {
	t.Helper()
	if state := os.Getenv("MESHTRIAL_TEST_LAB"); state != "" {
		l, err := local.Open(state)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	_, l := Shared(t)
	return l
}

// goneTime bounds the wait for a namespace to go.
const goneTime = 4 * time.Minute

// Namespace has a namespace that the test makes taken away at its end, pods
// without their time to end, so that the lab's next test finds none of it.
func Namespace(t *testing.T, l *local.Lab, name string) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(l.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), goneTime)
		defer cancel()
		now := int64(0)
		namespaces := kube.CoreV1().Namespaces()
		for deleted := false; ; time.Sleep(100 * time.Millisecond) {
			var refused error // or not answered by a busy API server
			if !deleted {
				refused = errors.Join(kube.AppsV1().Deployments(name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
					kube.CoreV1().Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}),
					namespaces.Delete(ctx, name, metav1.DeleteOptions{}))
				deleted = refused == nil
			}
			_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return
			}
			if ctx.Err() != nil {
				t.Errorf("namespace %s does not go: %v", name, errors.Join(refused, err))
				return
			}
		}
	})
}

// Kubectl runs a lab's own kubectl and returns all it said.
func Kubectl(t *testing.T, l *local.Lab, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(local.ToolsDir(os.Getenv("MESHTRIAL_TEST_LAB")), "kubectl"), args...)
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
