package verdict

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings about control-plane trials.
var (
	noteEnvoysEvery   = note.Define("envoys_read_every", "when real Envoys had a change in force is known to within %.3g ms")
	noteClockMoved    = note.Define("simulators_clock_moved", "the simulated sidecars' clock moved by %.3g ms (known to within %.3g ms) against this machine's in the window: times of the last changes are off by that")
	noteClockBound    = note.Define("simulators_clock_unsure", "the simulated sidecars' clock is known to within %.3g ms")
	noteClocksApart   = note.Define("simulators_clocks_apart", "how far apart the simulators' clocks were is known to %.1f ms only: set the clocks of nodes by NTP, or run closer to the cluster")
	noteOthersChanged = note.Define("others_connected_changed", "%d proxies of others are connected to this istiod when the window begins and %d when it ends: its pushes, bytes, CPU and memory include theirs, and what a proxy that connects is sent")
	// NoteOthers applies to an istiod that also serves other proxies.
	NoteOthers    = note.Define("others_connected", "%d proxies of others are connected to this istiod: its pushes, bytes, CPU and memory include theirs")
	noteMissed    = note.Define("sightings_missed", "%d of %d sightings never came within %v of the last change: proxies that needed a change do not have it")
	noteUnneeded  = note.Define("sent_beyond_scope", "%d times a proxy was sent a change that its scope keeps from it")
	noteLostLines = note.Define("log_lines_lost", "%d of the %d log lines of istiod's pushes are lost, or were never written: their stages come from its metrics")

	noteNoStage    = note.Define("time_in_no_stage", "%.1f ms of a mean of %.1f ms are in no stage (%d of %d sightings are in istiod's log from end to end)")
	noteStageApart = note.Define("stage_apart", "stage %s is %.1f ms by %s, but %.1f ms by %s")
	noteStageEarly = note.Define("stage_ends_early", "stage %s is %.1f ms: its end was noted before its beginning")

	noteFailuresApart  = note.Define("traffic_failures_apart", "the generator saw %d requests fail, its sidecar knows of %d")
	noteConnectionWait = note.Define("traffic_waited", "1%% of the requests waited over %.0f ms for one of %d connections, since others hung: fewer met stale endpoints than at their full rate")
	noteNoArrivals     = note.Define("no_arrival_times", "the kernel gave no arrival times: receipts are late by what the simulated sidecars took to read, about as much as their timers are")
	noteSimulatorCPU   = note.Define("simulators_cpu", "the simulated sidecars used %.0f%% of the CPU that istiod used")
	noteEnvoysCPU      = note.Define("real_sidecars_cpu", "the real sidecars used %.0f%% of the CPU that the machine used, most of it to report what they have in force: this trial's figures include that")

	noteUnserved   = note.Define("routes_unserved", "%d of %d routes were still not served at the end")
	noteRelapsed   = note.Define("routes_relapsed", "%d of %d routes stopped being served after their first good answer")
	noteRoutesLate = note.Define("routes_asked_late", "requests through the gateway left up to %.3g ms late, and %d never left: the times when routes were served are that much less exact")
	noteUnattached = note.Define("status_lacks_routes", "the Gateway's status never had all of %d routes")
	noteStillThere = note.Define("status_keeps_routes", "the Gateway's status still had routes that had been deleted")
	noteTooMany    = note.Define("status_has_more_routes", "the Gateway's status had %d routes more than there were")

	noteBlind       = note.Define("disruption_looks_lack", "%v: peaks are from the others")
	noteRestarted   = note.Define("istiod_restarted", "istiod's container in pod %s restarted after the disruption")
	noteNotReady    = note.Define("istiod_not_ready", "istiod's new replicas were not all ready %.0f s after the disruption")
	noteNotRestored = note.Define("proxies_lack", "%d of %d proxies still lacked some of their configuration %.0f s after the disruption")
)
