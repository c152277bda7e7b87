package analysis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Plan rebuilds the plan that a run followed, from its resolved study and seed. It fails if
// the run's trials do not belong to that plan.
func Plan(run record.Run) (*study.Plan, error) {
	s, err := study.ParseStored(run.StudyYAML, "resolved.yaml", nil)
	if err != nil {
		return nil, fmt.Errorf("study of run %s: %w", run.Header.RunID, err)
	}
	if string(s.Kind) != run.Header.Kind {
		return nil, fmt.Errorf("run %s calls itself a study of kind %q, and its study is one of kind %q: one of its files is from another run", run.Header.RunID, run.Header.Kind, s.Kind)
	}
	plan, err := study.NewPlan(s, run.Header.Seed)
	if err != nil {
		return nil, fmt.Errorf("study of run %s: %w", run.Header.RunID, err)
	}
	if err := plan.CheckTrials(run.Trials); err != nil {
		return nil, errs.WithHint(errs.Usage("run %s does not follow its plan: %v", run.Header.RunID, err),
			"one of its files is from another run, or was changed: restore it from a copy of the run directory")
	}
	return plan, nil
}

// Observe sorts a run's trials by its plan. It fails under the same conditions as
// [Kinds.Analyze].
func (kinds Kinds) Observe(run record.Run) (*Observations, error) {
	plan, err := Plan(run)
	if err != nil {
		return nil, err
	}
	return kinds.Of(plan.Study).observe(plan, run)
}

// Analyze derives the findings from a run, complete or not, and evaluates the study's own
// assertions and any additional ones. It fails if the run's study cannot be read, if a
// trial belongs to another study, or if an assertion is not a valid expression.
func (kinds Kinds) Analyze(run record.Run, assert ...study.Expr) (record.Findings, error) {
	plan, err := Plan(run)
	if err != nil {
		return record.Findings{}, err
	}
	k := kinds.Of(plan.Study)
	ofTrials, ofFindings, err := k.sorted(plan.Study, slices.Concat(plan.Study.Assert, assert))
	if err != nil {
		return record.Findings{}, err
	}
	o, err := k.observe(plan, run, ofTrials...)
	if err != nil {
		return record.Findings{}, err
	}
	measures := o.Measures()
	f := record.Findings{
		Schema: record.Schema, Kind: run.Header.Kind, Study: run.Header.Study, Question: plan.Study.Question, Story: strings.TrimSpace(plan.Study.Story), Run: run.Header.RunID,
		Started: run.Header.Started.UTC().Format(time.RFC3339), Seed: run.Header.Seed, Lab: run.Header.Lab, Observed: run.Header.Observed,
		Meshtrial: run.Header.Meshtrial, Machine: run.Header.Machine, Parts: run.Header.Components,
		Validity: o.validity(), Rules: run.Header.Rules, Stop: o.whyEnded(), Factors: o.factors(), StudyYAML: string(run.StudyYAML),
		Findings: o.findings(measures), Cells: o.summaries(), Samples: o.samples(measures), LeftOut: o.leftOut(),
	}
	if k.Finish != nil {
		k.Finish(plan.Study, &f)
	}
	var odd []note.Note
	f.NoiseFloor, odd = o.floors(measures)
	f.Warnings = slices.Concat(o.otherRules(), o.oneDeployment(), o.unattributed(), o.drifting(measures), o.trialWarnings(), odd)
	if k.Remarks != nil {
		f.Warnings = append(f.Warnings, k.Remarks(o)...)
	}
	for _, s := range k.Sources {
		s.Add(o, &f)
	}
	f.Warnings = append(f.Warnings, plan.Warnings()...)
	f.Published = o.published(f.Findings)
	f.Assertions = JudgeAssertions(ofFindings, f)
	list(&f.Findings)
	list(&f.NoiseFloor)
	list(&f.Assertions)
	list(&f.Parts)
	list(&f.Factors)
	return f, nil
}

// otherRules warns of trials that were judged by rules other than today's.
func (o *Observations) otherRules() []note.Note {
	if o.kind.Outdated == nil {
		return nil
	}
	if words := o.kind.Outdated(o.Run.Header.Rules); words != "" {
		return []note.Note{noteOtherRules.Of(words)}
	}
	return nil
}

// list makes an empty list appear as a list in JSON instead of null.
func list[T any](all *[]T) {
	if *all == nil {
		*all = []T{}
	}
}
