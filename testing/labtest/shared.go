package labtest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/must"
)

const (
	// labVariable names the state folder of a lab for all tests that do not need a
	// separate one. If none runs there, a test starts one, which stays for the
	// next test or the next package.
	labVariable = "MESHTRIAL_TEST_LAB"
	// seedVariable repeats a test's random choices.
	seedVariable = "MESHTRIAL_SEED"
	// OtherEnvoy is a version that shared labs have in addition to the default
	// one.
	OtherEnvoy = "1.39.0"
	// oursFile marks, next to its state, a lab in labVariable that a test has
	// started and that a test may therefore take down.
	oursFile = "lab-started-by-a-test"
)

// shared is the lab that the tests of this process share.
var shared struct {
	mu     sync.Mutex
	on     bool     // set by Sharing or labVariable
	lab    *Machine // nil if there is none
	users  int      // tests that use it
	spoilt bool     // one of them failed: the last one takes it down
}

// Tests runs a package's tests that share a lab. It stands in for *testing.M.
type Tests struct{ m *testing.M }

// Sharing makes the tests of a package that call [Start] or [Shared] share one
// lab. The first of them starts it, and it is taken down after the last: each must
// leave it as it found it. A failed test takes it down, so that it does not affect
// others.
//
//	func TestMain(m *testing.M) { os.Exit(labtest.Sharing(m).Run()) }
func Sharing(m *testing.M) Tests {
	shared.on = true
	return Tests{m}
}

// Run implements testing.M.
func (s Tests) Run() int {
	code := s.m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if m := shared.lab; m != nil && m.dir != "" {
		if err := m.remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// Start returns the lab of [Shared], and sets the test's environment so that
// package local and commands run inside the test use that lab.
func Start(t *testing.T) *local.Lab {
	t.Helper()
	m, l := Shared(t)
	m.use(t)
	return l
}

// Shared returns a running lab: the one in labVariable, the one that the package's
// tests share, or else one only for the test.
func Shared(t *testing.T) (Machine, *local.Lab) {
	t.Helper()
	handed := os.Getenv(labVariable)
	if !shared.on && handed == "" {
		m := New(t)
		return m, m.Up(t, "--envoy", OtherEnvoy)
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	t.Cleanup(func() { leave(t) })
	shared.users++
	if shared.lab == nil {
		m := prepared(t, handed)
		shared.lab = &m
	}
	m := *shared.lab
	m.account(t)
	l, err := local.Open(m.State())
	if errors.Is(err, local.ErrNotRunning) {
		l, err = m.start(t), nil
	}
	if err != nil {
		t.Fatalf("lab %s: %v", m.Name, err)
	}
	return m, l
}

// prepared returns a machine for the lab of a state folder, or without one for a
// lab of the package.
func prepared(t *testing.T, state string) Machine {
	t.Helper()
	if state == "" {
		return prepare(t)
	}
	home := filepath.Dir(filepath.Dir(state))
	m := Machine{Program: Program(t), Name: filepath.Base(home), home: home}
	if state != m.State() {
		t.Fatalf("%s=%s: the state folder of a lab ends in meshtrial/lab (meshtrial lab status --json tells it)", labVariable, state)
	}
	running, err := local.Open(state)
	if err != nil {
		return m // there is none
	}
	switch old, err := running.StartedByOther(m.Program); {
	case err != nil:
		t.Fatal(err)
	case !old:
	case m.ours():
		must.OK(t, m.down())
	default:
		t.Fatalf("the lab in %s was started by another build of meshtrial than %s: take it down, and the test starts one", state, m.Program)
	}
	return m
}

// start starts the shared lab.
func (m Machine) start(t *testing.T) *local.Lab {
	t.Helper()
	if m.dir == "" {
		must.OK(t, os.MkdirAll(filepath.Dir(m.oursFile()), 0o700))
		must.OK(t, os.WriteFile(m.oursFile(), nil, 0o600))
	}
	return m.Up(t, "--envoy", OtherEnvoy)
}

func (m Machine) oursFile() string { return filepath.Join(m.home, "meshtrial", oursFile) }

// ours reports whether a test has started the lab.
func (m Machine) ours() bool {
	_, err := os.Stat(m.oursFile())
	return m.dir != "" || !errors.Is(err, fs.ErrNotExist)
}

// leave ends a test's use of the shared lab.
func leave(t *testing.T) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.users--
	shared.spoilt = shared.spoilt || t.Failed()
	if !shared.spoilt || shared.users > 0 || shared.lab == nil || !shared.lab.ours() {
		return
	}
	m := *shared.lab
	shared.lab, shared.spoilt = nil, false
	if err := m.remove(); err != nil {
		t.Error(err)
	}
}

// Seed returns the seed of a test's random choices: a new one each time unless
// MESHTRIAL_SEED sets it, and a different one for each test.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, t.Name())
	return h.Sum64()
}
