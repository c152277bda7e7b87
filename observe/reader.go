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

	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/record/probe"
	"golang.org/x/sys/unix"
)

// reader reads one target. It keeps the counters' files open, so that a sample
// takes only a few preads, and so that a cgroup recreated under the same path
// is not mistaken for the old one.
type reader struct {
	finder *finder
	path   string
	inode  uint64
	gone   error // why nothing is open: a target with MayEnd that has ended

	usage, user, system, stat, throttle *os.File
}

// open opens a target's counters.
func (f *finder) open(t Target) (*reader, error) {
	path, err := f.find(t)
	if err != nil {
		return nil, err
	}
	r := &reader{finder: f, path: path}
	dir := filepath.Join(f.cpuacct, path)
	var info unix.Stat_t
	if err := unix.Stat(dir, &info); err != nil {
		return nil, fmt.Errorf("target %q: %w: %w", t.Name, errNotFound, err)
	}
	r.inode = info.Ino
	if f.version == 2 {
		r.stat, err = os.Open(filepath.Join(dir, "cpu.stat"))
	} else {
		r.usage, err = os.Open(filepath.Join(dir, "cpuacct.usage"))
		if err == nil {
			r.user, err = os.Open(filepath.Join(dir, "cpuacct.usage_user"))
		}
		if err == nil {
			r.system, err = os.Open(filepath.Join(dir, "cpuacct.usage_sys"))
		}
		if errors.Is(err, os.ErrNotExist) && r.usage != nil { // before Linux 4.7
			r.stat, err = os.Open(filepath.Join(dir, "cpuacct.stat"))
		}
		if f.cpu != "" {
			r.throttle, _ = os.Open(filepath.Join(f.cpu, path, "cpu.stat")) // absent without bandwidth control
		}
	}
	if err != nil {
		r.close()
		return nil, fmt.Errorf("target %q: %w", t.Name, err)
	}
	return r, nil
}

func (r *reader) close() {
	for _, file := range []*os.File{r.usage, r.user, r.system, r.stat, r.throttle} {
		if file != nil {
			file.Close()
		}
	}
}

// processes returns the PIDs of the target.
func (r *reader) processes() ([]int, error) {
	if r.gone != nil {
		return nil, r.gone
	}
	return r.finder.processes(r.path)
}

// cpu reads the CPU counters.
func (r *reader) cpu() (CPUSample, error) {
	if r.gone != nil {
		return CPUSample{}, r.gone
	}
	sample := CPUSample{Inode: r.inode}
	var err error
	if r.finder.version == 2 {
		var keys map[string]uint64
		if keys, err = readKeys(r.stat); err != nil {
			return CPUSample{}, err
		}
		sample.TotalNS = keys["usage_usec"] * 1000
		sample.UserNS = keys["user_usec"] * 1000
		sample.SystemNS = keys["system_usec"] * 1000
		sample.throttling(keys, "throttled_usec", 1000)
		return sample, nil
	}
	if sample.TotalNS, err = readUint(r.usage); err != nil {
		return CPUSample{}, err
	}
	if r.system != nil {
		if sample.UserNS, err = readUint(r.user); err == nil {
			sample.SystemNS, err = readUint(r.system)
		}
	} else {
		var keys map[string]uint64
		keys, err = readKeys(r.stat)
		sample.UserNS = keys["user"] * procfs.TickNS
		sample.SystemNS = keys["system"] * procfs.TickNS
	}
	if err != nil {
		return CPUSample{}, err
	}
	if r.throttle != nil {
		if keys, err := readKeys(r.throttle); err == nil {
			sample.throttling(keys, "throttled_time", 1)
		}
	}
	return sample, nil
}

func (s *CPUSample) throttling(keys map[string]uint64, time string, unit uint64) {
	s.ThrottledNS = keys[time] * unit
	s.Throttled = keys["nr_throttled"]
	s.Periods = keys["nr_periods"]
}

// memory reads the cgroup's charged memory and its processes' PSS. The latter
// makes the kernel walk their page tables.
func (r *reader) memory(procRoot string) *MemorySample {
	sample := &MemorySample{PSSByCommand: map[string]int64{}}
	file := "memory.current"
	if r.finder.version == 1 {
		file = "memory.usage_in_bytes"
	}
	if r.finder.memory == "" {
		sample.Missing = "no memory controller is mounted"
	} else if data, err := os.ReadFile(filepath.Join(r.finder.memory, r.path, file)); err != nil {
		sample.Missing = err.Error()
	} else if bytes, err := procfs.ParseUint(data); err == nil {
		sample.CgroupBytes = int64(bytes)
	}
	pids, err := r.processes()
	if err != nil {
		sample.Missing = err.Error()
		return sample
	}
	for _, pid := range pids {
		data, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "smaps_rollup"))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			sample.Missing = fmt.Sprintf("%v (PSS needs CAP_SYS_PTRACE or the same user)", err)
			continue
		}
		memory, err := procfs.ParseSmapsRollup(data)
		if err != nil {
			sample.Missing = err.Error()
			continue
		}
		sample.Processes++
		sample.PSSBytes += memory.PSS
		sample.RSSBytes += memory.RSS
		if command, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "comm")); err == nil {
			sample.PSSByCommand[strings.TrimSpace(string(command))] += memory.PSS
		}
	}
	if len(pids) == 0 {
		sample.Missing = "its cgroup shows no process (is this a pod with hostPID?)"
	}
	return sample
}

