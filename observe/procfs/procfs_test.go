package procfs

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"
)

// refuses checks that a parser takes none of the texts.
func refuses[T any](t *testing.T, parse func([]byte) (T, error), texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestParseStat(t *testing.T) {
	got, err := ParseStat([]byte("cpu  10 1 5 100 2 3 4 6 7 8\ncpu0 5 0 2 50 1 1 2 3 0 0\ncpu1 5 1 3 50 1 2 2 3 0 0\nintr 5 0 0\nctxt 77\nprocs_running 3\n"))
	want := Stat{User: 10, Nice: 1, System: 5, Idle: 100, IOWait: 2, IRQ: 3, SoftIRQ: 4, Steal: 6, CPUs: 2, ContextSwitches: 77}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ParseStat([]byte("cpu 1 2 3 4\n")); err != nil || got.Idle != 4 || got.Steal != 0 {
		t.Errorf("an old kernel: %+v, %v", got, err)
	}
	refuses(t, ParseStat, "", "cpu0 1 2 3 4", "cpu 1 2", "cpu a b c d", "cpu 1 2 3 -4")
}

func TestParsePressure(t *testing.T) {
	got, err := ParsePressure([]byte("some avg10=11.37 avg60=6.67 avg300=5.58 total=36071182\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=12\n"))
	if want := (Pressure{36071182}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	refuses(t, ParsePressure, "", "full total=1", "some total=x", "some avg10=1")
}

func TestParseProcessWithOddNames(t *testing.T) {
	for _, command := range []string{"sh", "a b", "(sd-pam)", "x) R 1", ""} {
		text := fmt.Sprintf("42 (%s) S 1 42 42 0 -1 4194304 100 0 0 0 7 9 0 0 20 0 3 0 123456 1000000 250 18446744073709551615 1 1", command)
		got, err := ParseProcess([]byte(text))
		if want := (Process{PID: 42, Command: command, State: 'S', Parent: 1, User: 7, System: 9, StartTime: 123456}); err != nil || got != want {
			t.Errorf("%q: %+v, %v", command, got, err)
		}
	}
	refuses(t, ParseProcess, "", "()", "42 sh S 1", "x (sh) S 1", "42 (sh)", "42 (sh) S 1 2 3")
}

func TestParseSmapsRollup(t *testing.T) {
	text := "55-7f ---p 00000000 00:00 0    [rollup]\nRss:                1772 kB\nPss:                 316 kB\nPss_Dirty:           108 kB\nSwapPss: 5 kB\n"
	if got, err := ParseSmapsRollup([]byte(text)); err != nil || got != (Memory{RSS: 1772 << 10, PSS: 316 << 10}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ParseSmapsRollup(nil); err != nil || got != (Memory{}) {
		t.Errorf("a kernel thread: %+v, %v", got, err)
	}
	refuses(t, ParseSmapsRollup, "Rss: x kB", "Pss: 5", "Pss: -5 kB", "Rss: 99999999999999999999 kB")
}

func TestParseTables(t *testing.T) {
	if got := ParseKeys([]byte("usage_usec 5\nuser_usec 3\nodd line here\nx y\n")); !reflect.DeepEqual(got, map[string]uint64{"usage_usec": 5, "user_usec": 3}) {
		t.Errorf("%v", got)
	}
	snmp := ParseSNMP([]byte("Ip: Forwarding TTL\nIp: 1 64\nTcp: MaxConn ActiveOpens CurrEstab\nTcp: -1 7 3\n"))
	if snmp["Tcp.ActiveOpens"] != 7 || snmp["Tcp.MaxConn"] != -1 || snmp["Ip.TTL"] != 64 {
		t.Errorf("%v", snmp)
	}
	if got := ParseMeminfo([]byte("MemTotal:       1024 kB\nHugePages_Total:       0\n")); !reflect.DeepEqual(got, map[string]int64{"MemTotal": 1 << 20}) {
		t.Errorf("%v", got)
	}
	mounts := ParseMounts([]byte("a /with\\040space tmpfs rw 0 0\nshort\n"))
	if len(mounts) != 1 || mounts[0].Path != "/with space" {
		t.Errorf("%+v", mounts)
	}
}

func TestCgroupMode(t *testing.T) {
	v1, named, v2 := Mount{Type: "cgroup", Options: "rw,cpu"}, Mount{Type: "cgroup", Options: "rw,name=systemd"}, Mount{Type: "cgroup2"}
	for want, mounts := range map[string][]Mount{"": {{Type: "tmpfs"}, named}, CgroupV1: {v1, named}, CgroupV2: {named, v2}, CgroupHybrid: {v1, v2}} {
		if got := CgroupMode(mounts); got != want {
			t.Errorf("%v: %q", mounts, got)
		}
	}
}

func TestMachine(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const clock = "sys/devices/system/clocksource/clocksource0/"
	root := fstest.MapFS{
		"proc/cpuinfo":                  file("processor: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t: fpu hypervisor tsc\n\nprocessor: 1\nmodel name: Some CPU @ 2 GHz\n"),
		"proc/meminfo":                  file("MemTotal: 2048 kB\n"),
		"proc/mounts":                   file("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
		"proc/sys/kernel/osrelease":     file("6.18.44\n"),
		"etc/os-release":                file("NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
		clock + "current_clocksource":   file("tsc\n"),
		clock + "available_clocksource": file("tsc kvm-clock \n"),
	}
	m := Machine(root)
	if m.CPUModel != "Some CPU @ 2 GHz" || m.CPUs != 2 || m.MemoryBytes != 2<<20 || m.Kernel != "6.18.44" || m.OS != "Debian GNU/Linux 12" ||
		m.Virtual != "KVM" || m.ClockSource != "tsc" || m.CgroupMode != CgroupV2 || m.Governor != "" {
		t.Errorf("%+v", m)
	}
	for vendor, want := range map[string]string{"QEMU": "KVM/QEMU", "VMware, Inc.": "VMware", "Amazon EC2": "Amazon EC2", "Dell Inc.": "KVM"} {
		root["sys/class/dmi/id/sys_vendor"] = file(vendor + "\n")
		if got := Machine(root).Virtual; got != want {
			t.Errorf("%s: %q", vendor, got)
		}
	}
	root["sys/hypervisor/type"] = file("xen\n")
	if got := Machine(root).Virtual; got != "xen" {
		t.Errorf("%q", got)
	}
	if got := Hypervisor(fstest.MapFS{}, CPUInfo{}); got != "" {
		t.Errorf("a real machine runs on %q", got)
	}
	if m := Machine(fstest.MapFS{}); m.CPUs != 0 || m.Virtual != "" {
		t.Errorf("%+v", m)
	}
}

// Tests the real files of this machine.
func TestThisMachine(t *testing.T) {
	read := func(name string) []byte {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Skip(err)
		}
		return data
	}
	if s, err := ParseStat(read("/proc/stat")); err != nil || s.CPUs == 0 || s.Idle == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if p, err := ParseProcess(read("/proc/self/stat")); err != nil || p.PID == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if m, err := ParseSmapsRollup(read("/proc/self/smaps_rollup")); err != nil || m.PSS == 0 || m.RSS < m.PSS {
		t.Errorf("%+v, %v", m, err)
	}
	if m := Machine(os.DirFS("/")); m.CPUs == 0 || m.MemoryBytes == 0 || m.Kernel == "" {
		t.Errorf("%+v", m)
	}
}

func FuzzParsers(f *testing.F) {
	for _, text := range []string{
		"cpu  10 1 5 100 2 3 4 6 7 8\nctxt 5\n", "some avg10=1.0 avg60=1 avg300=1 total=5\n", "42 (sh) S 1 42 42 0 -1 4194304 100 0 0 0 7 9 0 0 20 0 3 0 1 1 2 3",
		"Rss: 10 kB\nPss: 5 kB\n", "Tcp: A B\nTcp: 1 2\n", "TCP: inuse 5 tw 3\n", "a b c d 0 0\n", "processor : 0\nmodel name : x\n", "user 5\nsystem 6\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ParseStat(data); err == nil && s.CPUs < 0 {
			t.Error("CPUs")
		}
		if m, err := ParseSmapsRollup(data); err == nil && (m.RSS < 0 || m.PSS < 0) {
			t.Errorf("%+v", m)
		}
		if p, err := ParseProcess(data); err == nil && strings.Contains(string(data), "(") && !strings.Contains(string(data), p.Command) {
			t.Errorf("%+v", p)
		}
		for name, size := range ParseMeminfo(data) {
			if size < 0 {
				t.Errorf("%s: %d", name, size)
			}
		}
		_, _ = ParsePressure(data)
		_ = ParseKeys(data)
		_ = ParseSNMP(data)
		_ = ParseMounts(data)
		_ = ParseCPUInfo(data)
	})
}

// Any folder name of a mount is read back.
func TestMountsProperty(t *testing.T) {
	escape := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`, "#", `\043`)
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + rapid.StringOf(rapid.SampledFrom([]rune("ab\\0134 \t\n#\r\u0085\u00a0é"))).Draw(t, "path")
		got := ParseMounts([]byte("tmpfs / tmpfs rw 0 0\ncgroup " + escape.Replace(path) + " cgroup2 rw,nsdelegate 0 0\n"))
		if len(got) != 2 || got[1] != (Mount{path, "cgroup2", "rw,nsdelegate"}) {
			t.Fatalf("%q is read as %+v", path, got)
		}
	})
	if got := Unescape(`\04\8888\`); got != `\04\8888\` {
		t.Errorf("what is no escape became %q", got)
	}
}
