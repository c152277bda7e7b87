package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// fakeHost is a machine with predefined answers.
type fakeHost struct {
	uid      int
	programs []string
	late     []time.Duration
	lateErr  error
	during   func() // what happens while the machine is watched
}

func (h fakeHost) UID() int { return h.uid }
func (h fakeHost) LookPath(name string) (string, error) {
	for _, program := range h.programs {
		if program == name {
			return "/usr/bin/" + name, nil
		}
	}
	return "", fs.ErrNotExist
}
func (h fakeHost) WakeLatency(context.Context, int) ([]time.Duration, error) {
	return h.late, h.lateErr
}
func (h fakeHost) Sleep(ctx context.Context, _ time.Duration) error {
	if h.during != nil {
		h.during()
	}
	return ctx.Err()
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// process returns a line of /proc/PID/stat.
func process(pid, command, ticks string) *fstest.MapFile {
	return file(pid + " (" + command + ") S 1 1 1 0 -1 0 0 0 0 0 " + ticks + " 0 0 0 20 0 1 0 777 1000 50 0 0")
}

// fit returns a machine without faults.
func fit() (fstest.MapFS, fakeHost) {
	root := fstest.MapFS{
		"proc/cpuinfo":                        file(strings.Repeat("processor : 0\nmodel name : Good CPU\nflags : fpu tsc\n\n", 8)),
		"proc/stat":                           file("cpu  100 0 50 10000 0 0 0 0 0 0\ncpu0 100 0 50 10000 0 0 0 0 0 0\n"),
		"proc/sys/kernel/osrelease":           file("6.1.0\n"),
		"proc/sys/kernel/perf_event_paranoid": file("2\n"),
		"proc/pressure/cpu":                   file("some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n"),
		"proc/pressure/memory":                file("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"),
		"proc/pressure/io":                    file("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"),
		"proc/1/stat":                         process("1", "init", "5 5"),
		"sys/devices/system/clocksource/clocksource0/current_clocksource":   file("tsc\n"),
		"sys/devices/system/clocksource/clocksource0/available_clocksource": file("tsc hpet\n"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":              file("performance\n"),
		"sys/devices/system/cpu/intel_pstate/no_turbo":                      file("1\n"),
		"sys/devices/system/cpu/smt/active":                                 file("0\n"),
		"sys/bus/event_source/devices/cpu/type":                             file("4\n"),
	}
	return root, fakeHost{
		programs: []string{"perf"},
		late:     []time.Duration{30_000, 50_000, 90_000},
	}
}

func judge(t *testing.T, root fstest.MapFS, host fakeHost) map[string]Line {
	t.Helper()
	machine, tools, err := Check(t.Context(), root, host)
	if err != nil || len(machine) != len(ofMachine) || len(tools) != len(ofTools) {
		t.Fatalf("%d lines of the machine, %d of tools, %v", len(machine), len(tools), err)
	}
	out := map[string]Line{}
	for _, line := range append(machine, tools...) {
		if _, taken := out[line.Name]; taken {
			t.Errorf("two lines are named %q", line.Name)
		}
		out[line.Name] = line
		if line.Detail == "" || (line.Status != OK) != (line.Mend != "") {
			t.Errorf("line without a detail, or not ok without a mend, or ok with one: %+v", line)
		}
	}
	return out
}

func TestAFitMachineIsOK(t *testing.T) {
	root, host := fit()
	for name, line := range judge(t, root, host) {
		if line.Status != OK {
			t.Errorf("%s: %+v", name, line)
		}
	}
}

// Each case breaks one thing. Only the line named may change, and it must say
// what is wrong and how to fix it.
func TestEachFaultIsNamed(t *testing.T) {
	after := func(root fstest.MapFS, files map[string]*fstest.MapFile) func() {
		return func() { maps.Copy(root, files) }
	}
	for name, test := range map[string]struct {
		spoil        func(root fstest.MapFS, host *fakeHost)
		line, status string
		detail, mend string
		alsoMay      string
	}{
		"one core": {func(r fstest.MapFS, _ *fakeHost) { r["proc/cpuinfo"] = file("processor : 0\nmodel name : x\n") }, "cores", Warning, "1 x", "cores", ""},
		"two cores": {func(r fstest.MapFS, _ *fakeHost) {
			r["proc/cpuinfo"] = file("processor : 0\nmodel name : x\nprocessor : 1\n")
		}, "cores", Warning, "2 x", "4 cores", ""},
		"hpet": {func(r fstest.MapFS, _ *fakeHost) {
			r["sys/devices/system/clocksource/clocksource0/current_clocksource"] = file("hpet\n")
		}, "clock source", Warning, "hpet", "echo tsc", ""},
		"powersave": {func(r fstest.MapFS, _ *fakeHost) {
			r["sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"] = file("powersave\n")
		}, "frequency scaling", Warning, "performance, powersave", "echo performance", ""},
		"turbo": {func(r fstest.MapFS, _ *fakeHost) { r["sys/devices/system/cpu/intel_pstate/no_turbo"] = file("0\n") }, "turbo", Warning, "on", "no_turbo", ""},
		"AMD boost": {func(r fstest.MapFS, _ *fakeHost) {
			delete(r, "sys/devices/system/cpu/intel_pstate/no_turbo")
			r["sys/devices/system/cpu/cpufreq/boost"] = file("1\n")
		}, "turbo", Warning, "on", "echo 0 > /sys/devices/system/cpu/cpufreq/boost", ""},
		"SMT":        {func(r fstest.MapFS, _ *fakeHost) { r["sys/devices/system/cpu/smt/active"] = file("1\n") }, "SMT", Warning, "on", "smt/control", ""},
		"late timer": {func(_ fstest.MapFS, h *fakeHost) { h.late = []time.Duration{1000, 5e6} }, "wake-up", Warning, "5000 us (p99)", "stop other processes", ""},
		"no timer":   {func(_ fstest.MapFS, h *fakeHost) { h.lateErr = errors.New("no such call") }, "wake-up", Warning, "no such call", "again", ""},
		"some steal": {func(r fstest.MapFS, h *fakeHost) {
			h.during = after(r, map[string]*fstest.MapFile{"proc/stat": file("cpu  100 0 50 10095 0 0 0 5 0 0\n")})
		}, "steal time", Warning, "5.0%", "dedicated CPUs", ""},
		"much steal": {func(r fstest.MapFS, h *fakeHost) {
			h.during = after(r, map[string]*fstest.MapFile{"proc/stat": file("cpu  100 0 50 10050 0 0 0 50 0 0\n")})
		}, "steal time", Warning, "50.0%", "dedicated CPUs", ""},
		"pressure": {func(r fstest.MapFS, h *fakeHost) {
			h.during = after(r, map[string]*fstest.MapFile{"proc/pressure/cpu": file("some avg10=0.00 avg60=0.00 avg300=0.00 total=201000\n")})
		}, "pressure", Warning, "CPU 20.0%", "stop", ""},
		"no PSI": {func(r fstest.MapFS, _ *fakeHost) {
			delete(r, "proc/pressure/cpu")
			delete(r, "proc/pressure/memory")
			delete(r, "proc/pressure/io")
		}, "pressure", Warning, "lacks PSI", "psi=1", ""},
		"busy": {func(r fstest.MapFS, h *fakeHost) {
			r["proc/77/stat"] = process("77", "my (odd) job", "100 100")
			r["proc/78/stat"] = process("78", "envoy", "100 100")
			r["proc/78/status"] = file("Name:\tenvoy\nNSpid:\t78\t5\n")
			h.during = after(r, map[string]*fstest.MapFile{
				"proc/stat":    file("cpu  180 0 70 10700 0 0 0 0 0 0\n"),
				"proc/77/stat": process("77", "my (odd) job", "160 120"),
				"proc/78/stat": process("78", "envoy", "110 110"),
			})
		}, "what else runs", Warning, "12% busy: my (odd) job (77) 80%, envoy (78, in a container or lab) 20%", "ps -fp 77", ""},
		"docker runs": {func(r fstest.MapFS, _ *fakeHost) {
			r["proc/90/stat"] = process("90", "dockerd", "1 1")
			r["proc/91/stat"] = process("91", "kubelet", "1 1")
			r["proc/91/status"] = file("NSpid:\t91\t7\n") // a lab's own
		}, "containers", Warning, "any time: dockerd", "systemctl stop dockerd", ""},
		"no perf": {func(_ fstest.MapFS, h *fakeHost) { h.programs = nil }, "perf", Warning, "not installed", "linux-perf", ""},
		"no proc": {func(r fstest.MapFS, _ *fakeHost) { delete(r, "proc/stat") }, "steal time", Warning, "not known", "mount", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root, host := fit()
			test.spoil(root, &host)
			for _, line := range judge(t, root, host) {
				switch {
				case line.Name == test.line:
					if line.Status != test.status || !strings.Contains(line.Detail, test.detail) || !strings.Contains(line.Mend, test.mend) {
						t.Errorf("%+v", line)
					}
				case line.Status != OK && line.Name != test.alsoMay:
					t.Errorf("also not ok: %+v", line)
				}
			}
		})
	}
}

func TestAnEmptyMachineIsSurvived(t *testing.T) {
	lines := judge(t, fstest.MapFS{}, fakeHost{uid: 1000})
	for name, line := range lines {
		if line.Status == Failure { // that is for users who try what a lab needs
			t.Errorf("%s: %+v", name, line)
		}
	}
}

func TestCancelled(t *testing.T) {
	root, host := fit()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Check(ctx, root, host); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestWorstAndRemarks(t *testing.T) {
	lines := []Line{{Name: "a", Status: OK, Detail: "fine"}, {Name: "b", Status: Warning, Detail: "so so", Mend: "do"}, {Name: "c", Status: Failure, Detail: "bad", Mend: "do"}}
	if Worst(nil) != OK || Worst(lines[:2]) != Warning || Worst(lines) != Failure {
		t.Error("worst")
	}
	if got := Remarks(lines); len(got) != 2 || got[0] != "b: so so" {
		t.Errorf("%q", got)
	}
}

func TestThisHost(t *testing.T) {
	late, err := ThisHost{}.WakeLatency(t.Context(), 5)
	if err != nil || len(late) == 0 {
		t.Fatalf("%v, %v", late, err)
	}
	for _, d := range late {
		if d < 0 {
			t.Errorf("woke %v early", -d)
		}
	}
}
