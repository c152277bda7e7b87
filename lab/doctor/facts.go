package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"maps"
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

// Host answers what files cannot.
type Host interface {
	UID() int
	// LookPath finds a program.
	LookPath(name string) (string, error)
	// FileLimit returns how many files a process may have open: now, and
	// after it raised its own limit.
	FileLimit() (soft, hard uint64, err error)
	// WakeLatency sleeps n times for a millisecond and returns how late each
	// sleep ended.
	WakeLatency(ctx context.Context, n int) ([]time.Duration, error)
	// Sleep waits.
	Sleep(ctx context.Context, d time.Duration) error
}

// SampleTime is how long Gather watches what runs.
const SampleTime = time.Second

// Facts is what Gather saw.
type Facts struct {
	Machine      record.Machine
	UID          int
	MemoryFree   int64             // available bytes
	KernelConfig map[string]string // "NF_TABLES": "y"; nil if unknown

	Perf          string // path of the program
	PerfParanoid  string
	PerfHardware  bool
	FilesSoft     uint64
	FilesHard     uint64
	ClockSource   string
	ClockSources  []string
	Governors     []string // distinct ones of all CPUs; none: no scaling is visible
	Turbo         string   // on, off, "" for not known
	TurboMend     string
	SMT           bool
	PSI           bool
	PSIFound      bool // the files exist
	SampleS       float64
	CPUWaitRatio  float64 // share of the sample in which some task waited
	MemWaitRatio  float64
	IOWaitRatio   float64
	StealRatio    float64
	BusyRatio     float64
	Busiest       []Busy
	Engines       []string // container engines that run outside of a lab
	Docker        bool     // installed
	WakeP50       time.Duration
	WakeP99       time.Duration
	WakeErr       string
	Tools         map[string]bool
	SampleProblem string
}

// Busy is a process that used CPU while Gather watched.
type Busy struct {
	PID     int
	Command string
	Cores   float64 // CPU time over time
	Nested  bool    // in a PID namespace of its own: a container or a lab
}

// tools are programs that Judge reports on.
var tools = []string{"make", "chromium", "google-chrome", "chromium-browser", "npm"}

// Gather collects the facts; root is the file system at "/". It takes a little more
// than SampleTime. What cannot be read stays empty; it fails only when ctx ends.
func Gather(ctx context.Context, root fs.FS, host Host) (Facts, error) {
	f := Facts{
		Machine:      procfs.Machine(root),
		UID:          host.UID(),
		MemoryFree:   procfs.ParseMeminfo(read(root, "proc/meminfo"))["MemAvailable"],
		PerfParanoid: procfs.Line(root, "proc/sys/kernel/perf_event_paranoid"),
		PerfHardware: exists(root, "sys/bus/event_source/devices/cpu"),
		ClockSource:  procfs.Line(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"),
		ClockSources: strings.Fields(procfs.Line(root, "sys/devices/system/clocksource/clocksource0/available_clocksource")),
		Governors:    governors(root),
		SMT:          procfs.Line(root, "sys/devices/system/cpu/smt/active") == "1",
		Tools:        map[string]bool{},
	}
	f.KernelConfig = kernelConfig(root, f.Machine.Kernel)
	f.Turbo, f.TurboMend = turbo(root)
	f.FilesSoft, f.FilesHard, _ = host.FileLimit()
	f.Perf, _ = host.LookPath("perf")
	for _, name := range tools {
		_, err := host.LookPath(name)
		f.Tools[name] = err == nil
	}
	_, err := host.LookPath("docker")
	f.Docker = err == nil

	if err := f.watch(ctx, root, host); err != nil {
		return Facts{}, err
	}
	late, err := host.WakeLatency(ctx, 300)
	if ctx.Err() != nil {
		return Facts{}, ctx.Err()
	}
	if err != nil || len(late) == 0 {
		f.WakeErr = "no sample"
		if err != nil {
			f.WakeErr = err.Error()
		}
	} else {
		slices.Sort(late)
		f.WakeP50, f.WakeP99 = late[len(late)/2], late[len(late)*99/100]
	}
	return f, nil
}

// watch compares the machine before and after SampleTime.
func (f *Facts) watch(ctx context.Context, root fs.FS, host Host) error {
	before := processes(root)
	statBefore, err := procfs.ParseStat(read(root, "proc/stat"))
	if err != nil {
		f.SampleProblem = err.Error()
	}
	waits := []struct {
		file   string
		ratio  *float64
		before procfs.Pressure
		ok     bool
	}{
		{file: "proc/pressure/cpu", ratio: &f.CPUWaitRatio},
		{file: "proc/pressure/memory", ratio: &f.MemWaitRatio},
		{file: "proc/pressure/io", ratio: &f.IOWaitRatio},
	}
	for i := range waits {
		f.PSIFound = f.PSIFound || exists(root, waits[i].file)
		waits[i].before, err = procfs.ParsePressure(read(root, waits[i].file))
		waits[i].ok = err == nil
		f.PSI = f.PSI || waits[i].ok
	}
	if err := host.Sleep(ctx, SampleTime); err != nil {
		return err
	}
	f.SampleS = SampleTime.Seconds()
	for _, wait := range waits {
		if after, err := procfs.ParsePressure(read(root, wait.file)); err == nil && wait.ok && after.SomeUS >= wait.before.SomeUS {
			*wait.ratio = min(float64(after.SomeUS-wait.before.SomeUS)/1e6/f.SampleS, 1)
		}
	}
	if stat, err := procfs.ParseStat(read(root, "proc/stat")); err == nil && f.SampleProblem == "" {
		busy := func(s procfs.Stat) uint64 { return s.User + s.Nice + s.System + s.IRQ + s.SoftIRQ }
		all := func(s procfs.Stat) uint64 { return busy(s) + s.Idle + s.IOWait + s.Steal }
		if total := float64(all(stat)) - float64(all(statBefore)); total > 0 {
			f.BusyRatio = float64(busy(stat)-busy(statBefore)) / total
			f.StealRatio = float64(stat.Steal-statBefore.Steal) / total
		}
	}
	for pid, after := range processes(root) {
		if was, ok := before[pid]; ok && was.StartTime == after.StartTime {
			ticks := (after.User + after.System) - (was.User + was.System)
			if cores := float64(ticks) / procfs.TicksPerSecond / f.SampleS; cores >= 0.01 {
				f.Busiest = append(f.Busiest, Busy{PID: pid, Command: after.Command, Cores: cores, Nested: nested(root, pid)})
			}
		}
		switch after.Command {
		case "dockerd", "containerd", "kubelet", "crio", "podman", "k3s", "k0s":
			if !nested(root, pid) {
				f.Engines = append(f.Engines, after.Command)
			}
		}
	}
	slices.Sort(f.Engines)
	slices.SortFunc(f.Busiest, func(a, b Busy) int { return cmp.Or(cmp.Compare(b.Cores, a.Cores), a.PID-b.PID) })
	return nil
}

func read(root fs.FS, name string) []byte {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return nil
	}
	return data
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// kernelConfig reads the kernel's configuration, nil if it is not there to
// be read.
func kernelConfig(root fs.FS, release string) map[string]string {
	if packed := read(root, "proc/config.gz"); packed != nil {
		if r, err := gzip.NewReader(bytes.NewReader(packed)); err == nil {
			return parseConfig(r)
		}
	}
	if text := read(root, "boot/config-"+release); text != nil && release != "" {
		return parseConfig(bytes.NewReader(text))
	}
	return nil
}

// parseConfig parses lines of CONFIG_NAME=value, up to 4 MB.
func parseConfig(r io.Reader) map[string]string {
	out := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(r, 4<<20))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && strings.HasPrefix(name, "CONFIG_") {
			out[strings.TrimPrefix(name, "CONFIG_")] = value
		}
	}
	return out
}

