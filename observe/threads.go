package observe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/observe/procfs"
)

// maxThreads limits the threads that are read per target. If a process has
// more, the least busy ones count only in its total.
const maxThreads = 4096

// threadsLead is how long before the first instant threads are read. They have
// many files, and reading them within the window would disturb it.
const threadsLead = 30 * time.Millisecond

// ThreadsSample has a target's threads at one instant, and the counters that
// their times must agree with, read at the same moment.
type ThreadsSample struct {
	AtUnixNS int64 `json:"at_unix_ns"`
	// SteppedNS is that of the snapshot.
	SteppedNS int64 `json:"stepped_ns,omitempty"`
	// CPU is the mean of the cgroup's counters before and after reading the
	// threads, and UnsureNS their difference.
	CPU       CPUSample       `json:"cpu"`
	UnsureNS  uint64          `json:"unsure_ns"`
	Processes []ProcessSample `json:"processes"`
	Threads   []ThreadSample  `json:"threads"`
	// QuotaCores is the cgroup's own CPU limit; 0 if it has none.
	QuotaCores float64 `json:"quota_cores,omitempty"`
	// Missing says what could not be read, and why.
	Missing string `json:"missing,omitempty"`
}

// ProcessSample has a process's own counters.
type ProcessSample struct {
	PID     int    `json:"pid"`
	Parent  int    `json:"parent,omitempty"`
	Command string `json:"command"`
	Start   uint64 `json:"start_ticks"` // since boot
	// TotalNS is the run time of all its threads, including ended ones; 0 if it
	// cannot be read.
	TotalNS uint64 `json:"total_ns"`
}

// ThreadSample has a thread's counters.
type ThreadSample struct {
	PID         int    `json:"pid"`
	TID         int    `json:"tid"`
	Name        string `json:"name"`
	Start       uint64 `json:"start_ticks"` // since boot: IDs are reused
	RunNS       uint64 `json:"run_ns"`
	WaitNS      uint64 `json:"wait_ns"`
	UserTicks   uint64 `json:"user_ticks"`
	SystemTicks uint64 `json:"system_ticks"`
	Voluntary   uint64 `json:"voluntary"`
	Involuntary uint64 `json:"involuntary"`
}

// threads reads the target's threads. Their run times are read between two
// readings of the cgroup's counter, and again if the counter advanced too much
// in between.
func (r *reader) threads(procRoot string, now frame) *ThreadsSample {
	var best *ThreadsSample
	for range 3 {
		sample := r.threadsOnce(procRoot, now)
		if best == nil || sample.better(best) {
			best = sample
		}
		if best.Missing == "" && best.UnsureNS < uint64(300*time.Microsecond) {
			break
		}
	}
	best.QuotaCores = r.quota()
	return best
}

// better reports whether a reading is preferable to another: a complete one
// first, then the faster one.
func (s *ThreadsSample) better(than *ThreadsSample) bool {
	if whole := s.Missing == ""; whole != (than.Missing == "") {
		return whole
	}
	return s.UnsureNS < than.UnsureNS
}

func (r *reader) threadsOnce(procRoot string, now frame) *ThreadsSample {
	sample := &ThreadsSample{}
	pids, err := r.processes()
	if err != nil {
		sample.Missing = err.Error()
		return sample
	}
	if len(pids) == 0 {
		sample.Missing = "its cgroup shows no process (is this a pod with hostPID?)"
		return sample
	}
	open := openThreads(procRoot, pids)
	defer open.close()
	sample.Missing = open.missing
	before, err := r.cpu()
	sample.AtUnixNS, sample.SteppedNS = now.ns(), now.steppedNS
	for i := range open.processes {
		p := &open.processes[i]
		p.TotalNS = processClock(procRoot, p.PID)
	}
	ran := false
	for i := range open.threads {
		open.threads[i].read()
		ran = ran || open.threads[i].RunNS > 0
	}
	if !ran && len(open.processes) > 0 && sample.Missing == "" {
		sample.Missing = "the node's kernel tells no run times of threads (CONFIG_SCHED_INFO)"
	}
	after, errAfter := r.cpu()
	if err = errors.Join(err, errAfter); err != nil || after.TotalNS < before.TotalNS {
		sample.Missing = fmt.Sprintf("its cgroup cannot be read any more: %v", err)
		return sample
	}
	sample.UnsureNS = after.TotalNS - before.TotalNS
	sample.CPU = after
	sample.CPU.TotalNS -= sample.UnsureNS / 2
	sample.Processes = open.processes
	for i := range open.threads {
		if t := &open.threads[i]; t.describe() {
			sample.Threads = append(sample.Threads, t.ThreadSample)
		}
	}
	return sample
}

