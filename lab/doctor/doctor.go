// Package doctor reports whether a machine is fit to measure on.
//
//	root file system (/proc, /sys) + [Host], twice a second apart -> sight -> [Line]s
//
// A line is ok or a warning. Package lab/local (Requirements) checks what a local lab
// requires, and reports lines of the same form.
package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Status of a line.
const (
	OK      = "ok"
	Warning = "warning" // measuring works; read the results with care
	Failure = "failure" // what the line names does not work here
)

// Line is one fact about a machine: whether it suits meshtrial, and if not, the command or
// advice that fixes it.
type Line struct {
	Name   string `json:"name"`           // short: "cgroups", "file limit"
	Status string `json:"status"`         // OK, Warning or Failure
	Detail string `json:"detail"`         // what was seen, in words, with figures
	Mend   string `json:"mend,omitempty"` // a shell command or advice; empty if ok
}

// Worst returns the worst status of the lines, or OK if there are none.
func Worst(lines []Line) string {
	worst := OK
	for _, line := range lines {
		switch {
		case line.Status == Failure:
			return Failure
		case line.Status == Warning:
			worst = Warning
		}
	}
	return worst
}

// Remarks describes the lines that are not ok, for a run's record.
func Remarks(lines []Line) []string {
	var out []string
	for _, line := range lines {
		if line.Status != OK {
			out = append(out, line.Name+": "+line.Detail)
		}
	}
	return out
}

// Limits beyond which a line is a warning. Such a machine still measures, with more noise;
// each trial's validity checks decide whether to trust it.
const (
	enoughCores  = 4 // one each for generator, two proxies and worker
	fewestCores  = 2
	wakeLimit    = time.Millisecond // p99
	busyLimit    = 0.10
	waitLimit    = 0.05
	stealLimit   = 0.01
	stealTooMuch = 0.10
	busyProcess  = 0.05 // of a core: named in the report
)

// check is one line. Its function returns what it observed and, if something is wrong, the
// fix.
type check struct {
	name string
	look func(*sight) (detail, mend string)
}

// ofMachine checks how far measurements on this machine can be trusted now; ofTools checks
// for tools that help to measure.
var (
	ofMachine = []check{{"cores", cores}, {"clock source", clock}, {"frequency scaling", scaling}, {"turbo", turbo}, {"SMT", smt},
		{"wake-up", wakeUp}, {"steal time", steal}, {"pressure", pressure}, {"what else runs", others}}
	ofTools = []check{{"containers", engines}, {"perf", perf}}
)

// Check returns lines about the machine, which it watches for [SampleTime], and lines
// about tools. root is the file system at "/". It fails only when ctx ends.
func Check(ctx context.Context, root fs.FS, host Host) (machine, tools []Line, err error) {
	s, err := look(ctx, root, host)
	if err != nil {
		return nil, nil, err
	}
	return s.lines(ofMachine), s.lines(ofTools), nil
}

func (s *sight) lines(checks []check) []Line {
	var out []Line
	for _, c := range checks {
		line := Line{Name: c.name, Status: OK}
		if line.Detail, line.Mend = c.look(s); line.Mend != "" {
			line.Status = Warning
		}
		out = append(out, line)
	}
	return out
}

func cores(s *sight) (detail, mend string) {
	detail = fmt.Sprintf("%d x %s", s.machine.CPUs, s.machine.CPUModel)
	switch {
	case s.machine.CPUs >= enoughCores:
		return detail, ""
	case s.machine.CPUs >= fewestCores:
		return detail + ": generator, proxies and worker share them, so high rates measure waits for a CPU",
			fmt.Sprintf("use a machine with %d cores or more, or rates that leave CPUs idle", enoughCores)
	}
	return detail + ": the measured processes compete with the measurement itself", fmt.Sprintf("use a machine with at least %d cores", fewestCores)
}

func clock(s *sight) (detail, mend string) {
	const folder = "sys/devices/system/clocksource/clocksource0/"
	now := s.line(folder + "current_clocksource")
	switch now {
	case "":
		return "not known", "mount sysfs at /sys"
	case "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter":
		return now + ", read without a system call", ""
	}
	mend = "boot with a usable time stamp counter"
	there := strings.Fields(s.line(folder + "available_clocksource"))
	for _, better := range []string{"kvm-clock", "tsc"} { // the last one wins
		if slices.Contains(there, better) {
			mend = "echo " + better + " > /" + folder + "current_clocksource"
		}
	}
	return now + " needs a system call for each read of the clock", mend
}