// governors returns the distinct frequency governors of all CPUs.
func governors(root fs.FS) []string {
	files, _ := fs.Glob(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	seen := map[string]bool{}
	for _, file := range files {
		if governor := procfs.Line(root, file); governor != "" {
			seen[governor] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// turbo tells whether CPUs may exceed their base frequency, and the command
// that ends it.
func turbo(root fs.FS) (state, mend string) {
	const intel, boost = "sys/devices/system/cpu/intel_pstate/no_turbo", "sys/devices/system/cpu/cpufreq/boost"
	switch procfs.Line(root, intel) {
	case "0":
		return "on", "echo 1 > /" + intel
	case "1":
		return "off", ""
	}
	switch procfs.Line(root, boost) {
	case "1":
		return "on", "echo 0 > /" + boost
	case "0":
		return "off", ""
	}
	return "", ""
}

// processes reads every /proc/PID/stat.
func processes(root fs.FS) map[int]procfs.Process {
	entries, err := fs.ReadDir(root, "proc")
	if err != nil {
		return nil
	}
	out := map[int]procfs.Process{}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if p, err := procfs.ParseProcess(read(root, path.Join("proc", entry.Name(), "stat"))); err == nil {
				out[pid] = p
			}
		}
	}
	return out
}

// nested tells whether a process lives in a PID namespace below ours: it
// then has several PIDs.
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

// UID is the effective user.
func (ThisHost) UID() int { return os.Geteuid() }

// LookPath finds a program on the path.
func (ThisHost) LookPath(name string) (string, error) { return exec.LookPath(name) }

// startLimit is the soft limit this process was given: the Go runtime raises
// it before main runs, and passes the old one on to children only.
func startLimit() (uint64, bool) {
	out, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	if err != nil {
		return 0, false
	}
	limit, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 64) // or "unlimited"
	return limit, err == nil && limit > 0
}

// FileLimit returns RLIMIT_NOFILE.
func (ThisHost) FileLimit() (soft, hard uint64, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, 0, err
	}
	soft = limit.Cur
	if given, ok := startLimit(); ok {
		soft = given
	}
	return soft, limit.Max, nil
}

// WakeLatency sleeps on a thread of its own with the kernel's timer slack
// turned off, so that what it sees is the kernel's and the hypervisor's doing.
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
		remaining := unix.NsecToTimespec(max(0, int64(time.Until(at)))) // the moment may be past on a busy machine
		if err := unix.Nanosleep(&remaining, nil); err == unix.EINTR {
			continue // the Go runtime's own signals; the sleep was cut short
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
