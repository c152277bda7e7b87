package report

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// Names of sections that reports of every kind have.
const (
	sectionConditions = "conditions"
	sectionNoise      = "noise"
	sectionPublished  = "published"
	sectionAssertions = "assertions"
)

// Conditions returns the section on the conditions during the windows of a
// cell's trials, other than the measures.
func Conditions() Section { return One(sectionConditions, conditionsTable) }

// Common returns the sections at the end of a report: findings that no other
// section shows, the noise floor, published figures and assertions. exactly
// means that identical baselines of the kind often do not differ, which does
// not deserve a row; leaveInvalid means that findings without a figure do not
// either.
func Common(findings finding.Table, exactly, leaveInvalid bool) []Section {
	k := Kind{Findings: findings}
	return []Section{
		Other(findings, leaveInvalid),
		One(sectionNoise, func(f record.Findings) Table { return k.noiseTable(f, exactly) }).Drawn("Noise floor", "",
			nil),
		One(sectionPublished, k.publishedTable).Drawn("Published vs. measured",
			"Published figures come from other machines: expect directions and ratios to agree, not absolute values.", k.publishedCharts),
		One(sectionAssertions, assertionTable),
	}
}