// openedThreads has the threads of processes with their files already open, so
// that all are read at nearly the same time.
type openedThreads struct {
	processes []ProcessSample
	threads   []openThread
	missing   string
}

type openThread struct {
	ThreadSample
	dir       string
	schedstat *os.File
	err       error
}

func openThreads(procRoot string, pids []int) *openedThreads {
	out := &openedThreads{}
	for _, pid := range pids {
		dir := filepath.Join(procRoot, strconv.Itoa(pid))
		data, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		process, err := procfs.ParseProcess(data)
		if err != nil {
			out.missing = err.Error()
			continue
		}
		out.processes = append(out.processes, ProcessSample{PID: pid, Command: process.Command, Start: process.StartTime})
		entries, err := os.ReadDir(filepath.Join(dir, "task"))
		if err != nil && !ended(err) {
			out.missing = err.Error()
		}
		for _, entry := range entries {
			tid, err := strconv.Atoi(entry.Name())
			if err != nil {
				continue
			}
			if len(out.threads) >= maxThreads {
				out.missing = fmt.Sprintf("only %d of its threads were read", maxThreads)
				break
			}
			t := openThread{ThreadSample: ThreadSample{PID: pid, TID: tid}, dir: filepath.Join(dir, "task", entry.Name())}
			if t.schedstat, err = os.Open(filepath.Join(t.dir, "schedstat")); err != nil {
				if !ended(err) {
					out.missing = err.Error()
				}
				continue
			}
			out.threads = append(out.threads, t)
		}
	}
	return out
}

func (o *openedThreads) close() {
	for _, t := range o.threads {
		t.schedstat.Close()
	}
}

// read reads the thread's run time.
func (t *openThread) read() {
	var buffer [80]byte
	n, err := t.schedstat.ReadAt(buffer[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
		return
	}
	s, err := procfs.ParseSchedstat(buffer[:n])
	t.RunNS, t.WaitNS, t.err = s.RunNS, s.WaitNS, err
}

// describe reads the rest; it returns false if the thread has ended.
func (t *openThread) describe() bool {
	if t.err != nil {
		return false
	}
	data, err := os.ReadFile(filepath.Join(t.dir, "stat"))
	if err != nil {
		return false
	}
	stat, err := procfs.ParseProcess(data)
	if err != nil {
		return false
	}
	t.Name, t.Start, t.UserTicks, t.SystemTicks = stat.Command, stat.StartTime, stat.User, stat.System
	if data, err = os.ReadFile(filepath.Join(t.dir, "status")); err == nil {
		if s, err := procfs.ParseSwitches(data); err == nil {
			t.Voluntary, t.Involuntary = s.Voluntary, s.Involuntary
		}
	}
	return true
}

func ended(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// cpuclockSched is CPUCLOCK_SCHED of the kernel's linux/posix-timers.h: the
// clock of a process's run time, as summed by the scheduler.
const cpuclockSched = 2

// processClock returns the run time of a process, including all of its ended
// threads, in nanoseconds. It returns 0 if it cannot be read, such as if
// procRoot is not that of this process's own PID namespace.
func processClock(procRoot string, pid int) uint64 {
	if procRoot != "/proc" {
		return 0
	}
	var at unix.Timespec
	if unix.ClockGettime(int32(^pid)<<3|cpuclockSched, &at) != nil {
		return 0
	}
	return uint64(at.Nano())
}

// quota returns the cgroup's CPU limit in cores; 0 if it has none.
func (r *reader) quota() float64 {
	read := func(file string) string {
		data, _ := os.ReadFile(filepath.Join(r.finder.cpu, r.path, file)) // absent for the root cgroup, or without the controller
		return strings.TrimSpace(string(data))
	}
	limit := ""
	switch {
	case r.finder.version == 2:
		limit = read("cpu.max")
	case r.finder.cpu != "":
		limit = read("cpu.cfs_quota_us") + " " + read("cpu.cfs_period_us")
	}
	quota, period, _ := strings.Cut(limit, " ")
	q, errQ := strconv.ParseFloat(quota, 64) // "max" is not a number
	p, errP := strconv.ParseFloat(period, 64)
	if errQ != nil || errP != nil || q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}
