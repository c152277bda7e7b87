package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/record"
)

// Host answers questions that files cannot.
type Host interface {
	UID() int
	// LookPath finds a program.
	LookPath(name string) (string, error)
	// WakeLatency sleeps n times for a millisecond and returns how late each
	// sleep ended.
	WakeLatency(ctx context.Context, n int) ([]time.Duration, error)
	// Sleep waits.
	Sleep(ctx context.Context, d time.Duration) error
}

// SampleTime is how long a machine is watched.
const SampleTime = time.Second

// sight is the input of the checks.
type sight struct {
	root          fs.FS
	host          Host
	machine       record.Machine
	before, after sample          // SampleTime apart
	late          []time.Duration // how late sleeps ended, sorted; none if wakeErr
	wakeErr       error
}

// sample holds a machine's counters at one moment.
type sample struct {
	stat      procfs.Stat
	statErr   error
	waits     map[string]procfs.Pressure // by file; those that can be read
	processes map[int]procfs.Process     // by PID
}

func look(ctx context.Context, root fs.FS, host Host) (*sight, error) {
	s := &sight{root: root, host: host, machine: procfs.Machine(root), before: sampleOf(root)}
	if err := host.Sleep(ctx, SampleTime); err != nil {
		return nil, err
	}
	s.after = sampleOf(root)
	if s.late, s.wakeErr = host.WakeLatency(ctx, 300); s.wakeErr == nil && len(s.late) == 0 {
		s.wakeErr = errors.New("no sample")
	}
	slices.Sort(s.late)
	return s, ctx.Err()
}

func sampleOf(root fs.FS) sample {
	out := sample{waits: map[string]procfs.Pressure{}, processes: map[int]procfs.Process{}}
	out.stat, out.statErr = procfs.ParseStat(read(root, "proc/stat"))
	for _, of := range []string{"cpu", "memory", "io"} {
		if p, err := procfs.ParsePressure(read(root, "proc/pressure/"+of)); err == nil {
			out.waits[of] = p
		}
	}
	if proc, err := fs.Sub(root, "proc"); err == nil {
		pids, _ := procfs.PIDs(proc)
		for _, pid := range pids {
			if p, err := procfs.ParseProcess(read(proc, fmt.Sprintf("%d/stat", pid))); err == nil {
				out.processes[pid] = p
			}
		}
	}
	return out
}

func read(root fs.FS, name string) []byte {
	data, _ := fs.ReadFile(root, name) // a missing file means nothing
	return data
}

// line returns the first line of a file, or "" if it cannot be read.
func (s *sight) line(name string) string { return procfs.Line(s.root, name) }

// busy returns the share of CPU time in use, and the share that the hypervisor
// took.
func (s *sight) busy() (ratio, stolen float64, err error) {
	if err := errors.Join(s.before.statErr, s.after.statErr); err != nil {
		return 0, 0, err
	}
	before, after := s.before.stat, s.after.stat
	used := func(s procfs.Stat) uint64 { return s.User + s.Nice + s.System + s.IRQ + s.SoftIRQ }
	all := func(s procfs.Stat) uint64 { return used(s) + s.Idle + s.IOWait + s.Steal }
	total := float64(all(after)) - float64(all(before))
	if total <= 0 {
		return 0, 0, nil
	}
	return float64(used(after)-used(before)) / total, float64(after.Steal-before.Steal) / total, nil
}

// waited returns the share of time in which some task waited for a resource.
func (s *sight) waited(of string) (float64, error) {
	before, known := s.before.waits[of]
	after, still := s.after.waits[of]
	if !known || !still {
		return 0, fmt.Errorf("no pressure of %s", of)
	}
	return max(0, min(float64(after.SomeUS)-float64(before.SomeUS), 1e6*SampleTime.Seconds())) / (1e6 * SampleTime.Seconds()), nil
}

// busyness is the CPU time of a process, in cores.
type busyness struct {
	pid     int
	command string
	cores   float64
}

// busiest returns the processes that used a hundredth of a core or more, busiest
// first.
func (s *sight) busiest() (out []busyness) {
	for pid, after := range s.after.processes {
		before, ok := s.before.processes[pid]
		if !ok || before.StartTime != after.StartTime {
			continue
		}
		ticks := (after.User + after.System) - (before.User + before.System)
		if cores := float64(ticks) / procfs.TicksPerSecond / SampleTime.Seconds(); cores >= 0.01 {
			out = append(out, busyness{pid, after.Command, cores})
		}
	}
	slices.SortFunc(out, func(a, b busyness) int { return cmp.Or(cmp.Compare(b.cores, a.cores), a.pid-b.pid) })
	return out
}

// nested reports whether a process lives in a PID namespace below ours, which
// gives it several PIDs.
func nested(root fs.FS, pid int) bool {
	for line := range bytes.Lines(read(root, path.Join("proc", strconv.Itoa(pid), "status"))) {
		if pids, ok := strings.CutPrefix(string(line), "NSpid:"); ok {
			return len(strings.Fields(pids)) > 1
		}
	}
	return false
}

// ThisHost is the machine this program runs on.
type ThisHost struct{}

// UID returns the effective user ID.
func (ThisHost) UID() int { return os.Geteuid() }

// LookPath finds a program on the PATH.
func (ThisHost) LookPath(name string) (string, error) { return exec.LookPath(name) }

// WakeLatency sleeps on a dedicated thread without the kernel's timer slack, so
// only the kernel and the hypervisor make it late.
func (ThisHost) WakeLatency(ctx context.Context, n int) ([]time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
			return nil, err
		}
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) }()
	}
	late := make([]time.Duration, 0, n)
	for range n {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		at := time.Now().Add(time.Millisecond)
		remaining := unix.NsecToTimespec(max(0, int64(time.Until(at)))) // on a busy machine the moment may have passed
		if err := unix.Nanosleep(&remaining, nil); err == unix.EINTR {
			continue // the Go runtime's own signals interrupted the sleep
		} else if err != nil {
			return nil, err
		}
		late = append(late, time.Since(at))
	}
	return late, nil
}

// Sleep waits for d, or until ctx ends.
func (ThisHost) Sleep(ctx context.Context, d time.Duration) error {
	return wake.Pause(ctx, d)
}
