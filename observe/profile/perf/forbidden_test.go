package perf_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile/perf"
	"github.com/meshtrial/meshtrial/testing/must"
)

// nobody is a user without rights.
const nobody = 65534

// forbiddenPID is the process to profile, for the test started as another user.
const forbiddenPID = "MESHTRIAL_FORBIDDEN_PID"

// Without permission for a process the error is ErrForbidden, with a hint.
func TestForbidden(t *testing.T) {
	if pid, err := strconv.Atoi(os.Getenv(forbiddenPID)); err == nil {
		_, err := perf.Tool{Temp: "/tmp"}.Record(t.Context(),
			perf.Options{PIDs: []int{pid}, Hz: 99, Length: time.Second, Graph: perf.GraphFP})
		if !errors.Is(err, perf.ErrForbidden) || errs.Hint(err) == "" {
			t.Errorf("%v, hint %q", err, errs.Hint(err))
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root becomes another user")
	}
	needPerf(t)
	// The test's own program may be in a directory that other users cannot
	// access.
	self, err := os.Open("/proc/self/exe")
	must.OK(t, err)
	defer self.Close()
	dir := t.TempDir()
	must.OK(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)))
	program, err := os.OpenFile(filepath.Join(dir, "test"), os.O_CREATE|os.O_WRONLY, 0o755)
	must.OK(t, err)
	_, err = io.Copy(program, self)
	must.OK(t, errors.Join(err, program.Chmod(0o755), program.Close()))
	cmd := exec.Command(program.Name(), "-test.run=^TestForbidden$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), forbiddenPID+"="+strconv.Itoa(os.Getpid()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestForbidden") {
		t.Errorf("%v\n%s", err, out)
	}
}
