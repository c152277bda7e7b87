// Package procfs parses the kernel's text files: /proc/stat, pressure, cgroup
// counters, memory maps, and the description of a machine. Parsers take a file's
// bytes and have no side effects. [Machine] reads a file system that the caller
// passes, which tests can fake. An [Identity] identifies a process of this
// machine and tells whether it still runs.
package procfs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// TicksPerSecond is USER_HZ, the unit of /proc/stat and /proc/PID/stat. It is
// 100 on every architecture that Go runs Linux on.
const TicksPerSecond = 100

// TickNS is the length of a tick in nanoseconds.
const TickNS = 1e9 / TicksPerSecond

// Stat is /proc/stat. Times are in ticks since boot, over all CPUs.
type Stat struct {
	User, Nice, System, Idle, IOWait, IRQ, SoftIRQ, Steal uint64
	CPUs                                                  int
	ContextSwitches                                       uint64
}

// ParseStat parses /proc/stat.
func ParseStat(data []byte) (Stat, error) {
	var s Stat
	seen := false
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		switch {
		case fields[0] == "cpu":
			if len(fields) < 5 {
				return Stat{}, fmt.Errorf("/proc/stat: the cpu line has %d fields", len(fields))
			}
			into := []*uint64{&s.User, &s.Nice, &s.System, &s.Idle, &s.IOWait, &s.IRQ, &s.SoftIRQ, &s.Steal}
			for i, value := range into {
				if i+1 >= len(fields) {
					break
				}
				var err error
				if *value, err = strconv.ParseUint(fields[i+1], 10, 64); err != nil {
					return Stat{}, fmt.Errorf("/proc/stat: cpu: %w", err)
				}
			}
			seen = true
		case strings.HasPrefix(fields[0], "cpu"):
			s.CPUs++
		case fields[0] == "ctxt":
			s.ContextSwitches, _ = strconv.ParseUint(fields[1], 10, 64)
		}
	}
	if !seen {
		return Stat{}, fmt.Errorf("/proc/stat: no cpu line")
	}
	return s, nil
}

// Pressure is a file of /proc/pressure: how long some task waited for a resource.
type Pressure struct {
	SomeUS uint64 // microseconds since boot
}

// ParsePressure parses a pressure file.
func ParsePressure(data []byte) (Pressure, error) {
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0] != "some" {
			continue
		}
		for _, field := range fields[1:] {
			if value, ok := strings.CutPrefix(field, "total="); ok {
				us, err := strconv.ParseUint(value, 10, 64)
				return Pressure{us}, err
			}
		}
	}
	return Pressure{}, fmt.Errorf("pressure: no line \"some\" with a total")
}

// ParseKeys parses lines of "key value", as in cpu.stat, cpuacct.stat and
// memory.stat. It ignores other lines.
func ParseKeys(data []byte) map[string]uint64 {
	out := map[string]uint64{}
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) != 2 {
			continue
		}
		if value, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
			out[fields[0]] = value
		}
	}
	return out
}

// ParseUint parses a file that contains one number.
func ParseUint(data []byte) (uint64, error) {
	return strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
}

// Memory is a process's memory in bytes.
type Memory struct {
	RSS, PSS int64
}

// ParseSmapsRollup parses /proc/PID/smaps_rollup. A process without memory,
// such as a zombie or a kernel thread, has an empty file and no memory.
func ParseSmapsRollup(data []byte) (Memory, error) {
	var m Memory
	for line := range bytes.Lines(data) {
		key, rest, ok := strings.Cut(string(line), ":")
		if !ok || (key != "Rss" && key != "Pss") {
			continue
		}
		bytes, err := parseKB(rest)
		if err != nil {
			return Memory{}, fmt.Errorf("smaps_rollup: %s: %w", key, err)
		}
		if key == "Rss" {
			m.RSS = bytes
		} else {
			m.PSS = bytes
		}
	}
	return m, nil
}

// parseKB parses "  123 kB".
func parseKB(text string) (int64, error) {
	fields := strings.Fields(text)
	if len(fields) != 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("%.40q is not a number of kB", text)
	}
	kb, err := strconv.ParseInt(fields[0], 10, 53)
	if err != nil || kb < 0 {
		return 0, fmt.Errorf("%.40q is not a number of kB", text)
	}
	return kb * 1024, nil
}

// ParseMeminfo parses /proc/meminfo into bytes by name. It ignores entries that
// are counts rather than sizes.
func ParseMeminfo(data []byte) map[string]int64 {
	out := map[string]int64{}
	for line := range bytes.Lines(data) {
		key, rest, ok := strings.Cut(string(line), ":")
		if !ok {
			continue
		}
		if value, err := parseKB(rest); err == nil {
			out[key] = value
		}
	}
	return out
}

// ParseSNMP parses /proc/net/snmp into values by name, such as "Tcp.ActiveOpens".
func ParseSNMP(data []byte) map[string]int64 {
	out := map[string]int64{}
	var title string
	var names []string
	for line := range bytes.Lines(data) {
		protocol, rest, ok := strings.Cut(string(line), ":")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if protocol != title { // the first of a pair of lines
			title, names = protocol, fields
			continue
		}
		for i, field := range fields {
			if i >= len(names) {
				break
			}
			if value, err := strconv.ParseInt(field, 10, 64); err == nil {
				out[protocol+"."+names[i]] = value
			}
		}
		title = ""
	}
	return out
}

// Process is the content of /proc/PID/stat.
type Process struct {
	PID          int
	Command      string // up to 15 bytes
	State        byte
	Parent       int
	User, System uint64 // ticks
	StartTime    uint64 // ticks since boot
}

// ParseProcess parses /proc/PID/stat. The command is in parentheses and may
// itself contain spaces and parentheses.
func ParseProcess(data []byte) (Process, error) {
	text := string(data)
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return Process{}, fmt.Errorf("process stat: no command in %.60q", text)
	}
	var p Process
	var err error
	if p.PID, err = strconv.Atoi(strings.TrimSpace(text[:open])); err != nil {
		return Process{}, fmt.Errorf("process stat: %w", err)
	}
	p.Command = text[open+1 : end]
	fields := strings.Fields(text[end+1:])
	if len(fields) < 20 {
		return Process{}, fmt.Errorf("process stat: %d fields after the command", len(fields))
	}
	p.State = fields[0][0]
	p.Parent, err = strconv.Atoi(fields[1])
	for i, into := range map[int]*uint64{11: &p.User, 12: &p.System, 19: &p.StartTime} {
		if err == nil {
			*into, err = strconv.ParseUint(fields[i], 10, 64)
		}
	}
	if err != nil {
		return Process{}, fmt.Errorf("process stat: %w", err)
	}
	return p, nil
}
