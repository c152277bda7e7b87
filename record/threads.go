package record

import (
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/note"
)

// Threads is the CPU time of a part, thread by thread, from just before the
// window to just after it.
type Threads struct {
	Seconds float64 `json:"s"` // between the two readings
	// CPUS is what the kernel charged to the part's cgroup in that time.
	CPUS float64 `json:"cpu_s"`
	// Threads has the threads that existed at the end, by process and ID.
	Threads []Thread `json:"threads"`
	// EndedS is the CPU time of threads that ended in between. Ended is the
	// number of those that existed at the beginning.
	EndedS float64 `json:"ended_s,omitempty"`
	Ended  int     `json:"ended,omitempty"`
	// UnaccountedS is CPUS less the total of all threads: the use of processes
	// that came and went in between, and any difference between the two
	// accounts.
	UnaccountedS float64 `json:"unaccounted_s"`
	// UnsureS is how far the cgroup's counter rose while the threads were read,
	// which bounds how closely the two accounts can agree.
	UnsureS float64 `json:"unsure_s,omitempty"`
	// QuotaCores is the cgroup's CPU limit; 0 for none.
	QuotaCores float64 `json:"quota_cores,omitempty"`
	// Periods counts the kernel's CPU bandwidth periods in which the part was
	// runnable, Throttled those in which it exhausted its quota. ThrottledS is
	// how long its run queues were throttled, over all CPUs.
	Periods    int64   `json:"periods,omitempty"`
	Throttled  int64   `json:"throttled_periods,omitempty"`
	ThrottledS float64 `json:"throttled_s,omitempty"`
	// Missing says what could not be read, and why.
	Missing string `json:"missing,omitempty"`
}

// Thread is one thread of a part.
type Thread struct {
	Process string `json:"process"` // command of its process, up to 15 bytes
	PID     int    `json:"pid"`
	TID     int    `json:"tid"`
	Name    string `json:"name"` // up to 15 bytes
	// CPU is the scheduler's own total, split into user and kernel time by the
	// kernel's ticks.
	CPU CPU `json:"cpu"`
	// WaitS is the time during which the thread was ready but waited for a CPU.
	WaitS float64 `json:"wait_s"`
	// Voluntary counts the times the thread yielded its CPU to wait for
	// something, Involuntary the times it was preempted.
	Voluntary   int64 `json:"voluntary_switches"`
	Involuntary int64 `json:"involuntary_switches"`
	Began       bool  `json:"began,omitempty"` // after the first reading
	// Accepted counts the connections that a proxy's worker thread accepted in
	// the whole trial, including warm-up; nil for other threads, and if the
	// proxy does not report it.
	Accepted *int64 `json:"accepted_connections,omitempty"`
}

// workerPrefix is the prefix of the names of Envoy's worker threads.
const workerPrefix = "wrk:worker_"

// Worker returns the number of the proxy's worker that runs on the thread;
// false for other threads.
func (t Thread) Worker() (n int, ok bool) {
	text, ok := strings.CutPrefix(t.Name, workerPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// Serving returns the threads that serve requests, judged by name: a proxy's
// workers, or all threads if there are none.
func Serving(all []Thread) []Thread {
	workers := slices.DeleteFunc(slices.Clone(all), func(t Thread) bool { _, ok := t.Worker(); return !ok })
	if len(workers) == 0 {
		return all
	}
	return workers
}

// Main reports whether the thread is the first of its process.
func (t Thread) Main() bool { return t.PID == t.TID }

// ThreadsSummary describes a part's threads in a cell, as means over its valid
// trials.
type ThreadsSummary struct {
	Trials int `json:"trials"`
	// Cores is what the part used according to its cgroup, QuotaCores what its
	// CPU limit allows (0 for none).
	Cores      float64 `json:"cores"`
	QuotaCores float64 `json:"quota_cores,omitempty"`
	// ThrottledRatio is the share of CPU bandwidth periods in which the limit
	// throttled it.
	ThrottledRatio float64 `json:"throttled_ratio"`
	// ImbalanceRatio is how far the busiest worker exceeds the mean of all
	// workers, as a share of the mean; 0 if they are even.
	ImbalanceRatio float64 `json:"imbalance_ratio,omitempty"`
	// DisagreementRatio is the share of its CPU time by which threads and
	// cgroup disagreed in the worst trial.
	DisagreementRatio float64     `json:"disagreement_ratio"`
	Rows              []ThreadRow `json:"rows"`
	// Limit names what limits the part, one of the Limit constants; "" if
	// nothing does. Says has the evidence.
	Limit string    `json:"limit,omitempty"`
	Says  note.Note `json:"says,omitzero"`
}

// What can limit a proxy.
const (
	LimitConcurrency = "concurrency" // all workers are always busy
	LimitCPU         = "cpu_limit"   // its container's CPU limit
	LimitImbalance   = "imbalance"   // one worker is always busy, the others are not
	LimitMain        = "main_thread" // the main thread is always busy
	LimitMachine     = "machine"     // workers wait for CPUs that others occupy
)

// ThreadRow is a worker, a main thread, or several threads together. Ratios are
// shares of one CPU.
type ThreadRow struct {
	Name        string  `json:"name"` // "worker_0", "main", "others", "pilot-agent"...
	Worker      bool    `json:"worker,omitempty"`
	Threads     int     `json:"threads"` // maximum over trials
	UserRatio   float64 `json:"user_ratio"`
	SystemRatio float64 `json:"system_ratio"`
	WaitRatio   float64 `json:"wait_ratio"` // ready, without a CPU
	// Voluntary and involuntary switches per second.
	VoluntaryPerS   float64 `json:"voluntary_per_s"`
	InvoluntaryPerS float64 `json:"involuntary_per_s"`
	// Accepted counts the connections that a worker accepted in a trial, as a
	// median over trials; nil if the proxy does not report it.
	Accepted *int64 `json:"accepted_connections,omitempty"`
}

// BusyRatio returns the share of one CPU's time during which the row's threads
// ran.
func (r ThreadRow) BusyRatio() float64 { return r.UserRatio + r.SystemRatio }
