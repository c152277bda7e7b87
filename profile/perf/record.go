package perf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/profile"
)

// Ways to find out who called whom.
const (
	GraphFP    = "fp"    // by frame pointers: cheap; needs a program built with them
	GraphDwarf = "dwarf" // by copies of stacks: dear, and as good as the debug information
	GraphNone  = "none"
)

// Bounds of a recording.
const (
	DefaultHz  = 99 // not in step with what happens a hundred times a second
	MaxHz      = 10_000
	MaxSeconds = 3600
	maxPIDs    = 1000
)

// Options say what to record.
type Options struct {
	PIDs   []int
	Hz     int // samples a second of each thread's CPU time
	Length time.Duration
	Graph  string
	// Started is called when perf samples; it may be nil.
	Started func()
}

// Recording is what perf took.
type Recording struct {
	Profile *profile.Profile
	// Files are the binaries at hand, by their path in the profile.
	Files   map[string]profile.ELF
	Seconds float64 // that perf sampled
	// Ended says that the processes ended before the time was over.
	Ended bool
}

// Check says what is wrong with options.
func (o Options) Check() error {
	switch {
	case len(o.PIDs) == 0 || len(o.PIDs) > maxPIDs:
		return fmt.Errorf("%d processes to profile, it must be 1 to %d", len(o.PIDs), maxPIDs)
	case slices.ContainsFunc(o.PIDs, func(pid int) bool { return pid <= 0 }):
		return fmt.Errorf("process numbers are above 0")
	case o.Hz < 1 || o.Hz > MaxHz:
		return fmt.Errorf("%d samples a second, it must be 1 to %d", o.Hz, MaxHz)
	case o.Length <= 0 || o.Length > MaxSeconds*time.Second:
		return fmt.Errorf("a profile of %v, it must be above 0 and at most %d s", o.Length, MaxSeconds)
	case o.Graph != GraphFP && o.Graph != GraphDwarf && o.Graph != GraphNone:
		return fmt.Errorf("call graph %q, it must be fp, dwarf or none", o.Graph)
	}
	return nil
}

// Record samples processes by their CPU clock. It returns what there is if
// they end before, and an error that wraps one of this package's if perf
// cannot be had.
func (t Tool) Record(ctx context.Context, o Options) (Recording, error) {
	var out Recording
	if err := o.Check(); err != nil {
		return out, errs.WithCode(err, errs.CodeUsage)
	}
	path, err := t.find()
	if err != nil {
		return out, err
	}
	here, there, err := t.temp()
	if err != nil {
		return out, fmt.Errorf("profile: %w", err)
	}
	defer os.RemoveAll(here)
	if out.Seconds, out.Ended, err = t.record(ctx, path, filepath.Join(there, "perf.data"), o); err != nil {
		return out, err
	}
	out.Profile, err = t.script(ctx, path, filepath.Join(there, "perf.data"))
	if errors.Is(err, profile.ErrFormat) && ctx.Err() == nil {
		// Nothing ran: an empty profile is an answer.
		out.Profile, err = profile.New(profile.KindCPU, profile.UnitNanoseconds), nil
		out.Profile.Notes = append(out.Profile.Notes, "perf took no sample: the processes used no CPU")
	}
	if err != nil {
		return out, err
	}
	if out.Ended {
		out.Profile.Notes = append(out.Profile.Notes, fmt.Sprintf("the processes ended after %.1f s of %.1f s", out.Seconds, o.Length.Seconds()))
	}
	roots := []string{}
	for _, pid := range o.PIDs {
		roots = append(roots, fmt.Sprintf("/proc/%d/root", pid))
	}
	out.Files = lookAt(out.Profile, append(roots, t.root()))
	return out, nil
}

// startTime is how long perf may take to begin.
const startTime = 30 * time.Second

// record has perf write a file. perf begins when told over a pipe, and says
// when it has, so that the time is that of the sampling.
func (t Tool) record(ctx context.Context, path, file string, o Options) (seconds float64, ended bool, err error) {
	ctlOut, ctlIn, err := os.Pipe()
	if err != nil {
		return 0, false, err
	}
	defer ctlIn.Close()
	ackOut, ackIn, err := os.Pipe()
	if err != nil {
		ctlOut.Close()
		return 0, false, err
	}
	defer ackOut.Close()
	pids := make([]string, len(o.PIDs))
	for i, pid := range o.PIDs {
		pids[i] = strconv.Itoa(pid)
	}
	args := []string{"record", "--event", "cpu-clock", "--freq", strconv.Itoa(o.Hz), "--no-buildid-cache",
		"--control", "fd:3,4", "--delay", "-1", "--output", file, "--pid", strings.Join(pids, ",")}
	switch o.Graph {
	case GraphFP:
		args = append(args, "--call-graph", "fp")
	case GraphDwarf:
		args = append(args, "--call-graph", "dwarf,16384")
	}
	p, err := t.start(ctx, path, []*os.File{ctlOut, ackIn}, args...)
	ctlOut.Close()
	ackIn.Close()
	if err != nil {
		return 0, false, err
	}
	done := make(chan error, 1)
	go func() {
		// Nothing is printed, but reading is how Wait learns of the end.
		_, _ = bufio.NewReader(p.stdout).WriteTo(&p.stderr)
		done <- p.wait()
	}()
	if _, err := ctlIn.WriteString("enable\n"); err != nil {
		return 0, false, p.failed(errors.Join(err, <-done))
	}
	// The reader ends when perf acknowledges, or with perf.
	acked := make(chan error, 1)
	go func() {
		_, err := ackOut.Read(make([]byte, 16))
		acked <- err
	}()
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	stop := func(signal syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, signal) }
	select {
	case err := <-acked:
		if err != nil {
			err = <-done
			if ctx.Err() != nil {
				return 0, false, ctx.Err()
			}
			return 0, false, p.failed(err)
		}
	case <-limit.C:
		stop(syscall.SIGKILL)
		return 0, false, fmt.Errorf("perf did not begin within %v: %w", startTime, p.failed(<-done))
	}
	begin := time.Now()
	if o.Started != nil {
		o.Started()
	}
	timer := time.NewTimer(o.Length)
	defer timer.Stop()
	select {
	case err = <-done:
		ended = true
	case <-timer.C:
		seconds = time.Since(begin).Seconds()
		stop(syscall.SIGINT)
		err = <-done
	}
	if ctx.Err() != nil {
		return 0, false, ctx.Err()
	}
	if ended {
		seconds = time.Since(begin).Seconds()
	}
	var exit *exitError
	if errors.As(err, &exit) && (ended && exit.ExitCode() == 0 || interrupted(exit)) {
		err = nil
	}
	if err != nil {
		return 0, false, p.failed(err)
	}
	return seconds, ended, nil
}
