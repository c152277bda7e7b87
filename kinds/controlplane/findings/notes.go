package findings

import "github.com/meshtrial/meshtrial/internal/note"

// What findings of the control plane warn of.
var (
	noteIdleIncluded  = note.Define("idle_included", "includes idle use, which was not measured")
	noteFirstBucket   = note.Define("first_bucket", "in %d of %d trials it falls into the first bucket of istiod's histogram, 0 to %s: the figure is interpolated across that bucket and only says that it is below its upper bound")
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

const onThisMachine = "the study simulated-against-real measures it on this machine"
