package perf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
)

// Ways to find callers.
const (
	GraphFP    = "fp"    // by frame pointers: cheap; needs a program built with them
	GraphDwarf = "dwarf" // by copies of stacks: expensive; needs debug information
	GraphNone  = "none"
)

// Limits of a recording.
const (
	DefaultHz  = 99 // avoids lockstep with 100 Hz timers
	MaxHz      = 10_000
	MaxSeconds = 3600
	maxPIDs    = 1000
	// DefaultMaxBytes limits perf's file, which is on the node's own disk: if
	// that is full, pods are evicted.
	DefaultMaxBytes = record.MaxRecording
)

// Options says what to record.
type Options struct {
	PIDs   []int
	Hz     int // samples per second of each thread's CPU time
	Length time.Duration
	Graph  string
	// Started is called when perf starts sampling; it may be nil.
	Started func()
}

// Recording is the result of perf.
type Recording struct {
	Profile *profile.Profile
	Files   map[string]profile.ELF // available binaries, by their path in the profile
	Seconds float64                // duration of sampling
	Ended   bool                   // the processes ended early
	Full    bool                   // perf's file reached its limit early
}

// Check rejects invalid options.
func (o Options) Check() error {
	switch {
	case len(o.PIDs) == 0 || len(o.PIDs) > maxPIDs:
		return fmt.Errorf("%d processes to profile, it must be 1 to %d", len(o.PIDs), maxPIDs)
	case slices.ContainsFunc(o.PIDs, func(pid int) bool { return pid <= 0 }):
		return fmt.Errorf("process numbers are above 0")
	case o.Hz < 1 || o.Hz > MaxHz:
		return fmt.Errorf("%d samples per second, it must be 1 to %d", o.Hz, MaxHz)
	case o.Length <= 0 || o.Length > MaxSeconds*time.Second:
		return fmt.Errorf("a profile of %v, it must be above 0 and at most %d s", o.Length, MaxSeconds)
	case o.Graph == GraphDwarf && record.CopiesOfStacks(o.Hz, o.Length) > DefaultMaxBytes:
		return errors.New(record.TooManyCopies(o.Hz, o.Length))
	case o.Graph != GraphFP && o.Graph != GraphDwarf && o.Graph != GraphNone:
		return fmt.Errorf("call graph %q, it must be fp, dwarf or none", o.Graph)
	}
	return nil
}

// Record samples processes by their CPU clock. If they end early it returns
// what was recorded. The error wraps one of this package's errors if perf
// cannot be used.
//
// If permissions and file size allow, perf samples all CPUs, and Record keeps
// the samples of the processes, excluding those that they start in the
// meantime. A per-thread event starts and stops a timer at each context switch,
// which costs a loaded proxy a few percent of its CPU; a per-CPU event does
// not.
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
	roots := rootsOf(o.PIDs)
	defer roots.Close()
	files := dataFile{here: filepath.Join(here, "perf.data"), there: filepath.Join(there, "perf.data")}
	wide := os.Geteuid() == 0 && o.fitsWide(runtime.NumCPU(), t.maxBytes())
	err = t.record(ctx, path, files, o, wide, &out)
	if wide && errors.Is(err, ErrForbidden) && ctx.Err() == nil {
		out = Recording{}
		err = t.record(ctx, path, files, o, false, &out)
	}
	if err != nil {
		return out, err
	}
	out.Profile, out.Files, err = t.script(ctx, path, files.there, o.PIDs, roots)
	if errors.Is(err, profile.ErrFormat) && ctx.Err() == nil {
		// Nothing ran, so an empty profile is correct.
		out.Profile, err = profile.New(profile.KindCPU, profile.UnitNanoseconds), nil
		out.Profile.Notes = append(out.Profile.Notes, "perf took no sample: the processes used no CPU")
	}
	if err != nil {
		return out, err
	}
	spent := fmt.Sprintf("after %.1f s of %.1f s", out.Seconds, o.Length.Seconds())
	switch {
	case out.Full:
		out.Profile.Notes = append(out.Profile.Notes, fmt.Sprintf("perf's file had reached %d MiB %s, and perf was stopped: "+
			"take fewer samples per second, or another call graph", t.maxBytes()>>20, spent))
	case out.Ended:
		out.Profile.Notes = append(out.Profile.Notes, "the processes ended "+spent)
	}
	if o.Graph == GraphFP {
		out.Profile.NoteCallers()
	}
	return out, nil
}

// startTime is how long perf may take to start.
const startTime = 30 * time.Second

// pollTime is the interval between checks of the size of perf's file.
const pollTime = 100 * time.Millisecond

// dataFile is the path of perf's file, as seen from this process and from perf.
type dataFile struct{ here, there string }

func (f dataFile) size() int64 {
	info, err := os.Lstat(f.here)
	if err != nil {
		return 0
	}
	return info.Size()
}

// sampleBytes is the approximate size of a sample with a deep stack in perf's
// file.
const sampleBytes = 1000

// fitsWide reports whether perf's file can hold samples of everything that
// runs. Copies of all stacks would be too large, and so may be long profiles on
// many CPUs.
func (o Options) fitsWide(cpus int, maxBytes int64) bool {
	return o.Graph != GraphDwarf && float64(cpus)*float64(o.Hz)*o.Length.Seconds()*sampleBytes <= float64(maxBytes)
}

