package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What is enough. A machine below a warning limit still measures, with more
// noise; the validity checks of each trial decide whether it may be believed.
const (
	enoughCores  = 4 // generator, two proxies and worker each have one
	fewestCores  = 2
	enoughMemory = 6 << 30
	enoughFiles  = 16384
	wakeLimit    = time.Millisecond // p99
	busyLimit    = 0.10
	waitLimit    = 0.05
	stealLimit   = 0.01
	stealTooMuch = 0.10
	busyProcess  = 0.05 // of a core: named in the report
)

// Judge turns facts into lines: the machine, what runs on it, the tools. None is a
// failure: package lab/local checks what a lab cannot do without (Requirements).
func Judge(f Facts) []Line {
	return slices.Concat(JudgeMachine(f), []Line{f.engines(), f.files(), f.perf()}, f.programs())
}

// JudgeMachine is the part of [Judge] about how far figures measured here and now
// can be trusted.
func JudgeMachine(f Facts) []Line {
	return []Line{f.cores(), f.memory(), f.virtual(), f.clock(), f.scaling(), f.turboLine(), f.smt(), f.wake(),
		f.steal(), f.pressure(), f.others()}
}

// Remarks are the lines that are not ok, in words, for a run's record.
func Remarks(lines []Line) []string {
	var out []string
	for _, line := range lines {
		if line.Status != OK {
			out = append(out, line.Name+": "+line.Detail)
		}
	}
	return out
}

func (f Facts) cores() Line {
	detail := fmt.Sprintf("%d x %s", f.Machine.CPUs, f.Machine.CPUModel)
	switch {
	case f.Machine.CPUs >= enoughCores:
		return ok("cores", detail)
	case f.Machine.CPUs >= fewestCores:
		return warn("cores", detail+": generator, proxies and worker share them, so high rates measure waiting for a CPU", fmt.Sprintf("use a machine with %d cores or more, or keep to rates that leave CPUs idle", enoughCores))
	}
	return warn("cores", detail+": whatever is measured waits for what measures it", fmt.Sprintf("use a machine with at least %d cores", fewestCores))
}

