package verdict

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings about data-plane trials.
var (
	noteUnsteady    = note.Define("unsteady_warmup", "%v")
	noteNoGaps      = note.Define("no_gaps", "the gaps between the generator's actions are unknown for %d requests: whether it kept its schedule was not checked")
	noteClumps      = note.Define("gaps_not_exponential", "the distance of the gaps between the generator's actions from an exponential distribution is %.3f: it was delayed, and sent requests in bursts")
	noteUneven      = note.Define("gaps_uneven", "gaps between the generator's actions deviate by %.0f%% of the requested gap: it was delayed, and sent requests in bursts")
	noteClocksApart = note.Define("generators_apart", "the offset between the generators' starts is known only to %.1f ms: synchronize the nodes' clocks by NTP, or run closer to the cluster")
)
