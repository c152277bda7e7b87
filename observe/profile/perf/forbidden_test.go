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
)

// nobody is the user whom nothing belongs to.
const nobody = 65534

// forbiddenPID tells the test, started again as another user, whom to profile.
const forbiddenPID = "MESHTRIAL_FORBIDDEN_PID"

// Who may not look at a process is told so by the real perf, and what to do.
func TestForbidden(t *testing.T) {
	if pid, err := strconv.Atoi(os.Getenv(forbiddenPID)); err == nil {
		_, err := perf.Tool{Temp: "/tmp"}.Record(t.Context(), perf.Options{PIDs: []int{pid}, Hz: 99, Length: time.Second, Graph: perf.GraphFP})
		if !errors.Is(err, perf.ErrForbidden) || !strings.Contains(errs.Hint(err), "perf_event_paranoid") {
			t.Errorf("%v, hint %q", err, errs.Hint(err))
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root becomes another user")
	}
	needPerf(t)
	// The test's own program may lie where others cannot look.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(filepath.Join(dir, "test"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(program, self)
	if err := errors.Join(err, program.Chmod(0o755), program.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program.Name(), "-test.run=^TestForbidden$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), forbiddenPID+"="+strconv.Itoa(os.Getpid()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestForbidden") {
		t.Errorf("%v\n%s", err, out)
	}
}
