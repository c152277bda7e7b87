package findings

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	judged "github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// Kind returns the analysis of resilience studies.
func Kind() analysis.Kind {
	return analysis.Kind{
		Name:       resilience.Kind,
		Outdated:   func(by record.Rules) string { return verdict.Outdated(by, judged.Limits) },
		Measures:   scenarioMeasures,
		Sources:    []analysis.Source{{Of: finding.FromFits, Add: addPods}, analysis.FromSearches(), {Of: finding.FromSizing, Add: addSizing}},
		Assertions: sortAssertions,
		Check:      checkConditions,
		Begin: func(ofTrials []study.Expr) any {
			return &scenarios{assertions: ofTrials, trials: map[string]*trialScenario{}}
		},
		Histogram: func(o *analysis.Observations, t *record.Trial) (record.TrialHist, bool) {
			s := scenarioOfTrial(o, t)
			return record.TrialHist{Intended: s.hist}, s.hist != nil
		},
		Failed: func(o *analysis.Observations, t *record.Trial) (n int64) {
			for _, r := range scenarioOfTrial(o, t).requests {
				if !r.ok {
					n++
				}
			}
			return n
		},
		Summarize: func(o *analysis.Observations, cell int, valid []*record.Trial, s *record.CellSummary) {
			s.Scenario = scenarioSummary(o, cell)
			for _, t := range valid {
				if one := scenarioOfTrial(o, t); one.summary != nil {
					s.Requests, s.Failed = s.Requests+one.total.Requests, s.Failed+one.total.Failed+one.total.Unfinished
				}
			}
		},
		Remarks: func(o *analysis.Observations) []note.Note {
			return append(o.UnlikeNodes(), dropping(o)...)
		},
		Finish: func(s *study.Study, f *record.Findings) {
			shared := slices.ContainsFunc(f.Findings, func(x record.Finding) bool {
				return x.Name == "cpu_"+record.PartNode && x.Verdict != record.VerdictInvalid
			})
			f.Money = analysis.MoneyWords(s.PricedMesh(), shared)
		},
		Search: analysis.Searched{Who: "istiod", OwnChecks: analysis.IstiodsChecks},
	}
}

// scenarios caches the results of a run's trials that have been requested.
type scenarios struct {
	assertions []study.Expr // about single trials
	trials     map[string]*trialScenario
}

// checkConditions checks the conditions of a timeline.
func checkConditions(s *study.Study) error {
	for _, step := range resilience.Of(s).Timeline.Steps {
		if step.When == "" {
			continue
		}
		if _, err := CompileCondition(step.When); err != nil {
			return fmt.Errorf("step %q: %w", step.Name, err)
		}
	}
	return nil
}
