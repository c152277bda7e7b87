package procfs

import (
	"bytes"
	"cmp"
	"io/fs"
	"runtime"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// CPUInfo is the content of /proc/cpuinfo.
type CPUInfo struct {
	Model      string
	CPUs       int
	Hypervisor bool // the CPU says it is virtual (x86)
}

// ParseCPUInfo parses /proc/cpuinfo of x86 or ARM.
func ParseCPUInfo(data []byte) CPUInfo {
	var info CPUInfo
	for line := range bytes.Lines(data) {
		key, value, ok := strings.Cut(string(line), ":")
		if !ok {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch key {
		case "processor":
			info.CPUs++
		case "model name", "Processor", "cpu model":
			info.Model = cmp.Or(info.Model, value)
		case "flags":
			info.Hypervisor = info.Hypervisor || strings.Contains(" "+value+" ", " hypervisor ")
		}
	}
	return info
}

// Mount is a line of /proc/mounts.
type Mount struct {
	Path, Type, Options string
}

// ParseMounts parses /proc/mounts.
func ParseMounts(data []byte) []Mount {
	var out []Mount
	for line := range bytes.Lines(data) {
		// A single space separates fields; other whitespace is part of names.
		fields := strings.Split(strings.TrimSuffix(string(line), "\n"), " ")
		if len(fields) < 4 {
			continue
		}
		out = append(out, Mount{Unescape(fields[1]), fields[2], fields[3]})
	}
	return out
}

// Unescape undoes the octal escapes that the kernel uses in mount paths (mangle
// in fs/proc_namespace.c): a backslash and three digits are one byte.
func Unescape(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+3 < len(path) {
			if n, err := strconv.ParseUint(path[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(path[i])
	}
	return out.String()
}

// Cgroup modes.
const (
	CgroupV1     = "v1"
	CgroupV2     = "v2"
	CgroupHybrid = "hybrid" // v1 controllers alongside a v2 hierarchy
)

// CgroupMode returns which cgroup hierarchies are mounted; "" for none.
func CgroupMode(mounts []Mount) string {
	v1, v2 := false, false
	for _, m := range mounts {
		v1 = v1 || m.Type == "cgroup" && !strings.Contains(m.Options, "name=")
		v2 = v2 || m.Type == "cgroup2"
	}
	switch {
	case v1 && v2:
		return CgroupHybrid
	case v1:
		return CgroupV1
	case v2:
		return CgroupV2
	}
	return ""
}

// Line returns a file's first line; "" if it cannot be read.
func Line(root fs.FS, name string) string {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}

// Hypervisor names the machine's hypervisor; "" if it appears to be physical.
func Hypervisor(root fs.FS, info CPUInfo) string {
	if kind := Line(root, "sys/hypervisor/type"); kind != "" {
		return kind
	}
	vendor := Line(root, "sys/class/dmi/id/sys_vendor")
	product := Line(root, "sys/class/dmi/id/product_name")
	for _, known := range [...]struct{ text, name string }{
		{"QEMU", "KVM/QEMU"}, {"KVM", "KVM"}, {"VMware", "VMware"}, {"VirtualBox", "VirtualBox"},
		{"innotek", "VirtualBox"}, {"Amazon EC2", "Amazon EC2"}, {"Google Compute Engine", "Google Compute Engine"},
		{"Microsoft Corporation Virtual", "Hyper-V"}, {"Xen", "Xen"},
	} {
		if strings.Contains(vendor+" "+product, known.text) {
			return known.name
		}
	}
	available := Line(root, "sys/devices/system/clocksource/clocksource0/available_clocksource")
	switch {
	case strings.Contains(available, "kvm-clock"):
		return "KVM"
	case strings.Contains(available, "hyperv"):
		return "Hyper-V"
	case strings.Contains(available, "xen"):
		return "Xen"
	case info.Hypervisor:
		return "unknown hypervisor"
	}
	return ""
}

// Machine describes the machine whose root directory is root. Unreadable values
// stay empty.
func Machine(root fs.FS) record.Machine {
	read := func(name string) []byte {
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return nil
		}
		return data
	}
	info := ParseCPUInfo(read("proc/cpuinfo"))
	return record.Machine{
		CPUModel:    info.Model,
		CPUs:        info.CPUs,
		MemoryBytes: ParseMeminfo(read("proc/meminfo"))["MemTotal"],
		Kernel:      Line(root, "proc/sys/kernel/osrelease"),
		OS:          osName(read("etc/os-release")),
		Virtual:     Hypervisor(root, info),
		ClockSource: Line(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"),
		Governor:    Line(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		CgroupMode:  CgroupMode(ParseMounts(read("proc/mounts"))),
		NodeArch:    runtime.GOARCH,
	}
}

// osName returns PRETTY_NAME of os-release.
func osName(data []byte) string {
	for line := range bytes.Lines(data) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}
