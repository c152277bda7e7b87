package record

import (
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/note"
)

// Threads is where a part's CPU time went, thread by thread, from just before
// the window to just after it.
type Threads struct {
	Seconds float64 `json:"s"` // between the two readings
	// CPUS is what the kernel charged to the part's cgroup meanwhile.
	CPUS float64 `json:"cpu_s"`
	// Threads are those that were there at the end, by process and id.
	Threads []Thread `json:"threads"`
	// EndedS is the CPU time of threads that ended meanwhile, Ended how many
	// of those were there at the beginning.
	EndedS float64 `json:"ended_s,omitempty"`
	Ended  int     `json:"ended,omitempty"`
	// UnaccountedS is CPUS less that of all threads: what processes used that
	// came and went meanwhile, and what the two accounts differ by.
	UnaccountedS float64 `json:"unaccounted_s"`
	// UnsureS is how far the cgroup's counter rose while threads were read:
	// the two accounts cannot agree closer.
	UnsureS float64 `json:"unsure_s,omitempty"`
	// QuotaCores is the cgroup's CPU limit; 0 for none.
	QuotaCores float64 `json:"quota_cores,omitempty"`
	// Periods are the kernel's periods of CPU bandwidth in which the part had
	// something to run, Throttled those in which it used its quota up, and
	// ThrottledS how long its run queues were held back, over all CPUs.
	Periods    int64   `json:"periods,omitempty"`
	Throttled  int64   `json:"throttled_periods,omitempty"`
	ThrottledS float64 `json:"throttled_s,omitempty"`
	// Missing says what could not be read and why.
	Missing string `json:"missing,omitempty"`
}

// Thread is one thread of a part.
type Thread struct {
	Process string `json:"process"` // command of its process, up to 15 bytes
	PID     int    `json:"pid"`
	TID     int    `json:"tid"`
	Name    string `json:"name"` // up to 15 bytes
	// CPU is the scheduler's own sum; user and kernel are split as the
	// kernel's ticks say.
	CPU CPU `json:"cpu"`
	// WaitS is the time it was ready and waited for a CPU.
	WaitS float64 `json:"wait_s"`
	// Voluntary counts the times it gave its CPU away to wait for something,
	// Involuntary those in which it was taken.
	Voluntary   int64 `json:"voluntary_switches"`
	Involuntary int64 `json:"involuntary_switches"`
	Began       bool  `json:"began,omitempty"` // after the first reading
	// Accepted counts the connections that a proxy's worker thread accepted in
	// the whole trial, warm-up included; nil for other threads, and where the
	// proxy does not tell.
	Accepted *int64 `json:"accepted_connections,omitempty"`
}

// workerPrefix begins the names of Envoy's worker threads.
const workerPrefix = "wrk:worker_"

// Worker is the number of the proxy's worker that the thread is; false for
// other threads.
func (t Thread) Worker() (n int, ok bool) {
	text, ok := strings.CutPrefix(t.Name, workerPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// Serving are the threads that serve requests, as far as their names tell: a
// proxy's workers, or else all.
func Serving(all []Thread) []Thread {
	workers := slices.DeleteFunc(slices.Clone(all), func(t Thread) bool { _, ok := t.Worker(); return !ok })
	if len(workers) == 0 {
		return all
	}
	return workers
}

// Main reports whether the thread is the first of its process.
func (t Thread) Main() bool { return t.PID == t.TID }

// ThreadsSummary is what a part's threads did in a cell, means over its valid
// trials.
type ThreadsSummary struct {
	Trials int `json:"trials"`
	// Cores that the part used by the kernel's account of its cgroup, and
	// that its CPU limit allows (0 for none).
	Cores      float64 `json:"cores"`
	QuotaCores float64 `json:"quota_cores,omitempty"`
	// ThrottledRatio is the share of periods of CPU bandwidth in which the
	// limit held it back.
	ThrottledRatio float64 `json:"throttled_ratio"`
	// ImbalanceRatio is how much more than the mean of all workers the busiest
	// one used, as a share of the mean; 0 if they are even.
	ImbalanceRatio float64 `json:"imbalance_ratio,omitempty"`
	// DisagreementRatio is by how much of its CPU time, in the worst trial,
	// threads and cgroup did not agree.
	DisagreementRatio float64     `json:"disagreement_ratio"`
	Rows              []ThreadRow `json:"rows"`
	// Limit names what holds the part back, one of the Limit constants, "" if
	// nothing does; Says is the evidence.
	Limit string    `json:"limit,omitempty"`
	Says  note.Note `json:"says,omitzero"`
}

// What can hold a proxy back.
const (
	LimitConcurrency = "concurrency" // all workers are busy all the time
	LimitCPU         = "cpu_limit"   // its container's CPU limit
	LimitImbalance   = "imbalance"   // one worker is, the others are not
	LimitMain        = "main_thread" // the main thread is
	LimitMachine     = "machine"     // workers wait for a CPU that others have
)

// ThreadRow is a worker, a main thread, or several threads together. Ratios
// are of one CPU's time.
type ThreadRow struct {
	Name        string  `json:"name"` // "worker_0", "main", "others", "pilot-agent"...
	Worker      bool    `json:"worker,omitempty"`
	Threads     int     `json:"threads"` // at most, over trials
	UserRatio   float64 `json:"user_ratio"`
	SystemRatio float64 `json:"system_ratio"`
	WaitRatio   float64 `json:"wait_ratio"` // ready, without a CPU
	// Switches per second.
	VoluntaryPerS   float64 `json:"voluntary_per_s"`
	InvoluntaryPerS float64 `json:"involuntary_per_s"`
	// Accepted counts the connections that a worker accepted in a trial, the
	// median over trials; nil where the proxy does not tell.
	Accepted *int64 `json:"accepted_connections,omitempty"`
}

// BusyRatio is the share of one CPU's time that the row's threads ran.
func (r ThreadRow) BusyRatio() float64 { return r.UserRatio + r.SystemRatio }
