package analysis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Plan makes the plan that a run followed from its resolved study and seed.
func Plan(run record.Run) (*study.Plan, error) {
	s, err := study.Parse(run.StudyYAML, "resolved.yaml", nil)
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
	return plan, nil
}

// Analyze draws the findings from a run, whole or not, and judges the study's
// own assertions and those given beside them. It fails if the run's study
// cannot be read, if a trial belongs to another study, or if an assertion is
// no valid expression.
func Analyze(run record.Run, assert ...study.Expr) (record.Findings, error) {
	plan, err := Plan(run)
	if err != nil {
		return record.Findings{}, err
	}
	ofTrials, ofFindings, err := sortAssertions(plan.Study, slices.Concat(plan.Study.Assert, assert))
	if err != nil {
		return record.Findings{}, err
	}
	assertions := &Assertions{exprs: ofFindings}
	o, err := observe(plan, run)
	if err != nil {
		return record.Findings{}, err
	}
	o.assertions = ofTrials
	measures := measuresOf(plan.Study)
	f := record.Findings{
		Schema: record.Schema, Kind: run.Header.Kind, Study: run.Header.Study, Question: plan.Study.Question, Run: run.Header.RunID,
		Started: run.Header.Started.UTC().Format(time.RFC3339), Seed: run.Header.Seed, Lab: run.Header.Lab,
		Meshtrial: run.Header.Meshtrial, Machine: run.Header.Machine, Parts: run.Header.Components,
		Validity: o.validity(), Stop: o.whyEnded(), Factors: o.factors(), StudyYAML: string(run.StudyYAML), Money: moneyWords(plan.Study.Money),
		Findings: o.findings(measures), Cells: o.summaries(),
	}
	if plan.Study.Kind == study.Resilience {
		f.Story = strings.Join(strings.Fields(plan.Study.Story), " ")
	}
	var odd []string
	f.NoiseFloor, odd = o.floors(measures)
	f.Warnings = append(o.trialWarnings(), odd...)
	for _, s := range sourcesOf(plan.Study.Kind) {
		s.add(o, &f)
	}
	f.Warnings = append(f.Warnings, plan.Resonances()...)
	f.Published = o.published(f.Findings)
	f.Assertions = assertions.Judge(f)
	return withoutNulls(f), nil
}

// A source adds the findings that no single trial has, with whatever else a
// report tells of them.
type source struct {
	of  finding.Source
	add func(o *observations, f *record.Findings)
}

// sourcesOf lists a plane's sources, in the order of reports.
func sourcesOf(p study.Kind) []source {
	searches := source{finding.FromSearch, func(o *observations, f *record.Findings) {
		f.Findings = append(append(f.Findings, o.searches()...), o.knees()...)
	}}
	if p != study.DataPlane {
		return []source{searches}
	}
	return []source{
		{finding.FromFits, func(o *observations, f *record.Findings) {
			fits := o.fits()
			f.Findings = append(append(f.Findings, fits...), o.moneyFits(fits)...)
		}},
		{finding.FromLimits, func(o *observations, f *record.Findings) { f.Findings = append(f.Findings, o.limits()...) }},
		{finding.FromProfile, (*observations).addProfiles},
		{finding.FromVersus, func(o *observations, f *record.Findings) { f.Findings = append(f.Findings, o.versus()...) }},
		{finding.FromBill, (*observations).addBills},
		{finding.FromHops, (*observations).addHops},
		searches,
	}
}

// withoutNulls makes lists that programs read lists also when they are empty.
func withoutNulls(f record.Findings) record.Findings {
	if f.Findings == nil {
		f.Findings = []record.Finding{}
	}
	if f.NoiseFloor == nil {
		f.NoiseFloor = []record.NoiseFloor{}
	}
	if f.Assertions == nil {
		f.Assertions = []record.Assertion{}
	}
	if f.Parts == nil {
		f.Parts = []record.Component{}
	}
	if f.Factors == nil {
		f.Factors = []record.FactorLevels{}
	}
	return f
}
