package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// endTime is how long an interrupted command may take to end its labs.
const endTime = 2 * time.Minute

// runner runs lanes.
type runner struct {
	out     io.Writer
	program string
	labs    string // folder of the lanes' labs
	env     []string
}

// stage runs lanes in parallel and returns the result of each.
func (r *runner) stage(ctx context.Context, lanes []lane) []*tally {
	tallies := make([]*tally, len(lanes))
	var running sync.WaitGroup
	for i, l := range lanes {
		tallies[i] = newTally(r.out)
		running.Go(func() { r.lane(ctx, l, tallies[i]) })
	}
	running.Wait()
	return tallies
}

// lane runs jobs in turn, then takes down the lab that they shared.
func (r *runner) lane(ctx context.Context, l lane, t *tally) {
	env := slices.Clone(r.env)
	home := filepath.Join(r.labs, l.name)
	if l.lab {
		env = append(env, "MESHTRIAL_TEST_LAB="+filepath.Join(home, "meshtrial", "lab"))
	}
	for _, j := range l.jobs {
		if j.yield = l.yield; j.yield {
			j.command = append(slices.Clone(givingWay), j.command...)
		}
		if ctx.Err() == nil {
			r.job(ctx, j, env, t)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "meshtrial", "lab")); err == nil {
		t.step("lab "+l.name, r.down(context.WithoutCancel(ctx), home))
	}
}

// givingWay runs the following command with the lowest share of the CPU. If the kernel
// groups processes by session, the session's share counts, and a process's own only
// within its session.
var givingWay = []string{"sh", "-c", `[ ! -w /proc/self/autogroup ] || echo 19 >/proc/self/autogroup; exec nice -n 19 "$@"`, "sh"}

// job runs one command.
func (r *runner) job(ctx context.Context, j job, env []string, t *tally) {
	if j.needs != "" {
		if _, err := exec.LookPath(j.needs); err != nil {
			t.skipped = append(t.skipped, result{pkg: j.name, reason: j.needs + " is not installed"})
			return
		}
	}
	if j.events {
		t.goTest(ctx, j, env)
		return
	}
	began := time.Now()
	var said bytes.Buffer
	cmd := j.start(ctx, env)
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if why := notRun.FindSubmatch(said.Bytes()); why != nil && err == nil {
		t.skipped = append(t.skipped, result{pkg: j.name, reason: string(why[1])})
		return
	}
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(j.command, " "), err, &said)
	}
	t.timed(j.name, err, time.Since(began))
}

// notRun matches a step's message that it did nothing, and why.
var notRun = regexp.MustCompile(`(?m)^not run: (.*)$`)

// down takes a lane's lab down, checks that its folder confirms that, and removes it.
func (r *runner) down(ctx context.Context, home string) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if said, err := command(ctx, []string{r.program, "lab", "down"}, append(slices.Clone(r.env), "XDG_STATE_HOME="+home)).CombinedOutput(); err != nil {
		return fmt.Errorf("lab down: %w\n%s", err, said)
	}
	left, err := os.ReadDir(filepath.Join(home, "meshtrial", "lab"))
	if err != nil {
		return err
	}
	for _, entry := range left {
		if entry.Name() != "lock" {
			return fmt.Errorf("lab down leaves %s in its folder", entry.Name())
		}
	}
	return os.RemoveAll(home)
}

// alone reruns tests of one package with a separate lab.
func (r *runner) alone(ctx context.Context, mode, pkg string, names []string) *tally {
	fmt.Fprintf(r.out, "once more, alone: %s %s\n", short(pkg), strings.Join(names, " "))
	t := newTally(r.out)
	t.goTest(ctx, goTest("", []string{short(pkg)}, "-tags", tags(mode), "-count=1", "-run", only(names)), r.env)
	return t
}

// goTest runs a command that prints the events of go test -json.
func (t *tally) goTest(ctx context.Context, j job, env []string) {
	cmd, before := j.start(ctx, env), len(t.failed)
	clear(t.expired)
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	done := make(chan error, 1)
	go func() {
		done <- t.read(read)
		_, _ = io.Copy(io.Discard, read) // drain it so that the command ends
	}()
	err := cmd.Run()
	write.Close()
	if failed := <-done; failed != nil {
		err = failed
	}
	// Exit code 1 means failed tests, which the events report.
	if err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 || len(t.failed) == before && len(t.expired) == 0) {
		t.step(strings.Join(j.command[:min(len(j.command), 8)], " "), err)
	}
}

// start returns the command of a job, in a separate session if it yields.
func (j job) start(ctx context.Context, env []string) *exec.Cmd {
	cmd := command(ctx, j.command, env)
	if j.yield {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // which is a process group, too
	}
	return cmd
}

// command returns a command in its own process group, which is interrupted when ctx is.
func command(ctx context.Context, args, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = endTime
	return cmd
}

// lines lets several writers write whole lines.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}
