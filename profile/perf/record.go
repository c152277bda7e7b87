package perf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
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
	// DefaultMaxBytes bounds perf's file, which lies on the machine's own
	// disk: where a node's is full, pods are evicted.
	DefaultMaxBytes = 1 << 30
	// stackBytes is what a sample of GraphDwarf copies.
	stackBytes = 16 << 10
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
		return fmt.Errorf("%d samples a second, it must be 1 to %d", o.Hz, MaxHz)
	case o.Length <= 0 || o.Length > MaxSeconds*time.Second:
		return fmt.Errorf("a profile of %v, it must be above 0 and at most %d s", o.Length, MaxSeconds)
	case o.Graph == GraphDwarf && float64(o.Hz)*o.Length.Seconds()*stackBytes > DefaultMaxBytes:
		return fmt.Errorf("call graph dwarf copies %d KiB a sample: %d samples a second for %v are %.1f GiB for each busy core, it must be at most %d GiB", stackBytes>>10, o.Hz, o.Length,
			float64(o.Hz)*o.Length.Seconds()*stackBytes/(1<<30), DefaultMaxBytes>>30)
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
	at := rootsOf(o.PIDs)
	defer at.Close()
	files := dataFile{here: filepath.Join(here, "perf.data"), there: filepath.Join(there, "perf.data")}
	if err := t.record(ctx, path, files, o, &out); err != nil {
		return out, err
	}
	out.Profile, err = t.script(ctx, path, files.there)
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
		out.Profile.Notes = append(out.Profile.Notes, fmt.Sprintf("perf's file had reached %d MiB after %.1f s of %.1f s, and perf was stopped: take fewer samples a second, or another call graph", t.maxBytes()>>20, out.Seconds, o.Length.Seconds()))
	case out.Ended:
		out.Profile.Notes = append(out.Profile.Notes, fmt.Sprintf("the processes ended after %.1f s of %.1f s", out.Seconds, o.Length.Seconds()))
	}
	out.Files = at.lookAt(out.Profile)
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

// arguments are perf record's. Its workload sleeps: perf ends with it, even
// where nobody is left to stop perf.
func (o Options) arguments(file string) []string {
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
		args = append(args, "--call-graph", "dwarf,"+strconv.Itoa(stackBytes))
	}
	return append(args, "--", "sleep", strconv.Itoa(int(math.Ceil((o.Length + startTime).Seconds()))))
}

// record has perf write a file. perf begins when told over a pipe, and says
// when it has, so that the time is that of the sampling.
func (t Tool) record(ctx context.Context, path string, file dataFile, o Options, out *Recording) error {
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
	p, err := t.start(ctx, path, []*os.File{ctlOut, ackIn}, o.arguments(file.there)...)
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
	out.Ended, out.Full, err = t.until(done, file, o.Length)
	out.Seconds = time.Since(begin).Seconds()
	if !out.Ended {
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

// until waits until the time is over, perf's file is full, or perf has ended.
func (t Tool) until(done <-chan error, file dataFile, length time.Duration) (ended, full bool, err error) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case err := <-done:
			return true, false, err
		case <-timer.C:
			return false, false, nil
		case <-look.C:
			if file.size() >= t.maxBytes() {
				return false, true, nil
			}
		}
	}
}