// net reads the TCP counters of the target's network namespace; nil if no
// process is left.
func (r *reader) net(procRoot string) *NetSample {
	pids, err := r.processes()
	if err != nil {
		return nil
	}
	for _, pid := range pids {
		data, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "net", "snmp"))
		if err != nil {
			continue
		}
		snmp := procfs.ParseSNMP(data)
		value := func(name string) uint64 { return uint64(max(snmp["Tcp."+name], 0)) }
		return &NetSample{Established: value("CurrEstab"), ActiveOpens: value("ActiveOpens"), PassiveOpen: value("PassiveOpens"), Retransmits: value("RetransSegs")}
	}
	return nil
}

// probe reads the counters of a probe of the target; nil if it has no readable
// process.
func (r *reader) probe(procRoot string, p probe.Probe) map[string]uint64 {
	pids, err := r.processes()
	if err != nil {
		return nil
	}
	for _, pid := range pids {
		if counted, err := p.Read(os.DirFS(filepath.Join(procRoot, strconv.Itoa(pid)))); err == nil {
			return counted
		}
	}
	return nil
}

// machineReader reads the whole node.
type machineReader struct {
	stat                   *os.File
	total                  *os.File // of all tasks; nil if no cgroup has it
	cpuPSI, memPSI, blkPSI *os.File // nil without PSI
	bootID                 string
}

func openMachine(procRoot string, f *finder) (*machineReader, error) {
	m := &machineReader{}
	var err error
	if f.version == 1 { // the root of version 2 only has the kernel's ticks
		m.total, _ = os.Open(filepath.Join(f.cpuacct, "cpuacct.usage"))
	}
	if m.stat, err = os.Open(filepath.Join(procRoot, "stat")); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	if data, err := os.ReadFile(filepath.Join(procRoot, "sys/kernel/random/boot_id")); err == nil {
		m.bootID = strings.TrimSpace(string(data))
	}
	for name, file := range map[string]**os.File{"cpu": &m.cpuPSI, "memory": &m.memPSI, "io": &m.blkPSI} {
		*file, _ = os.Open(filepath.Join(procRoot, "pressure", name)) // absent without PSI
	}
	return m, nil
}

func (m *machineReader) close() {
	for _, file := range []*os.File{m.stat, m.total, m.cpuPSI, m.memPSI, m.blkPSI} {
		if file != nil {
			file.Close()
		}
	}
}

// sample reads the node's counters at now.
func (m *machineReader) sample(now frame) (MachineSample, error) {
	data, err := readAll(m.stat)
	if err != nil {
		return MachineSample{}, err
	}
	out := MachineSample{AtUnixNS: now.ns(), SteppedNS: now.steppedNS, BootID: m.bootID}
	if m.total != nil {
		if out.TotalNS, err = readUint(m.total); err != nil {
			return MachineSample{}, err
		}
	}
	stat, err := procfs.ParseStat(data)
	if err != nil {
		return MachineSample{}, err
	}
	out.CPUs = stat.CPUs
	out.UserNS = (stat.User + stat.Nice) * procfs.TickNS
	out.SystemNS = stat.System * procfs.TickNS
	out.IRQNS = stat.IRQ * procfs.TickNS
	out.SoftIRQNS = stat.SoftIRQ * procfs.TickNS
	out.StealNS = stat.Steal * procfs.TickNS
	out.IdleNS = (stat.Idle + stat.IOWait) * procfs.TickNS
	out.ContextSwitches = stat.ContextSwitches
	for _, part := range []struct {
		file *os.File
		into *uint64
	}{{m.cpuPSI, &out.CPUSomeNS}, {m.memPSI, &out.MemorySomeNS}, {m.blkPSI, &out.IOSomeNS}} {
		if part.file == nil {
			continue
		}
		// If PSI is disabled at boot, the file exists but reading it fails.
		data, err := readAll(part.file)
		if err != nil {
			continue
		}
		if pressure, err := procfs.ParsePressure(data); err == nil {
			out.Pressure = true
			*part.into = pressure.SomeUS * 1000
		}
	}
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		out.SelfS = float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	}
	return out, nil
}

// readAll reads a kernel file from its start without closing it.
func readAll(file *os.File) ([]byte, error) {
	buffer := make([]byte, 4096)
	n := 0
	for {
		read, err := file.ReadAt(buffer[n:], int64(n))
		n += read
		if errors.Is(err, io.EOF) {
			return buffer[:n], nil
		}
		if err != nil {
			return nil, err
		}
		buffer = append(buffer, make([]byte, len(buffer))...)
	}
}

func readUint(file *os.File) (uint64, error) {
	data, err := readAll(file)
	if err != nil {
		return 0, err
	}
	return procfs.ParseUint(data)
}

func readKeys(file *os.File) (map[string]uint64, error) {
	data, err := readAll(file)
	if err != nil {
		return nil, err
	}
	return procfs.ParseKeys(data), nil
}
