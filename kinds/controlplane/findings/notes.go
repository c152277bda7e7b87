package findings

import "github.com/meshtrial/meshtrial/internal/note"

// FirstBucket warns of figures of istiod that only say that they are below the end of a bucket.
var FirstBucket = note.Define("first_bucket", "in %d of %d trials it falls into the first bucket of istiod's histogram, 0 to %s: the figure is interpolated within that bucket and only shows that it is below the upper bound")

// Warnings of control-plane findings.
var (
	noteIdleIncluded  = note.Define("idle_included", "includes idle use, which was not measured")
	noteMissed        = note.Define("pairs_missed", "%d of %d change-proxy pairs, in %d trials, for example %v")
	noteUnacked       = note.Define("pairs_unacked", "%d of %d change-proxy pairs were sent but never acknowledged; convergence covers the others")
	noteRefused       = note.Define("changes_refused", "the API server rejected %d changes, for example %v")
	noteHiddenLate    = note.Define("hidden_late", "a retry hid the failure from the caller but not the delay: up to %v before the retry")
	noteResidual      = note.Define("large_residual", "in %d of %d trials the stages leave more than %s unexplained, at most %v of %v")
	noteStageApart    = note.Define("stage_sources_apart", "in %d of %d trials two sources differ by more than %s, at most %v by %s, %v by %s")
	noteStageLacks    = note.Define("stage_not_measured", "not measured in %d of %d trials")
	notePairsApart    = note.Define("pairs_unexplained", "%d of %d change-proxy pairs differ from their own stages by more than %s, one by %v; such errors cancel in the mean[; %d of them belong to pushes that istiod does not log per proxy]")
	noteSurvivors     = note.Define("survivors", "%v of what %s needed never arrived or was never acknowledged: including that, this percentile was not reached; the figure covers the rest")
	noteFewChanges    = note.Define("few_changes", "a trial has %d change-proxy pairs but only %d changes: pairs of one change are correlated, and %d changes are needed to leave one beyond this percentile")
	noteSimulated     = note.Define("simulated_cost", "istiod's CPU time is measured with simulated sidecars: on two cores, with istiod 1.31 and 16 sidecars, real ones cost it %.2f times as much %s (95%% interval %.2f to %.2f); "+onThisMachine)
	noteSimulatedElse = note.Define("simulated_cost_unknown", "istiod's CPU time is measured with simulated sidecars; how much more real ones cost is unknown: "+onThisMachine)
	noteOneIstiod     = note.Define("one_istiod", "all windows of a soak belong to one istiod, and neighbouring windows are correlated: intervals of single figures show how windows differ, not how another istiod would; only the intervals of growth allow for the correlation")
	noteLives         = note.Define("several_lives", "istiod restarted during the run: growth covers the longest of its %d lives; %d windows of the others are left out")
	noteWindowsLack   = note.Define("windows_without_figure", "%d of %d windows lack this figure, and are left out")
	noteManyGrowths   = note.Define("many_growths", "the interval lies above zero, but of %d figures some do so by chance")
	noteSearched      = note.Define("searched_cells", "the search chose cells by their results, so findings of single cells are biased in favour of those tried often; the recommended setting is compared in separate trials")
)

// What a tuning's constraint is compared with.
var (
	noteNoValidTrials  = note.Define("constraint_without_trials", "no valid trials")
	noteReference      = note.Define("constraint_reference", "others are compared with it")
	noteLessThanItself = note.Define("constraint_below_reference", "others must have less than it")
	noteMoreThanInUse  = note.Define("more_than_in_use", "%v more than in use (%v to %v)")
	noteLessThanInUse  = note.Define("less_than_in_use", "%v less than in use (%v to %v)")
	noteValue          = note.Define("constraint_value", "%v (%v to %v)")
	noteUnreached      = note.Define("unreached", neverCame)
	noteUnreachedInUse = note.Define("unreached_in_use", "in use it was "+neverCame)
	noteLostShare      = note.Define("unreached_share", "%v of what %s needed never arrived or was never acknowledged: not reached in %d of %d trials")
)

// How published figures relate to ours, as sentences.
var (
	noteSameDirection   = note.Define("published_same_direction", againstBaseline+" The direction agrees.")
	noteOtherDirection  = note.Define("published_other_direction", againstBaseline+" The direction differs.")
	noteNoDirection     = note.Define("published_no_direction", againstBaseline+" Ours lie within each other's intervals.")
	noteJoinTime        = note.Define("published_join_time", "Both run from a new proxy's first request to istiod's last push to it. The published figure is for a pod with an Envoy, which applies each response before it requests more, and includes the pushes that the pod's arrival triggers; ours covers only istiod and the network, for a pod that istiod has long known.")
	noteJoinBytes       = note.Define("published_join_bytes", "The published figure is the size of the resources as istiod logs them, ours the size of the messages that carry them.")
	noteConfigDumps     = note.Define("published_config_dump", "Both are config dumps: JSON with the bootstrap, without endpoints. The output of Envoy and Istio varies between versions.")
	noteConfigBytes     = note.Define("published_config_bytes", "The published figure is the size of a config dump (JSON with the bootstrap); ours is the configuration on the wire.")
	noteFirstBucket     = note.Define("published_first_bucket", "The published figure comes from a histogram whose first bucket ends at 100 ms; within it the value is interpolated and means no more than \"below\".")
	noteMemoryOfPod     = note.Define("published_memory", "Memory is a cost per pod: a sidecar holds it with or without requests, and it grows with the configuration. Ours is the proportional set size, in which sidecars on one node share the pages of their programs.")
	notePriceOfRequests = note.Define("published_cpu", "The published figure is a cost of requests: their bytes, TLS, routes and statistics. A proxy without requests spends none of it.")
)

const againstBaseline = "Compared with %s, the published figure %v, ours %v."

const neverCame = "not reached in %d of %d trials, because too much of what it counts never arrived"

const onThisMachine = "the study simulated-against-real measures it on this machine"
