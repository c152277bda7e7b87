package controlplane

import (
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// SectionSoak is the report section about growth in a soak.
const SectionSoak = "soak"

// ProbeSoak is the probe of findings from a soak.
const ProbeSoak = "soak"

// Findings of a soak: rates of growth per hour.
const (
	SlopeMemory  = "memory_slope"
	SlopeHeap    = "heap_slope"
	SlopeSidecar = "sidecar_memory_slope"
	SlopeP50     = "convergence_p50_slope"
	SlopeP99     = "convergence_p99_slope"
)

// soakFindings returns the growth rates that a soak reports.
func soakFindings() []finding.Def {
	grows := func(name, unit, words, doc string) finding.Def {
		return finding.Def{Name: name, Unit: unit, Probe: ProbeSoak, Source: finding.FromSoak, Section: SectionSoak, Signed: true, Words: words, Doc: doc}
	}
	return []finding.Def{
		grows(SlopeMemory, finding.UnitBytesPerHour, "growth of istiod's memory", "Growth of istiod's memory per hour in a soak, after warm-up."),
		grows(SlopeHeap, finding.UnitBytesPerHour, "growth of istiod's live heap", "The same for istiod's live heap after garbage collections, by its Go runtime."),
		grows(SlopeSidecar, finding.UnitBytesPerHour, "growth of a real sidecar's memory", "The same for a real sidecar, mean of all; needs real_pods."),
		grows(SlopeP50, finding.UnitRatioPerHour, "growth of p50 convergence", "Relative growth of convergence_p50 per hour."),
		grows(SlopeP99, finding.UnitRatioPerHour, "growth of p99 convergence", "Relative growth of convergence_p99 per hour."),
	}
}

// soakBlocks is the minimum number of windows in a soak: a third is discarded, and halves of the
// rest need an interval.
const soakBlocks = 18

// checkSoak finds what a soak cannot have, since its trials are windows of one life.
func checkSoak(d *study.Decoder, s *study.Study) {
	if !Of(s).Soak {
		return
	}
	switch {
	case len(s.Baseline) > 0:
		d.Fail(d.Pos("baseline"), study.CodeConflict, "leave it out", "a soak has one cell, so there is nothing to compare")
	case s.Stop != nil:
		d.Fail(d.Pos("stop"), study.CodeConflict, "leave it out: blocks.limit sets the length of a soak", "a soak must not end early because an interval is narrow enough")
	case len(s.Search) > 0:
		d.Fail(d.Pos("search"), study.CodeConflict, "leave it out, or control.soak", "a soak cannot search: it has one cell")
	case s.Tune != nil:
		d.Fail(d.Pos("tune"), study.CodeConflict, "leave it out, or control.soak", "a soak cannot tune: it has one cell")
	case s.Blocks.Max < soakBlocks:
		d.Fail(d.Pos("blocks", "max"), study.CodeConflict, "trials may be short; the total length counts", "a soak of fewer than %d windows cannot show growth", soakBlocks)
	}
}
