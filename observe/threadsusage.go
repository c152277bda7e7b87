package observe

import (
	"errors"
	"fmt"

	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/record"
)

// threadKey identifies a thread even if its ID is reused.
type threadKey struct {
	pid, tid int
	start    uint64
}

// Since returns what a target's threads did between two samples. Threads that
// started in between count in full. The use of threads that ended in between is
// known per process, from the process's own counters. Processes that ended in
// between are part of the remainder of the cgroup's counter. The error wraps
// ErrReset if the cgroup is a different one.
func (s ThreadsSample) Since(before ThreadsSample) (record.Threads, error) {
	a, b := before.CPU, s.CPU
	for _, missing := range []string{before.Missing, s.Missing} {
		if missing != "" {
			return record.Threads{}, errors.New(missing)
		}
	}
	if b.TotalNS < a.TotalNS || b.Inode != a.Inode {
		return record.Threads{}, fmt.Errorf("threads: cgroup CPU counters: %w", ErrReset)
	}
	out := record.Threads{
		Seconds: float64(s.AtUnixNS-before.AtUnixNS-(s.SteppedNS-before.SteppedNS)) / 1e9, CPUS: rise(a.TotalNS, b.TotalNS) / 1e9,
		UnsureS: float64(before.UnsureNS+s.UnsureNS) / 2 / 1e9, QuotaCores: s.QuotaCores,
		Periods: int64(rise(a.Periods, b.Periods)), Throttled: int64(rise(a.Throttled, b.Throttled)),
		ThrottledS: rise(a.ThrottledNS, b.ThrottledNS) / 1e9, Threads: []record.Thread{},
	}
	earlier := map[threadKey]ThreadSample{}
	for _, t := range before.Threads {
		earlier[threadKey{t.PID, t.TID, t.Start}] = t
	}
	commands := map[int]string{}
	for _, p := range s.Processes {
		commands[p.PID] = p.Command
	}
	live := map[int]float64{} // seconds used by live threads, by process
	all := 0.0
	for _, t := range s.Threads {
		key := threadKey{t.PID, t.TID, t.Start}
		was, old := earlier[key]
		delete(earlier, key)
		thread := record.Thread{Process: commands[t.PID], PID: t.PID, TID: t.TID, Name: t.Name, Began: !old,
			CPU: t.cpu(was), WaitS: rise(was.WaitNS, t.WaitNS) / 1e9,
			Voluntary: int64(rise(was.Voluntary, t.Voluntary)), Involuntary: int64(rise(was.Involuntary, t.Involuntary))}
		out.Threads = append(out.Threads, thread)
		live[t.PID] += thread.CPU.TotalS()
		all += thread.CPU.TotalS()
	}
	out.Ended = len(earlier)
	out.EndedS = s.endedSince(before, live)
	out.UnaccountedS = out.CPUS - all - out.EndedS
	return out, nil
}

// cpu returns the thread's CPU time since an earlier sample: the scheduler's
// sum, split in proportion to the ticks in between, or those since its start if
// there were none.
func (t ThreadSample) cpu(was ThreadSample) record.CPU {
	user, system := rise(was.UserTicks, t.UserTicks), rise(was.SystemTicks, t.SystemTicks)
	if (user+system)*procfs.TickNS < rise(was.RunNS, t.RunNS)/2 {
		user, system = float64(t.UserTicks), float64(t.SystemTicks)
	}
	return divided(rise(was.RunNS, t.RunNS)/1e9, user, system)
}

// endedSince returns the CPU time, in seconds, of ended threads of processes
// that were present at both ends or started in between: the processes' own
// counters less their live threads'.
func (s ThreadsSample) endedSince(before ThreadsSample, live map[int]float64) float64 {
	was := map[threadKey]uint64{}
	for _, p := range before.Processes {
		was[threadKey{pid: p.PID, start: p.Start}] = p.TotalNS
	}
	sum := 0.0
	for _, p := range s.Processes {
		old, there := was[threadKey{pid: p.PID, start: p.Start}]
		if p.TotalNS == 0 || there && old == 0 {
			continue // its own counter cannot be read
		}
		// Thread times are read slightly later than their process's total,
		// which explains negative and very small positive values.
		if rest := rise(old, p.TotalNS)/1e9 - live[p.PID]; rest > 100e-6 {
			sum += rest
		}
	}
	return sum
}
