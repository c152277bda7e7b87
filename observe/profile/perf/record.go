package perf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile"
	"golang.org/x/sys/unix"
)

// Ways to find out who called whom.
const (
	GraphFP    = "fp"    // by frame pointers: cheap; needs a program built with them
	GraphDwarf = "dwarf" // by copies of stacks: dear, and as good as the debug information
	GraphNone  = "none"
)

// Bounds of a recording.
const (
	DefaultHz  = 99 // not in step with what happens a hundred times per second
	MaxHz      = 10_000
	MaxSeconds = 3600
	maxPIDs    = 1000
	// DefaultMaxBytes bounds perf's file, which lies on the machine's own
	// disk: where a node's is full, pods are evicted.
	DefaultMaxBytes = profile.MaxRecording
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
	// Files are the binaries at hand, by their path in the profile.
	Files   map[string]profile.ELF
	Seconds float64 // that perf sampled
	// Ended says that the processes ended before the time was over.
	Ended bool
	// Full says that perf's file had reached its bound before.
	Full bool
}

// Check says what is wrong with options.
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
	case o.Graph == GraphDwarf && profile.CopiesOfStacks(o.Hz, o.Length) > DefaultMaxBytes:
		return errors.New(profile.TooManyCopies(o.Hz, o.Length))
	case o.Graph != GraphFP && o.Graph != GraphDwarf && o.Graph != GraphNone:
		return fmt.Errorf("call graph %q, it must be fp, dwarf or none", o.Graph)
	}
	return nil
}

// Record samples processes by their CPU clock. It returns what there is if
// they end before, and an error that wraps one of this package's if perf
// cannot be had.
//
// Where it may, and its file has room, perf samples the CPUs, and what belongs
// to the processes is kept: an event of a thread starts and stops a timer at
// each of its context switches, which a loaded proxy pays for with some percent
// of its CPU, and one of a CPU runs on; make bench has what is left. Processes
// that the given ones start meanwhile are left out then.
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
	at := rootsOf(o.PIDs)
	defer at.Close()
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
	out.Profile, out.Files, err = t.script(ctx, path, files.there, o.PIDs, at)
	if errors.Is(err, profile.ErrFormat) && ctx.Err() == nil {
		// Nothing ran: an empty profile is an answer.
		out.Profile, err = profile.New(profile.KindCPU, profile.UnitNanoseconds), nil
		out.Profile.Notes = append(out.Profile.Notes, "perf took no sample: the processes used no CPU")
	}
	if err != nil {
		return out, err
	}
	switch {
	case out.Full:
		out.Profile.Notes = append(out.Profile.Notes, fmt.Sprintf("perf's file had reached %d MiB after %.1f s of %.1f s, and perf was stopped: take fewer samples per second, or another call graph", t.maxBytes()>>20, out.Seconds, o.Length.Seconds()))
	case out.Ended:
		out.Profile.Notes = append(out.Profile.Notes, fmt.Sprintf("the processes ended after %.1f s of %.1f s", out.Seconds, o.Length.Seconds()))
	}
	if o.Graph == GraphFP {
		out.Profile.NoteCallers()
	}
	return out, nil
}

// startTime is how long perf may take to begin.
const startTime = 30 * time.Second

// lookTime is how often the size of perf's file is looked at.
const lookTime = 100 * time.Millisecond

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

// pidList is how perf wants to have processes.
func pidList(pids []int) string {
	words := make([]string, len(pids))
	for i, pid := range pids {
		words[i] = strconv.Itoa(pid)
	}
	return strings.Join(words, ",")
}

// arguments are perf record's. Its workload sleeps: perf ends with it, even
// where nobody is left to stop perf. Idle CPUs are not sampled.
func (o Options) arguments(file string, wide bool) []string {
	args := []string{"record", "--freq", strconv.Itoa(o.Hz), "--no-buildid-cache", "--control", "fd:3,4", "--delay", "-1", "--output", file}
	if wide {
		args = append(args, "--event", "cpu-clock:I", "--all-cpus")
	} else {
		args = append(args, "--event", "cpu-clock", "--pid", pidList(o.PIDs))
	}
	switch o.Graph {
	case GraphFP:
		args = append(args, "--call-graph", "fp")
	case GraphDwarf:
		args = append(args, "--call-graph", "dwarf,"+strconv.Itoa(profile.StackCopy))
	}
	return append(args, "--", "sleep", strconv.Itoa(int(math.Ceil((o.Length + startTime).Seconds()))))
}

// record has perf write a file, of the processes or, if wide, of all that runs.
// perf begins when told over a pipe, and says when it has, so that the time is
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
	var exit *exitError
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
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case err := <-done:
			return endedPerf, err
		case <-timer.C:
			return endedTime, nil
		case <-look.C:
			if file.size() >= t.maxBytes() {
				return endedFull, nil
			}
			if processes.ended() {
				return endedProcesses, nil
			}
		}
	}
}

// pidfds are processes that are watched; see pidfd_open(2).
type pidfds []int

// openPidfds watches processes; the error wraps [ErrGone] if one is none.
func openPidfds(pids []int) (pidfds, error) {
	var out pidfds
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			out.Close()
			if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: a thread
				return nil, errs.WithHint(fmt.Errorf("%w: %d", ErrGone, pid), "is it running, and on this machine?")
			}
			// No way to watch it is one more reason to have perf do it.
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
