package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// slowlyEnding is the environment variable that makes this test program a
// command whose end tests hold open.
const slowlyEnding = "MESHTRIAL_TEST_ENDING"

// endSlowly owes something (unless the variable says "nothing"), waits for its
// interrupt, and reverts what it owes when a line comes on stdin; then it
// makes the file that is its argument. It says each step on stdout.
func endSlowly() int {
	err := underSignals(os.Stderr, func(ctx context.Context) error {
		paid := func() {}
		if os.Getenv(slowlyEnding) != "nothing" {
			inner := ending.Owe(ctx, "the inner shelf", "")
			outer := ending.Owe(ctx, "the shop", "meshtrial cluster restore")
			paid = func() { inner(); outer() }
		}
		fmt.Println("at work")
		<-ctx.Done()
		fmt.Println("interrupted")
		fmt.Fprintln(os.Stderr, "reverting")
		lines := bufio.NewScanner(os.Stdin)
		if !lines.Scan() {
			return fmt.Errorf("nobody let it end: %v", lines.Err())
		}
		// Nobody may be there to read this.
		fmt.Println("all back")
		fmt.Fprintln(os.Stderr, "all back")
		if err := os.WriteFile(os.Args[1], nil, 0o600); err != nil {
			return err
		}
		paid()
		return ctx.Err()
	})
	return errs.Code(err)
}

// slow is such a command at work.
type slow struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	outEnd io.Closer
	stderr *bufio.Reader
	errEnd io.Closer
	back   string // the file that it makes once all is reverted
}

func startSlow(t *testing.T, owes string, attributes *syscall.SysProcAttr, wrapped ...string) *slow {
	t.Helper()
	program, err := os.Executable()
	must.OK(t, err)
	s := &slow{t: t, back: filepath.Join(t.TempDir(), "back")}
	args := append(wrapped, program, s.back)
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.SysProcAttr = attributes
	s.cmd.Env = append(os.Environ(), slowlyEnding+"="+owes)
	s.in, err = s.cmd.StdinPipe()
	must.OK(t, err)
	out, err := s.cmd.StdoutPipe()
	must.OK(t, err)
	stderr, err := s.cmd.StderrPipe()
	must.OK(t, err)
	s.out, s.outEnd, s.stderr, s.errEnd = bufio.NewReader(out), out, bufio.NewReader(stderr), stderr
	must.OK(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	s.reads(s.out, "at work")
	return s
}

func (s *slow) reads(from *bufio.Reader, want string) {
	s.t.Helper()
	if line, err := from.ReadString('\n'); err != nil || strings.TrimSuffix(line, "\n") != want {
		s.t.Fatalf("read %q, %v; want %q", line, err, want)
	}
}

func (s *slow) signal(signal syscall.Signal) {
	s.t.Helper()
	must.OK(s.t, s.cmd.Process.Signal(signal))
}

func (s *slow) interrupt(by syscall.Signal) {
	s.t.Helper()
	s.signal(by)
	s.reads(s.out, "interrupted")
	s.reads(s.stderr, "reverting")
}

// asks sends a second interrupt and reads what is said.
func (s *slow) asks(by syscall.Signal) {
	s.t.Helper()
	s.signal(by)
	for _, line := range []string{"meshtrial: interrupted; still to be reverted:", "  the shop", "  the inner shelf",
		"A third interrupt ends this at once and leaves the rest to `meshtrial cluster restore`."} {
		s.reads(s.stderr, line)
	}
}

// release lets the command end.
func (s *slow) release() {
	s.t.Helper()
	if _, err := io.WriteString(s.in, "end\n"); err != nil {
		s.t.Error(err)
	}
}

// ends waits until the command has ended, and checks how it did.
func (s *slow) ends(code int, wantBack bool) {
	s.t.Helper()
	err := s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("exit code %d (%v), want %d", got, err, code)
	}
	if _, err := os.Stat(s.back); (err == nil) != wantBack {
		s.t.Errorf("all was reverted: %v, want %v", err == nil, wantBack)
	}
}