func scaling(s *sight) (detail, mend string) {
	files, _ := fs.Glob(s.root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	var governors []string
	for _, file := range files {
		governors = append(governors, s.line(file))
	}
	slices.Sort(governors)
	switch governors = slices.Compact(governors); {
	case len(governors) == 0:
		return "none visible", ""
	case len(governors) == 1 && governors[0] == "performance":
		return "governor performance", ""
	}
	return "governor " + strings.Join(governors, ", ") + ": CPU time per request depends on the load",
		"for g in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > $g; done"
}

func turbo(s *sight) (detail, mend string) {
	for _, control := range []struct{ file, on, off string }{
		{"sys/devices/system/cpu/intel_pstate/no_turbo", "0", "1"}, {"sys/devices/system/cpu/cpufreq/boost", "1", "0"},
	} {
		switch s.line(control.file) {
		case control.on:
			return "on: speed depends on temperature and on how many cores are busy", "echo " + control.off + " > /" + control.file
		case control.off:
			return "off", ""
		}
	}
	return "no control visible", ""
}

func smt(s *sight) (detail, mend string) {
	if s.line("sys/devices/system/cpu/smt/active") == "1" {
		return "on: a core's two threads slow each other down", "echo off > /sys/devices/system/cpu/smt/control"
	}
	return "off, or not visible", ""
}

func wakeUp(s *sight) (detail, mend string) {
	if s.wakeErr != nil {
		return fmt.Sprintf("not measured: %v", s.wakeErr), "run meshtrial doctor again on a quiet machine"
	}
	p50, p99 := s.late[len(s.late)/2], s.late[len(s.late)*99/100]
	detail = fmt.Sprintf("a sleep of 1 ms ends %d us late (p50), %d us (p99)", p50.Microseconds(), p99.Microseconds())
	if p99 > wakeLimit {
		return detail, "stop other processes; if this is a virtual machine, use one with dedicated CPUs"
	}
	return detail, ""
}

func steal(s *sight) (detail, mend string) {
	_, ratio, err := s.busy()
	if err != nil {
		return fmt.Sprintf("not known: %v", err), "mount procfs at /proc"
	}
	detail, mend = fmt.Sprintf("%.1f%% over %.0f s", 100*ratio, SampleTime.Seconds()), "use a machine with dedicated CPUs"
	switch {
	case ratio > stealTooMuch:
		return detail + ": the hypervisor gives the CPUs to others, so measurements here are useless", mend
	case ratio > stealLimit:
		return detail + ": the hypervisor sometimes gives the CPUs to others", mend
	}
	return detail, ""
}

func pressure(s *sight) (detail, mend string) {
	var waits []string
	for _, of := range []struct{ file, words string }{{"cpu", "CPU"}, {"memory", "memory"}, {"io", "disk"}} {
		ratio, err := s.waited(of.file)
		if err != nil {
			return "the kernel lacks PSI, or it is disabled: reports cannot show whether tasks waited", "boot with psi=1; if that has no effect, use a kernel built with CONFIG_PSI"
		}
		waits = append(waits, fmt.Sprintf("%s %.1f%%", of.words, 100*ratio))
		if ratio > waitLimit {
			mend = "stop other processes (next line)"
		}
	}
	return fmt.Sprintf("some task waited for %s of %.0f s", strings.Join(waits, ", "), SampleTime.Seconds()), mend
}

func others(s *sight) (detail, mend string) {
	ratio, _, _ := s.busy() // the line on steal time reports an unreadable /proc/stat
	busiest := s.busiest()
	var names []string
	for _, p := range busiest {
		if p.cores < busyProcess || len(names) == 5 {
			break
		}
		where := ""
		if nested(s.root, p.pid) {
			where = ", in a container or lab"
		}
		names = append(names, fmt.Sprintf("%s (%d%s) %.0f%%", p.command, p.pid, where, 100*p.cores))
	}
	detail = fmt.Sprintf("CPUs %.0f%% busy", 100*ratio)
	if len(names) > 0 {
		detail += ": " + strings.Join(names, ", ") + " of a core"
	}
	switch {
	case ratio <= busyLimit:
		return detail, ""
	case len(names) > 0:
		return detail, fmt.Sprintf("stop it, or wait until it ends: ps -fp %d", busiest[0].pid)
	}
	return detail, "find out what keeps the CPUs busy: top"
}

// engines warns of container engines that run outside a lab.
func engines(s *sight) (detail, mend string) {
	var names []string
	for pid, p := range s.after.processes {
		if slices.Contains([]string{"dockerd", "containerd", "kubelet", "crio", "podman", "k3s", "k0s"}, p.Command) && !nested(s.root, pid) {
			names = append(names, p.Command)
		}
	}
	if len(names) == 0 {
		return "no container engine runs, and none is needed", ""
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return "outside the lab, these may start work at any time: " + strings.Join(names, ", "), "stop them while you measure: systemctl stop " + strings.Join(names, " ")
}

func perf(s *sight) (detail, mend string) {
	path, err := s.host.LookPath("perf")
	if err != nil {
		return "not installed: proxies cannot be profiled", "apt-get install linux-perf"
	}
	paranoid := s.line("proc/sys/kernel/perf_event_paranoid")
	if s.host.UID() != 0 && paranoid != "" && !slices.Contains([]string{"-1", "0", "1"}, paranoid) {
		return "perf_event_paranoid is " + paranoid + " and this is not root", "sysctl kernel.perf_event_paranoid=1"
	}
	counters := "hardware counters"
	if _, err := fs.Stat(s.root, "sys/bus/event_source/devices/cpu"); err != nil {
		counters = "software clock only"
	}
	return fmt.Sprintf("%s, %s, perf_event_paranoid %s", path, counters, paranoid), ""
}
