package findings

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings of data-plane findings.
var (
	noteScatteredProxy = note.Define("proxies_scattered", "placement: Kubernetes put %s %v trials of the same cells, so their intervals mix different paths between nodes; blocks: {redeploy: 0} keeps pods where they are")
	noteScatteredPods  = note.Define("pods_scattered", "placement: Kubernetes put client and server %v trials, so some figures include the path between nodes and others do not; --set placement=same-node leaves it out, and the study placement measures it")
	noteMixedWays      = note.Define("mixed_ways", "%s: requests passed %v trials: figures of all proxies together mix these, figures of one proxy cover only trials that passed it; "+allOneWay)
	noteWindowsFall    = note.Define("windows_fall", "median latency falls by %v (±%v) from the first half of most windows to the second: windows begin before the system is steady, so all figures include part of its start: raise warmup.min")
	noteWindowsRise    = note.Define("windows_rise", "median latency rises by %v (±%v) from the first half of most windows to the second: something, such as a queue or the machine's load, grows during windows")
	noteKubelets       = note.Define("cpu_of_kubelets", "CPU and memory come from the kubelets: memory is the working set, not the resident or proportional set size, and user and kernel time are not separate[. CPU is interpolated between samples up to %.1f s apart: a trial's figure has a standard error of %v (median; the largest %v), and a maximum error of %v]")
	noteUnreadProfile  = note.Define("profile_unread", "profile of trial %s: %v")
	noteThinProfile    = note.Define("profile_of_few_samples", "profile of the %s: %v")
	noteFewSamples     = note.Define("few_samples", "only %d samples")
	noteFarTails       = note.Define("far_tails", "a sum of far-tail percentiles over %d cells: its interval misses slow trials that occur in few blocks, so it has no verdict")
	noteIdleShare      = note.Define("idle_share", "of %v cores, %v are the idle use of %s proxies, extrapolated")
	noteKnee           = note.Define("knee", "p99 is %v at %s requests per second, %v at %s and %v at %s")
	noteKneeElsewhere  = note.Define("knee_elsewhere", "beyond that something else is the bottleneck: the knee lies at or above %s requests per second")
	noteNoKnee         = note.Define("no_knee", "no measured rate is beyond the knee: p99 is %v at %s requests per second and %v at %s")
	noteAmongFailed    = note.Define("figure_among_failed", "not reached: it lies, or may lie, among requests that failed")
	noteOwnLimit       = note.Define("proxy_at_limit", "%v: %v")
	noteGaveOut        = note.Define("something_else_gave_out", "%v: %v")
)

// What limits a proxy.
var (
	noteFullMachine = note.Define("full_with_machine", workersRan+machineBusy+": it uses all of the machine's CPU, and more threads would not help")
	noteConcurrency = note.Define("full_workers", workersRan+": its concurrency of %d limits it"+machineBusy)
	noteCPULimit    = note.Define("throttled", workersRan+": that limit holds it back"+machineBusy)
	noteImbalance   = note.Define("uneven_workers", workersRan+": connections are unevenly spread over its workers[ (%v accepted)], and the busiest limits it"+machineBusy)
	noteRunQueue    = note.Define("in_run_queue", workersRan+", and spent %v in the run queue"+machineBusy+": the machine limits it")
	noteMainThread  = note.Define("full_main_thread", "the main thread of %s ran %v of the time, which delays configuration, statistics and the admin interface"+machineBusy)
)

const (
	workersRan  = "%v of %s ran %v of the time[, throttled in %v of the periods by a limit of %v CPUs]"
	machineBusy = "[; the machine's CPUs were %v busy]"
)
