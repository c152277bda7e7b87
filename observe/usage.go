package observe

import (
	"errors"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// ErrReset is wrapped by errors about counters that restarted between two samples: the
// container or proxy restarted, so the cost of the window is unknown.
var ErrReset = errors.New("restarted within the window")

// Since returns the CPU time that a target used between two samples. The total is
// exact; it is split into user and system time in proportion to the kernel's estimates
// for the window.
func (s Sample) Since(before Sample) (record.CPU, error) {
	if before.Error != "" {
		return record.CPU{}, fmt.Errorf("at the start of the window: %s", before.Error)
	}
	if s.Error != "" {
		return record.CPU{}, fmt.Errorf("at the end of the window: %s", s.Error)
	}
	a, b := before.CPU, s.CPU
	if b.TotalNS < a.TotalNS || b.Inode != a.Inode {
		return record.CPU{}, fmt.Errorf("cgroup CPU counters: %w", ErrReset)
	}
	user, system := rise(a.UserNS, b.UserNS), rise(a.SystemNS, b.SystemNS)
	if user+system == 0 { // too short for a tick: use the proportion since the start
		user, system = float64(b.UserNS), float64(b.SystemNS)
	}
	cpu := divided(float64(b.TotalNS-a.TotalNS)/1e9, user, system)
	cpu.ThrottledS = rise(a.ThrottledNS, b.ThrottledNS) / 1e9
	return cpu, nil
}

// divided divides a total into user and system time in proportion to estimates of them.
func divided(total, user, system float64) record.CPU {
	if user+system == 0 {
		return record.CPU{UserS: total}
	}
	s := total * system / (user + system)
	return record.CPU{UserS: total - s, SystemS: s}
}

// Elapsed returns the time since another sample, unaffected by steps of the wall
// clock.
func (m MachineSample) Elapsed(before MachineSample) time.Duration {
	return time.Duration(m.AtUnixNS - before.AtUnixNS - (m.SteppedNS - before.SteppedNS))
}

// Since returns the CPU time that the whole node used between two samples, and its
// pressure. It excludes idle, waiting and stolen time, and counts interrupt handling
// as system time. If a cgroup has the exact sum, ticks only split it into user and
// system time.
func (m MachineSample) Since(before MachineSample) (record.CPU, record.Pressure, error) {
	elapsed := float64(m.Elapsed(before))
	if elapsed <= 0 {
		return record.CPU{}, record.Pressure{}, fmt.Errorf("the samples are %s apart", time.Duration(elapsed))
	}
	if m.UserNS < before.UserNS || m.SystemNS < before.SystemNS {
		return record.CPU{}, record.Pressure{}, fmt.Errorf("machine CPU counters: %w", ErrReset)
	}
	user := rise(before.UserNS, m.UserNS)
	system := rise(before.SystemNS, m.SystemNS) + rise(before.IRQNS, m.IRQNS) + rise(before.SoftIRQNS, m.SoftIRQNS)
	steal := rise(before.StealNS, m.StealNS)
	all := user + system + steal + rise(before.IdleNS, m.IdleNS)
	pressure := record.Pressure{
		CPUSomeRatio:    rise(before.CPUSomeNS, m.CPUSomeNS) / elapsed,
		MemorySomeRatio: rise(before.MemorySomeNS, m.MemorySomeNS) / elapsed,
		IOSomeRatio:     rise(before.IOSomeNS, m.IOSomeNS) / elapsed,
	}
	if all > 0 {
		pressure.StealRatio = steal / all
		pressure.BusyRatio = (user + system) / all
	}
	total := user + system
	if before.TotalNS > 0 && m.TotalNS >= before.TotalNS && total > 0 {
		total = rise(before.TotalNS, m.TotalNS)
	}
	return divided(total/1e9, user, system), pressure, nil
}

// Record converts the sample to the form of a trial's record.
func (m MemorySample) Record() record.Memory {
	return record.Memory{PSSBytes: m.PSSBytes, CgroupBytes: m.CgroupBytes, Processes: m.Processes}
}

// rise returns b-a, or 0 if a counter decreased: idle and iowait of /proc/stat may
// decrease by a tick.
func rise(a, b uint64) float64 {
	if b < a {
		return 0
	}
	return float64(b - a)
}