func (f Facts) memory() Line {
	detail := fmt.Sprintf("%.1f GB, %.1f GB available", gib(f.Machine.MemoryBytes), gib(f.MemoryFree))
	if f.MemoryFree < enoughMemory {
		return warn("memory", detail+"; building the components takes up to 6 GB", "end other programs, or use a larger machine")
	}
	return ok("memory", detail)
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

func (f Facts) virtual() Line {
	if f.Machine.Virtual == "" {
		return ok("virtualisation", "none seen")
	}
	return ok("virtualisation", f.Machine.Virtual+"; the lines on steal time and wake-up say what it costs now")
}

func (f Facts) clock() Line {
	switch f.ClockSource {
	case "":
		return warn("clock source", "not known", "mount sysfs at /sys")
	case "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter":
		return ok("clock source", f.ClockSource+", read without a system call")
	}
	mend := "boot with a usable time stamp counter"
	for _, better := range []string{"tsc", "kvm-clock"} {
		if slices.Contains(f.ClockSources, better) {
			mend = "echo " + better + " > /sys/devices/system/clocksource/clocksource0/current_clocksource"
			break
		}
	}
	return warn("clock source", f.ClockSource+" needs a system call for each reading of the time", mend)
}

func (f Facts) scaling() Line {
	switch {
	case len(f.Governors) == 0:
		return ok("frequency scaling", "none visible")
	case len(f.Governors) == 1 && f.Governors[0] == "performance":
		return ok("frequency scaling", "governor performance")
	}
	return warn("frequency scaling", "governor "+strings.Join(f.Governors, ", ")+": CPU time per request depends on the load",
		"for g in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > $g; done")
}

func (f Facts) turboLine() Line {
	switch f.Turbo {
	case "on":
		return warn("turbo", "on: speed depends on temperature and on how many cores are busy", f.TurboMend)
	case "off":
		return ok("turbo", "off")
	}
	return ok("turbo", "no control visible")
}

func (f Facts) smt() Line {
	if f.SMT {
		return warn("SMT", "on: a core's two threads slow each other down", "echo off > /sys/devices/system/cpu/smt/control")
	}
	return ok("SMT", "off, or not visible")
}

func (f Facts) wake() Line {
	if f.WakeErr != "" {
		return warn("wake-up", "not measured: "+f.WakeErr, "run meshtrial doctor again on a quiet machine")
	}
	detail := fmt.Sprintf("a sleep of 1 ms ends %d us late (p50), %d us (p99)", f.WakeP50.Microseconds(), f.WakeP99.Microseconds())
	if f.WakeP99 > wakeLimit {
		return warn("wake-up", detail, "end what else runs; on a virtual machine, use one with CPUs of its own")
	}
	return ok("wake-up", detail)
}

func (f Facts) steal() Line {
	if f.SampleProblem != "" {
		return warn("steal time", "not known: "+f.SampleProblem, "mount procfs at /proc")
	}
	detail := fmt.Sprintf("%.1f%% over %.0f s", 100*f.StealRatio, f.SampleS)
	switch {
	case f.StealRatio > stealTooMuch:
		return warn("steal time", detail+": the hypervisor gives the CPUs to others, so nothing measured here is of use", "use a machine with CPUs of its own")
	case f.StealRatio > stealLimit:
		return warn("steal time", detail+": the hypervisor gives the CPUs to others at times", "use a machine with CPUs of its own")
	}
	return ok("steal time", detail)
}

func (f Facts) pressure() Line {
	if !f.PSI {
		detail, mend := "the kernel has no PSI", "use a kernel built with CONFIG_PSI"
		if f.PSIFound || f.KernelConfig["PSI"] == "y" {
			detail, mend = "PSI is turned off", "boot with psi=1"
		}
		return warn("pressure", detail+": reports cannot say whether tasks waited", mend)
	}
	detail := fmt.Sprintf("some task waited for CPU %.1f%%, memory %.1f%%, disk %.1f%% of %.0f s", 100*f.CPUWaitRatio, 100*f.MemWaitRatio, 100*f.IOWaitRatio, f.SampleS)
	if f.CPUWaitRatio > waitLimit || f.MemWaitRatio > waitLimit || f.IOWaitRatio > waitLimit {
		return warn("pressure", detail, "end what else runs (next line)")
	}
	return ok("pressure", detail)
}

func (f Facts) others() Line {
	var names []string
	for _, p := range f.Busiest {
		if p.Cores < busyProcess || len(names) == 5 {
			break
		}
		where := ""
		if p.Nested {
			where = ", in a container or lab"
		}
		names = append(names, fmt.Sprintf("%s (%d%s) %.0f%%", p.Command, p.PID, where, 100*p.Cores))
	}
	detail := fmt.Sprintf("CPUs %.0f%% busy", 100*f.BusyRatio)
	if len(names) > 0 {
		detail += ": " + strings.Join(names, ", ") + " of a core"
	}
	if f.BusyRatio > busyLimit {
		mend := "find out what keeps the CPUs busy: top"
		if len(names) > 0 {
			mend = fmt.Sprintf("end it, or wait until it has ended: ps -fp %d", f.Busiest[0].PID)
		}
		return warn("what else runs", detail, mend)
	}
	return ok("what else runs", detail)
}

func (f Facts) engines() Line {
	if len(f.Engines) > 0 {
		names := slices.Compact(slices.Clone(f.Engines))
		mend := "stop them while you measure: systemctl stop " + strings.Join(names, " ")
		return warn("containers", strings.Join(names, ", ")+" run outside of the lab and may start work at any time", mend)
	}
	if f.Docker {
		return ok("containers", "no engine runs; docker is installed and not needed")
	}
	return ok("containers", "no engine runs, and none is needed")
}

func (f Facts) perf() Line {
	clock := "hardware counters"
	if !f.PerfHardware {
		clock = "software clock only"
	}
	switch {
	case f.Perf == "":
		return warn("perf", "not installed: profiles of the proxies are not possible", "apt-get install linux-perf")
	case f.UID != 0 && f.PerfParanoid != "" && !slices.Contains([]string{"-1", "0", "1"}, f.PerfParanoid):
		return warn("perf", "perf_event_paranoid is "+f.PerfParanoid+" and this is not root", "sysctl kernel.perf_event_paranoid=1")
	}
	return ok("perf", fmt.Sprintf("%s, %s, perf_event_paranoid %s", f.Perf, clock, f.PerfParanoid))
}

func (f Facts) files() Line {
	limit := max(f.FilesSoft, f.FilesHard)
	detail := fmt.Sprintf("%d open files (%d before a program raises its limit)", limit, f.FilesSoft)
	if limit >= enoughFiles {
		return ok("file limit", detail)
	}
	return warn("file limit", detail+": thousands of connections need more", fmt.Sprintf("ulimit -Hn %d", enoughFiles))
}

func (f Facts) programs() []Line {
	tool := func(found bool, name, missing, mend string) Line {
		if found {
			return ok(name, "found")
		}
		return warn(name, missing, mend)
	}
	browser := f.Tools["chromium"] || f.Tools["google-chrome"] || f.Tools["chromium-browser"]
	return []Line{
		tool(f.Tools["make"], "make", "not found", "apt-get install make"),
		tool(browser, "browser", "no Chromium: make test skips looking at the report in a browser", "apt-get install chromium"),
		tool(f.Tools["npm"], "npm", "not found: make test skips the page's own tests", "apt-get install npm"),
	}
}
