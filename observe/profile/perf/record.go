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

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"golang.org/x/sys/unix"
)

// Ways to find callers.
const (
	GraphFP    = "fp"    // by frame pointers: cheap; needs a program built with them
	GraphDwarf = "dwarf" // by copies of stacks: expensive; needs debug information
	GraphNone  = "none"
)

// Bounds of a recording.
const (
	DefaultHz  = 99 // not in step with timers of 100 Hz
	MaxHz      = 10_000
	MaxSeconds = 3600
	maxPIDs    = 1000
	// DefaultMaxBytes bounds perf's file, which is on the node's own disk:
	// where that is full, pods are evicted.
	DefaultMaxBytes = record.MaxRecording
)

// Options say what to record.
type Options struct {
	PIDs   []int
	Hz     int // samples per second of each thread's CPU time
	Length time.Duration
	Graph  string
	// Started is called when perf samples; it may be nil.
	Started func()
}

// Recording is what perf took.
type Recording struct {
	Profile *profile.Profile
	Files   map[string]profile.ELF // binaries at hand, by their path in the profile
	Seconds float64                // that perf sampled
	Ended   bool                   // the processes ended before the time was over
	Full    bool                   // perf's file reached its bound before the time was over
}

// Check finds invalid options.
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
// what there is. The error wraps one of this package's if perf cannot be used.
//
// If it may, and its file has room, perf samples the CPUs, and Record keeps
// what belongs to the processes, without those that they start meanwhile. An
// event of a thread starts and stops a timer at each context switch, which
// costs a loaded proxy some percent of its CPU; an event of a CPU does not.
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
		// Nothing ran: an empty profile is an answer.
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

// startTime is how long perf may take to begin.
const startTime = 30 * time.Second

// pollTime is how often the size of perf's file is checked.
const pollTime = 100 * time.Millisecond

// dataFile is the path of perf's file, seen from this process and from perf.
type dataFile struct{ here, there string }

func (f dataFile) size() int64 {
	info, err := os.Lstat(f.here)
	if err != nil {
		return 0
	}
	return info.Size()
}

// sampleBytes is about what a sample with a deep stack takes in perf's file.
const sampleBytes = 1000

// fitsWide reports whether perf's file would hold samples of all that runs:
// copies of all stacks would be too many, and so may be long profiles on many
// CPUs.
func (o Options) fitsWide(cpus int, maxBytes int64) bool {
	return o.Graph != GraphDwarf && float64(cpus)*float64(o.Hz)*o.Length.Seconds()*sampleBytes <= float64(maxBytes)
}

// pidList writes processes as perf's options have them.
func pidList(pids []int) string {
	words := make([]string, len(pids))
	for i, pid := range pids {
		words[i] = strconv.Itoa(pid)
	}
	return strings.Join(words, ",")
}

// arguments are perf record's. Its workload sleeps: perf ends with it even if
// nobody is left to stop perf. Idle CPUs are not sampled.
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

// record has perf write a file, of the processes or, if wide, of all that runs.
// perf begins on a command over a pipe and acknowledges it, so that the time is
// that of the sampling.
func (t Tool) record(ctx context.Context, path string, file dataFile, o Options, wide bool, out *Recording) error {
	var processes pidfds // perf itself ends with the processes unless it is wide
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
		// Nothing is printed, but reading is how Wait learns of the end.
		_, _ = bufio.NewReader(p.stdout).WriteTo(&p.stderr)
		done <- p.wait()
	}()
	if _, err := ctlIn.WriteString("enable\n"); err != nil {
		return p.failed(errors.Join(err, <-done))
	}
	// The reader ends when perf acknowledges, or with perf.
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

// Why sampling ended.
type endedBy int

const (
	endedTime endedBy = iota
	endedFull
	endedProcesses
	endedPerf // with the processes, or with an error
)

// until waits until the time is over, perf's file is full, the processes have
// ended, or perf has.
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

// pidfds watch processes; see pidfd_open(2).
type pidfds []int

// openPidfds watches processes. The error wraps [ErrGone] if one has ended.
func openPidfds(pids []int) (pidfds, error) {
	var out pidfds
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			out.Close()
			if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: a thread
				return nil, errs.WithHint(fmt.Errorf("%w: %d", ErrGone, pid), "is it running, and on this machine?")
			}
			// If this process cannot watch it, perf may.
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

// ended reports whether all have ended, if there are any.
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