// pidList formats processes for perf's options.
func pidList(pids []int) string {
	words := make([]string, len(pids))
	for i, pid := range pids {
		words[i] = strconv.Itoa(pid)
	}
	return strings.Join(words, ",")
}

// arguments returns the arguments of perf record. Its workload is a sleep, so
// that perf ends even if nothing is left to stop it. Idle CPUs are not sampled.
func (o Options) arguments(file string, wide bool) []string {
	args := []string{"record", "--freq", strconv.Itoa(o.Hz), "--no-buildid-cache", "--control", "fd:3,4", "--delay", "-1",
		"--output", file}
	if wide {
		args = append(args, "--event", "cpu-clock:I", "--all-cpus")
	} else {
		args = append(args, "--event", "cpu-clock", "--pid", pidList(o.PIDs))
	}
	switch o.Graph {
	case GraphFP:
		args = append(args, "--call-graph", "fp")
	case GraphDwarf:
		args = append(args, "--call-graph", "dwarf,"+strconv.Itoa(record.StackCopy))
	}
	return append(args, "--", "sleep", strconv.Itoa(int(math.Ceil((o.Length + startTime).Seconds()))))
}

// record makes perf write a file, of the processes or, if wide, of everything
// that runs. perf starts on a command over a pipe and acknowledges it, so the
// measured time is the sampling time.
func (t Tool) record(ctx context.Context, path string, file dataFile, o Options, wide bool, out *Recording) error {
	var processes pidfds // unless it is wide, perf itself ends with the processes
	if wide {
		var err error
		if processes, err = openPidfds(o.PIDs); err != nil {
			return err
		}
		defer processes.Close()
	}
	ctlOut, ctlIn, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ctlIn.Close()
	ackOut, ackIn, err := os.Pipe()
	if err != nil {
		ctlOut.Close()
		return err
	}
	defer ackOut.Close()
	p, err := t.start(ctx, path, []*os.File{ctlOut, ackIn}, o.arguments(file.there, wide)...)
	ctlOut.Close()
	ackIn.Close()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		// Nothing is printed, but Wait detects the end by reading.
		_, _ = bufio.NewReader(p.stdout).WriteTo(&p.stderr)
		done <- p.cmd.Wait()
	}()
	if _, err := ctlIn.WriteString("enable\n"); err != nil {
		return p.failed(errors.Join(err, <-done))
	}
	// The reader ends when perf acknowledges, or exits.
	acked := make(chan error, 1)
	go func() {
		_, err := ackOut.Read(make([]byte, 16))
		acked <- err
	}()
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	select {
	case err := <-acked:
		if err != nil {
			err = <-done
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return p.failed(err)
		}
	case <-limit.C:
		_ = p.signal(syscall.SIGKILL)
		return fmt.Errorf("perf did not begin within %v: %w", startTime, p.failed(<-done))
	}
	begin := time.Now()
	if o.Started != nil {
		o.Started()
	}
	why, err := t.until(done, file, o.Length, processes)
	out.Seconds = time.Since(begin).Seconds()
	out.Ended, out.Full = why == endedPerf || why == endedProcesses, why == endedFull
	if why != endedPerf {
		_ = p.signal(syscall.SIGINT)
		err = <-done
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && (out.Ended && exit.ExitCode() == 0 || interrupted(exit)) {
		err = nil
	}
	if err != nil {
		return p.failed(err)
	}
	return nil
}

// The reason why sampling ended.
type endedBy int

const (
	endedTime endedBy = iota
	endedFull
	endedProcesses
	endedPerf // perf itself ended, with the processes or with an error
)

// until waits until the time is over, perf's file is full, the processes have
// ended, or perf has exited.
func (t Tool) until(done <-chan error, file dataFile, length time.Duration, processes pidfds) (endedBy, error) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	for {
		select {
		case err := <-done:
			return endedPerf, err
		case <-timer.C:
			return endedTime, nil
		case <-poll.C:
			if file.size() >= t.maxBytes() {
				return endedFull, nil
			}
			if processes.ended() {
				return endedProcesses, nil
			}
		}
	}
}

// pidfds watches processes; see pidfd_open(2).
type pidfds []int

// openPidfds starts watching processes. The error wraps [ErrGone] if one has
// ended.
func openPidfds(pids []int) (pidfds, error) {
	var out pidfds
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			out.Close()
			if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: a thread
				return nil, errs.WithHint(fmt.Errorf("%w: %d", ErrGone, pid), "is it running, and on this machine?")
			}
			// If this process cannot watch it, perf may still be able to.
			return nil, fmt.Errorf("%w: watch process %d: %w", ErrForbidden, pid, err)
		}
		out = append(out, fd)
	}
	return out, nil
}

func (p pidfds) Close() {
	for _, fd := range p {
		_ = unix.Close(fd)
	}
}

// ended reports whether there are any processes and all have ended.
func (p pidfds) ended() bool {
	if len(p) == 0 {
		return false
	}
	polls := make([]unix.PollFd, len(p))
	for i, fd := range p {
		polls[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	n, err := unix.Poll(polls, 0)
	return err == nil && n == len(p)
}
