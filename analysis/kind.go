package analysis

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// A Kind supplies what analysis needs from a kind of study. Nil members mean that the kind
// has nothing to add.
type Kind struct {
	Name study.Kind

	// Measures are the numbers of a trial, in the order of reports. Sources make the
	// findings that no single trial has.
	Measures func(s *study.Study) []Measure
	Sources  []Source

	// Assertions separates assertions about single trials from those about the run's
	// findings, and checks both. Check finds further errors in a study before anything
	// starts.
	Assertions func(s *study.Study, exprs []study.Expr) (ofTrials, ofFindings []study.Expr, err error)
	Check      func(s *study.Study) error

	// Figures adds figures for comparing runs besides what trials measured: findings of a
	// run's only cell.
	Figures func(o *Observations) []RunFigure

	// Outdated describes how the rules by which trials were judged differ from today's; ""
	// if they do not.
	Outdated func(by record.Rules) string

	// Places are the factors that give cells different pods, or pods in different places.
	// Trials with the same levels of these are combined only if their parts ran on similar
	// machines. nil means that the kind's trials may run on any machines.
	Places []string
	// Unfair returns, by trial, checks that require the other trials of the run: a failed
	// check excludes the trial.
	Unfair func(o *Observations) map[string][]record.Check

	// Begin returns the data that the kind keeps about a run's trials during analysis:
	// [Observations.Own]. It receives the assertions about single trials.
	Begin func(ofTrials []study.Expr) any
	// Histogram returns a trial's latency if the run does not keep it.
	Histogram func(o *Observations, t *record.Trial) (record.TrialHist, bool)
	// Failed returns how many of a trial's requests have no latency, if the trial's record
	// of its load does not say.
	Failed func(o *Observations, t *record.Trial) int64
	// Summarize adds to the summary of a cell, Finish to a run's findings.
	Summarize func(o *Observations, cell int, valid []*record.Trial, s *record.CellSummary)
	Finish    func(s *study.Study, f *record.Findings)
	// Remarks returns further warnings about a run's findings.
	Remarks func(o *Observations) []note.Note
	// Published returns further notes on how a published figure relates to ours.
	Published func(c *Beside, p study.Published, f *record.Finding, cell int) []note.Note

	Search Searched
	// Next returns the trial that a tuning study needs next in a block; see [Kinds.Next].
	Next func(o *Observations, block int) (order int, ok bool)
}

// Searched is what a kind knows about the bounds of searches.
type Searched struct {
	// Who names the component whose limit is searched, and OwnChecks are the checks that
	// fail because of what that component does or cannot do. Checks that are true count as
	// its own whatever else fails, the others only if nothing else is wrong.
	Who       string
	OwnChecks map[string]bool
	// Lost returns the share of the measured quantity that trials never saw, and which
	// therefore lies beyond any bound.
	Lost func(o *Observations, trials []*record.Trial, m Measure) float64
	// Whose corrects a verdict if something else was the limit.
	Whose func(o *Observations, v Verdict, s study.Search, cell, block int) Verdict
	// Loose returns why a measure of some trials is less exact than it appears; nil if it
	// is exact.
	Loose func(o *Observations, trials []*record.Trial, m Measure) []note.Note
}

// A Source adds the findings that no single trial has, and what else a report says about
// them.
type Source struct {
	Of  finding.Source
	Add func(o *Observations, f *record.Findings)
}

// Adding returns the source of some findings.
func Adding(of finding.Source, findings func(o *Observations) []record.Finding) Source {
	return Source{of, func(o *Observations, f *record.Findings) { f.Findings = append(f.Findings, findings(o)...) }}
}

// FromSearches returns the source of how far factors can go, which all kinds share.
func FromSearches() Source { return Adding(finding.FromSearch, (*Observations).searches) }

// Kinds lists the kinds of study that can be analysed.
type Kinds []Kind

// Of returns the kind of a study.
func (kinds Kinds) Of(s *study.Study) Kind {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == s.Kind })
	if i < 0 {
		panic(fmt.Sprintf("analysis: there is no kind of study called %q", s.Kind))
	}
	return kinds[i]
}

// sorted checks assertions and separates those about single trials.
func (k Kind) sorted(s *study.Study, exprs []study.Expr) (ofTrials, ofFindings []study.Expr, err error) {
	if k.Assertions != nil {
		return k.Assertions(s, exprs)
	}
	return nil, exprs, CheckAssertions(exprs)
}

// CheckStudy checks a study's assertions, and the conditions of its timeline, before
// anything starts: syntax, types, and the names of findings, factors, windows and steps.
// The error has the position and is a usage error.
func (kinds Kinds) CheckStudy(s *study.Study) error {
	k := kinds.Of(s)
	if _, _, err := k.sorted(s, s.Assert); err != nil || k.Check == nil {
		return err
	}
	return k.Check(s)
}

// IstiodsChecks are the checks that fail because of what istiod does or cannot do. Those
// about its death count as its own whatever else fails. Unconnected proxies count only if
// nothing else is wrong: on an overloaded machine our own sidecars lose their streams.
var IstiodsChecks = map[string]bool{"istiod-lived": true, "istiod-metrics": true, "connected": false}
