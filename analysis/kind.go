package analysis

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// A kind is what analysis asks of a kind of study. Whatever is nil the kind has
// nothing to add to.
type Kind struct {
	Name study.Kind

	// Measures are the numbers of a trial, in the order of reports, and sources
	// what makes the findings that no single trial has.
	Measures func(s *study.Study) []Measure
	Sources  []Source

	// Assertions tells those about single trials from those about the run's
	// findings, and checks both; check finds what else is wrong with a study
	// before anything starts.
	Assertions func(s *study.Study, exprs []study.Expr) (ofTrials, ofFindings []study.Expr, err error)
	Check      func(s *study.Study) error

	// Figures are what runs can be compared by beside what trials measured: findings of
	// a run's only cell.
	Figures func(o *Observations) []RunFigure

	// Outdated says in words how rules by which trials were judged differ from
	// today's; "" if they do not.
	Outdated func(by record.Rules) string

	// Places are the factors by which cells have other pods, or pods elsewhere. Trials that
	// agree in them are taken together only if their parts were on machines that are alike.
	// nil: trials of the kind may be on any machines.
	Places []string
	// Unfair are checks that a trial can only be held against beside the others of
	// its run, by trial: one that fails leaves the trial out.
	Unfair func(o *Observations) map[string][]record.Check

	// Begin makes what the kind keeps of a run's trials while it is analysed:
	// [observations.own]. It is given the assertions about single trials.
	Begin func(ofTrials []study.Expr) any
	// Histogram is a trial's latency where the run keeps none.
	Histogram func(o *Observations, t *record.Trial) (record.TrialHist, bool)
	// Failed is how many of a trial's requests have no latency, where the trial's
	// record of its load does not say.
	Failed func(o *Observations, t *record.Trial) int64
	// Summarize adds to the summary of a cell, finish to a run's findings.
	Summarize func(o *Observations, cell int, valid []*record.Trial, s *record.CellSummary)
	Finish    func(s *study.Study, f *record.Findings)
	// Remarks are what else a run's findings warn of.
	Remarks func(o *Observations) []note.Note
	// Published says what else a published figure and ours have to do with
	// each other.
	Published func(c *Beside, p study.Published, f *record.Finding, cell int) []note.Note

	Search Searched
	// Next names the trial that a study which tunes needs next in a block; see
	// [Kinds.Next].
	Next func(o *Observations, block int) (order int, ok bool)
}

// Searched is what a kind says of searches' bounds.
type Searched struct {
	// Who has a limit that is searched, and ownChecks are those that fail
	// because of what it does, or cannot do. Those that are true are its own
	// whatever else fails, the others where nothing else is wrong.
	Who       string
	OwnChecks map[string]bool
	// Lost is the share of what a measure is about that trials never saw, so
	// that it lies beyond any bound.
	Lost func(o *Observations, trials []*record.Trial, m Measure) float64
	// Whose corrects a verdict where something else gave out.
	Whose func(o *Observations, v Verdict, s study.Search, cell, block int) Verdict
	// Loose says why a measure of some trials is less exact than it looks; nil
	// if it is not.
	Loose func(o *Observations, trials []*record.Trial, m Measure) []note.Note
}

// A source adds the findings that no single trial has, with whatever else a
// report tells of them.
type Source struct {
	Of  finding.Source
	Add func(o *Observations, f *record.Findings)
}

// FromSearches is the source of how far factors go, in all kinds.
func FromSearches() Source {
	return Source{finding.FromSearch, func(o *Observations, f *record.Findings) { f.Findings = append(f.Findings, o.searches()...) }}
}

// Kinds are the kinds of study that can be analysed.
type Kinds []Kind

// Of finds the kind of a study.
func (kinds Kinds) Of(s *study.Study) Kind {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == s.Kind })
	if i < 0 {
		panic(fmt.Sprintf("analysis: there is no kind of study called %q", s.Kind))
	}
	return kinds[i]
}

// sorted checks assertions and tells those about single trials.
func (k Kind) sorted(s *study.Study, exprs []study.Expr) (ofTrials, ofFindings []study.Expr, err error) {
	if k.Assertions != nil {
		return k.Assertions(s, exprs)
	}
	_, err = CompileAssertions(exprs)
	return nil, exprs, err
}

// CheckStudy checks a study's assertions, and the conditions of its timeline,
// before anything starts: syntax, types, and the names of findings, factors,
// windows and steps. The error gives the place and is one of usage.
func (kinds Kinds) CheckStudy(s *study.Study) error {
	k := kinds.Of(s)
	if _, _, err := k.sorted(s, s.Assert); err != nil || k.Check == nil {
		return err
	}
	return k.Check(s)
}

// IstiodsChecks are those that fail because of what istiod does, or cannot do.
// Those of its death are its own whatever else fails; that proxies are not
// connected is only where nothing else is wrong: on a machine that is too busy
// our own sidecars lose their streams.
var IstiodsChecks = map[string]bool{"istiod-lived": true, "istiod-metrics": true, "connected": false}
