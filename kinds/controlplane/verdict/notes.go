package verdict

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings about control-plane trials.
var (
	noteEnvoysEvery   = note.Define("envoys_read_every", "the time at which real Envoys applied a change is known to within %.3g ms")
	noteClockMoved    = note.Define("simulators_clock_moved", "the simulated sidecars' clock drifted by %.3g ms (±%.3g ms) from this machine's in the window: times of the last changes are off by that")
	noteClockBound    = note.Define("simulators_clock_unsure", "the simulated sidecars' clock is known to within %.3g ms")
	noteClocksApart   = note.Define("simulators_clocks_apart", "the offset between the simulators' clocks is known only to %.1f ms: synchronize the nodes' clocks by NTP, or run closer to the cluster")
	noteOthersChanged = note.Define("others_connected_changed", "%d proxies outside the study are connected to this istiod when the window begins and %d when it ends: its pushes, bytes, CPU and memory include theirs, and what new proxies receive")
	// NoteOthers applies to an istiod that also serves other proxies.
	NoteOthers    = note.Define("others_connected", "%d proxies outside the study are connected to this istiod: its pushes, bytes, CPU and memory include theirs")
	noteMissed    = note.Define("sightings_missed", "%d of %d sightings did not occur within %v of the last change: some proxies that needed a change do not have it")
	noteUnneeded  = note.Define("sent_beyond_scope", "%d times a proxy received a change outside its scope")
	noteLostLines = note.Define("log_lines_lost", "%d of the %d log lines of istiod's pushes are lost or were never written: their stages come from its metrics")

	noteStageEarly = note.Define("stage_ends_early", "stage %s is %.1f ms: its end was recorded before its beginning")

	noteFailuresApart  = note.Define("traffic_failures_apart", "the generator counted %d failed requests, its sidecar %d")
	noteConnectionWait = note.Define("traffic_waited", "1%% of the requests waited over %.0f ms for one of %d connections because others hung: fewer hit stale endpoints than at the full rate")
	noteNoArrivals     = note.Define("no_arrival_times", "the kernel gave no arrival times: receipts include the time the simulated sidecars took to read, about as much as their timers are late")
	noteSimulatorCPU   = note.Define("simulators_cpu", "the simulated sidecars used %.0f%% of the CPU that istiod used")
	noteEnvoysCPU      = note.Define("real_sidecars_cpu", "the real sidecars used %.0f%% of the machine's CPU use, mostly to report their configuration: this trial's figures include that")

	noteUnserved   = note.Define("routes_unserved", "%d of %d routes were still not served at the end")
	noteRelapsed   = note.Define("routes_relapsed", "%d of %d routes stopped being served after their first successful response")
	noteRoutesLate = note.Define("routes_asked_late", "requests through the gateway were sent up to %.3g ms late, and %d not at all: the times when routes were served are that much less precise")
	noteUnattached = note.Define("status_lacks_routes", "the Gateway's status never had all of %d routes")
	noteStillThere = note.Define("status_keeps_routes", "the Gateway's status still had routes that had been deleted")
	noteTooMany    = note.Define("status_has_more_routes", "the Gateway's status counted %d routes too many")

	noteBlind       = note.Define("disruption_looks_lack", "%v: peaks come from the other samples")
	noteRestarted   = note.Define("istiod_restarted", "istiod's container in pod %s restarted after the disruption")
	noteNotReady    = note.Define("istiod_not_ready", "istiod's new replicas were not all ready %.0f s after the disruption")
	noteNotRestored = note.Define("proxies_lack", "%d of %d proxies still lacked some of their configuration %.0f s after the disruption")
)
