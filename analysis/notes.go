package analysis

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/stat/money"
)

// Limits on the trust in a finding.
var (
	noteFewBlocks   = note.Define("few_valid_blocks", "too few valid blocks: %d; an interval needs %d")
	noteFewCounted  = note.Define("few_counted", "too few %s per trial: %d are needed to leave one beyond this percentile")
	noteFailed      = note.Define("requests_failed", "not reached: %d of %d requests failed")
	noteFailedSome  = note.Define("requests_failed_in_blocks", "not reached in some blocks: %d of %d requests failed")
	noteNeverCame   = note.Define("never_came", "not reached: in %d of %d trials %s, as in %v")
	noteNeverBeyond = note.Define("never_came_beyond", "not reached: in %d of %d trials more never came than lies beyond this percentile")
	noteMany        = note.Define("many_findings", "the interval excludes zero, but of %d differences some do by chance")
	noteLateLoad    = note.Define("late_generator", "the generator itself lagged by %.0f µs, which is large beside this effect: something else kept the machine busy")
	noteBelowIdle   = note.Define("below_idle", "use was[ %v] below idle: idle use varies by that much, so nothing was saved")
	// SharedProxy is for figures of proxies on nodes.
	SharedProxy = note.Define("shared_proxy", "other pods share this proxy: its work for them during the windows is included")

	noteIdleVaries = note.Define("idle_varies", "its interval includes zero: idle use varies by that much")
)

// Where the bound of a search ended.
var (
	noteNoTrial     = note.Define("no_valid_trial", "at %s no trial is valid (%v)[: what %v can do there is not known]")
	noteNeverSeen   = note.Define("never_seen", "at %s, %v of what proxies needed never arrived or was never acknowledged: %s exceeds any bound")
	noteNoFigure    = note.Define("no_figure", "at %s there is no %s")
	noteAmongFailed = note.Define("among_failed", "at %s, %s is not reached: it lies among requests that failed")
	noteUntimed     = note.Define("untimed", "at %s, %s is not reached: what it times never came")
	noteBeyond      = note.Define("beyond_bound", "at %s, %s is %v, beyond the bound of %s")
	noteInferred    = note.Define("breaks_elsewhere", "%s was not measured: %s breaks a bound already")
	noteElsewhere   = note.Define("other_bottleneck", "at %s something else is the bottleneck: the limit lies at or above the highest level that holds")
	noteUnsure      = note.Define("bound_not_broken_for_sure", "no level breaks the bound of %s in enough blocks, by enough, to be sure: the limit may lie higher")
	noteUnbroken    = note.Define("bound_not_broken", "no measured level breaks the bound of %s: the limit lies higher")
	noteUnmetUnsure = note.Define("bound_not_met_for_sure", "no level meets the bound of %s in enough blocks, by enough, to be sure")
	noteUnmet       = note.Define("bound_not_met", "no level meets the bound")
	noteOneBlock    = note.Define("one_block", "one block: how much trials and pods differ is unknown, and the limit may lie outside this interval")
	noteBlocksBreak = note.Define("blocks_disagree", "at %s the bound of %s holds in %d of %d blocks (%v)")
	noteBlocksCrowd = note.Define("blocks_crowded", "at %s the bound of %s holds in %d of %d blocks: %v")
	noteLoose       = note.Define("loose", "at %s %s: %v")
)

// Notes above all findings of a run.
var (
	noteUnattributed = note.Define("unattributed_cpu", "unattributed CPU: in %d of %d trials more than %v of the machine's CPU time (up to %v) went to processes outside the study[: most by %v]")
	noteDrift        = note.Define("drift", "the machine drifted: neighbouring trials are alike in %s (correlation %.2f); plain values hold for the time of this run, and may lie outside their intervals at another hour")
	notePods         = note.Define("same_pods", "one set of pods served all blocks: "+luck)
	notePodSets      = note.Define("same_pod_sets", "%d sets of pods served the blocks, but a block in which one replaced another has trials of both, so they count as one: "+luck)
	noteOtherRules   = note.Define("other_rules", "%v")
	noteSystematic   = note.Define("systematic_floor", "noise floor of %s at %s: identical baselines differ systematically between first and second in a block")
	noteNodes        = note.Define("nodes_differ", "the nodes differ: %v[. Client and server ran on different machines in %d of %d trials][. %d trials are left out for that]")
)

// How published figures relate to ours, as sentences.
var (
	noteNoCell      = note.Define("published_no_cell", "Not measured: this study has no such cell.")
	noteInNoTrial   = note.Define("published_no_trial", "Not measured: no valid trial has it.")
	noteTooFew      = note.Define("published_too_few", "Not measured: %v.")
	noteHere        = note.Define("published_here", "Published %v; here %v.")
	noteNoOverhead  = note.Define("published_no_effect", "Published %v; here no overhead beyond %v.")
	noteUndecided   = note.Define("published_inconclusive", "Published %v; here between %v and %v, inconclusive.")
	noteTooWide     = note.Define("published_too_wide", "Inconclusive: the published %v lies within what was measured here, but %v to %v is too wide to compare.")
	noteAgreesFully = note.Define("published_agrees_exactly", "Agrees: all blocks gave the published %v.")
	noteAgrees      = note.Define("published_agrees", "Agrees: the published %v lies within the interval of what was measured here, %v to %v.")
	noteOtherSign   = note.Define("published_other_sign", "Measured %v where %v was published: the direction differs.")
	noteTimes       = note.Define("published_differs", "Measured %v, %v the published %v; machine and versions differ.")
)

const luck = "effects of these particular pods (processors, memory layout, spread of connections) are in the figures, but not in their intervals; blocks.redeploy recreates the pods"

// MoneyWords says which mesh the findings in money refer to, and at which prices; "" if there
// are none. shared: requests of some cells pass shared proxies.
func MoneyWords(m *money.Mesh, shared bool) string {
	if m == nil {
		return ""
	}
	hops := "each one call between services"
	if m.Hops != 1 {
		hops = "each " + words.Grouped(m.Hops) + " calls between services"
	}
	s := fmt.Sprintf("%s requests per second, %s, %s proxies per call at the cell's average cost, %s %s per core-month", words.Grouped(m.RPS), hops, words.Grouped(m.ProxiesPerHop), words.Grouped(m.CoreMonth), m.Currency)
	if m.Utilisation < 1 {
		s += fmt.Sprintf(" with %s of the cores in use", words.Percent(m.Utilisation))
	}
	if m.Proxies > 0 {
		s += fmt.Sprintf("; %s proxies in all, %s requests per second at each", words.Grouped(m.Proxies), words.Grouped(math.Round(m.RateOfOne())))
		if m.GBMonth > 0 {
			s += fmt.Sprintf(", %s %s per GB-month of memory", words.Grouped(m.GBMonth), m.Currency)
		}
	}
	if shared {
		s += " (where pods share proxies, a call costs what its own path did, and their memory is not priced)"
	}
	return s
}
