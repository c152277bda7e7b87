package verdict

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings about data-plane trials.
var (
	noteUnsteady    = note.Define("unsteady_warmup", "%v")
	noteNoGaps      = note.Define("no_gaps", "no gap between the generator's actions is known for %d requests: whether it kept its schedule was not checked")
	noteClumps      = note.Define("gaps_not_exponential", "gaps between the generator's actions are %.3f from exponential ones: it was held up, and requests left in clumps")
	noteUneven      = note.Define("gaps_uneven", "gaps between the generator's actions are off by %.0f%% of the gap asked for: it was held up, and requests left in clumps")
	noteClocksApart = note.Define("generators_apart", "how far apart the generators began is known to %.1f ms only: set the clocks of nodes by NTP, or run closer to the cluster")
)
