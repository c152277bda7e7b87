package findings

import "github.com/meshtrial/meshtrial/internal/note"

// FirstBucket warns of figures of istiod that only say that they are below the end of a bucket.
var FirstBucket = note.Define("first_bucket", "in %d of %d trials it falls into the first bucket of istiod's histogram, 0 to %s: the figure is interpolated across that bucket and only says that it is below its upper bound")

// Warnings of control-plane findings.
var (
	noteIdleIncluded  = note.Define("idle_included", "includes idle use, which was not measured")
	noteMissed        = note.Define("pairs_missed", "%d of %d change-proxy pairs, in %d trials, for example %v")
	noteUnacked       = note.Define("pairs_unacked", "%d of %d change-proxy pairs were sent but never acknowledged; convergence covers the others")
	noteRefused       = note.Define("changes_refused", "the API server refused %d changes, for example %v")
	noteHiddenLate    = note.Define("hidden_late", "a retry hid the failure from the caller but not the delay: up to %v before the retry")
	noteFailuresApart = note.Define("failures_apart", "the generator saw %d failed requests, its sidecar %d (trial %v)")
	noteResidual      = note.Define("large_residual", "in %d of %d trials the stages leave more than %s unexplained, at most %v of %v")
	noteStageApart    = note.Define("stage_sources_apart", "in %d of %d trials a second source differs by more than %s, at most %v by %s, %v by %s")
	noteStageLacks    = note.Define("stage_not_measured", "not measured in %d of %d trials")
	notePairsApart    = note.Define("pairs_unexplained", "%d of %d change-proxy pairs differ from their own stages by more than %s, one by %v; such errors cancel in the mean[; %d of them belong to pushes that istiod does not log per proxy]")
	noteSurvivors     = note.Define("survivors", "%v of what %s needed never arrived or was never acknowledged: counting that, this percentile was not reached; the figure covers the rest")
	noteFewChanges    = note.Define("few_changes", "a trial has %d change-proxy pairs but only %d changes: pairs of one change are correlated, and %d changes are needed to leave one beyond this percentile")
	noteSimulated     = note.Define("simulated_cost", "istiod's CPU time is that with simulated sidecars: on two cores, with istiod 1.31 and 16 sidecars, real ones cost it %.2f times what simulated ones did %s (95%% interval %.2f to %.2f); "+onThisMachine)
	noteSimulatedElse = note.Define("simulated_cost_unknown", "istiod's CPU time is that with simulated sidecars; what real ones cost beside these is not known: "+onThisMachine)
	noteOneIstiod     = note.Define("one_istiod", "all windows of a soak are of one istiod, and neighbours are alike: intervals of single figures say how windows differ, not how another istiod would; only those of growth allow for the likeness")
	noteLives         = note.Define("several_lives", "istiod restarted within the run: growth is that of the longest of its %d lives, and %d windows of the others are left out")
	noteWindowsLack   = note.Define("windows_without_figure", "%d of %d windows have no figure of it, and are left out")
	noteManyGrowths   = note.Define("many_growths", "the interval lies above zero, but of %d figures some do by chance")
	noteSearched      = note.Define("searched_cells", "the search chose cells by their trials, so findings of single cells flatter those that it tried often; the recommended setting is compared in other trials")
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
	notePushesCounted   = note.Define("published_pushes", "Istiod counts a push for each proxy and type of resource: %v for each change committed, with %d proxies.")
	noteJoinTime        = note.Define("published_join_time", "Both span a new proxy's first request to istiod's last push to it. The published figure is of a pod with an Envoy, which builds what it has before it asks for more, and includes the pushes that the pod's own arrival triggers; ours is of istiod and the wire alone, for a pod known for a while.")
	noteJoinBytes       = note.Define("published_join_bytes", "The published figure is the size of the resources as istiod logs them, ours that of the messages they came in.")
	noteConfigDumps     = note.Define("published_config_dump", "Both are config dumps: JSON with the bootstrap, without endpoints. Other versions of Envoy and Istio print more, or less, of the same.")
	noteConfigBytes     = note.Define("published_config_bytes", "The published figure is the size of a config dump, JSON with the bootstrap in it; ours is the configuration as it comes over the wire.")
	noteBucketed        = note.Define("published_first_bucket", "Such a figure comes from a histogram whose first bucket ends at 100 ms; inside it the value is interpolated and only says \"below\".[ This applies to %d of %d trials here.]")
	noteHidden          = note.Define("published_hides", istiodsClock+", %v of it hidden.")
	noteHiddenUnsure    = note.Define("published_hides_unsure", istiodsClock+". Whether istiod's figure hides any of it is inconclusive here: the two differ by %v to %v.")
	noteBelowReported   = note.Define("published_above_ours", "From commit to ACK the p99 is %v, less than istiod's figure, which is interpolated across a wide histogram bucket.")
	noteMemoryOfPod     = note.Define("published_memory", "Memory is a price of the pod: a sidecar holds it whether requests come or not, and it grows with the configuration. Ours is the proportional set size, in which sidecars on one node share the pages of their programs[; %v of it are Envoy's].")
	notePriceOfRequests = note.Define("published_cpu", "The published figure is the price of requests: a proxy spends it on their bytes, TLS, routes and statistics. One without requests spends none of it.")
	noteByTheClock      = note.Define("published_cpu_idle", "What is left runs by the clock, not by the request: Envoy's timers and the kubelet's probes (%v), and its agent, which answers the probes (%v).")
	noteThousandIdle    = note.Define("published_cpu_thousand", "A thousand idle sidecars take %v cores; the published figure, read as a price of a pod, would have them take %v.")
	noteIdleButPushed   = note.Define("published_cpu_changing", "No requests does not mean no pushes: while this cell's changes are made, it uses %v.")
)

const (
	againstBaseline = "Against %s the published figure %v, ours %v."
	istiodsClock    = "Istiod's clock starts after debouncing and stops on send; from commit to ACK the p99 is %v"
)

const neverCame = "not reached in %d of %d trials, as too much of what it counts never came"

const onThisMachine = "the study simulated-against-real measures it on this machine"