// Each signal that asks a program to end has it revert what it changed.
func TestFirstInterrupt(t *testing.T) {
	for _, by := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(by.String(), func(t *testing.T) {
			if signal.Ignored(by) {
				t.Skip("these tests were started to outlive it")
			}
			s := startSlow(t, "something", nil)
			s.interrupt(by)
			s.release()
			s.ends(errs.CodeInterrupted, true)
		})
	}
}

// The second interrupt only says what goes on; nor does a terminal that goes
// count as one. Everything is reverted all the same.
func TestSecondInterrupt(t *testing.T) {
	s := startSlow(t, "something", nil)
	s.interrupt(syscall.SIGINT)
	s.signal(syscall.SIGHUP)
	s.asks(syscall.SIGTERM)
	s.signal(syscall.SIGHUP)
	s.release()
	s.ends(errs.CodeInterrupted, true)
}

// The third ends the program at once, and says what is left for whom.
func TestThirdInterrupt(t *testing.T) {
	s := startSlow(t, "something", nil)
	s.interrupt(syscall.SIGTERM)
	s.asks(syscall.SIGINT)
	s.signal(syscall.SIGINT)
	s.reads(s.stderr, "meshtrial: interrupted for the third time, which leaves: the shop, the inner shelf")
	s.reads(s.stderr, "  hint: `meshtrial cluster restore`")
	s.ends(errs.CodeInterrupted, false)
}

// A program that owes nothing ends by the second interrupt.
func TestSecondInterruptWithoutDebts(t *testing.T) {
	s := startSlow(t, "nothing", nil)
	s.interrupt(syscall.SIGINT)
	s.signal(syscall.SIGINT)
	s.ends(-1, false)
	if status := s.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGINT {
		t.Errorf("ended by %v", status)
	}
}

// So does the first process of a container, which the kernel shields from signals without a
// handler.
func TestSecondInterruptOfFirstProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces take root")
	}
	s := startSlow(t, "nothing", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	s.interrupt(syscall.SIGTERM)
	s.signal(syscall.SIGTERM)
	s.ends(errs.CodeInterrupted, false)
}

// Who reads along may go, as tee does at Ctrl-C: what is changed is reverted.
// A program that changed nothing ends as others do.
func TestNobodyReads(t *testing.T) {
	for owes, back := range map[string]bool{"something": true, "nothing": false} {
		t.Run(owes, func(t *testing.T) {
			s := startSlow(t, owes, nil)
			s.interrupt(syscall.SIGINT)
			s.outEnd.Close()
			s.errEnd.Close()
			s.release()
			code := -1
			if back {
				code = errs.CodeInterrupted
			}
			s.ends(code, back)
			if status := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !back && status.Signal() != syscall.SIGPIPE {
				t.Errorf("ended by %v", status)
			}
		})
	}
}

// A program that was started to outlive its terminal does.
func TestNohup(t *testing.T) {
	s := startSlow(t, "something", nil, "/bin/sh", "-c", `trap "" HUP; exec "$@"`, "sh")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil || !ignores(t, status, syscall.SIGHUP) {
		t.Errorf("SIGHUP is not ignored; %v", err)
	}
	s.interrupt(syscall.SIGINT)
	s.release()
	s.ends(errs.CodeInterrupted, true)
}

// Children of a program that outlives its readers die of SIGPIPE as any do.
func TestOutlivePipesIsNotInherited(t *testing.T) {
	outlivePipes()
	cmd := exec.Command("cat", "/proc/self/status")
	out, err := cmd.Output()
	must.OK(t, err)
	if ignores(t, out, syscall.SIGPIPE) {
		t.Error("a child ignores SIGPIPE")
	}
}

// ignores tells whether a process of this /proc/PID/status ignores a signal.
func ignores(t *testing.T, status []byte, signal syscall.Signal) bool {
	t.Helper()
	_, rest, _ := strings.Cut(string(status), "\nSigIgn:")
	var mask uint64
	if _, err := fmt.Sscanf(rest, "%x", &mask); err != nil {
		t.Fatalf("%v in %q", err, status)
	}
	return mask>>(uint(signal)-1)&1 == 1
}
