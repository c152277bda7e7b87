package report

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// Names of sections that reports of all kinds have.
const (
	sectionConditions = "conditions"
	sectionNoise      = "noise"
	sectionPublished  = "published"
	sectionAssertions = "assertions"
)

// Conditions is the section of what the windows of a cell's trials had in
// common beside what was measured.
func Conditions() Section { return One(sectionConditions, conditionsTable) }

// Common are the sections that end a report: findings that no other section
// shows, the noise floor, published figures and assertions. Exactly says that
// identical baselines of the kind often do not differ at all, which is not
// worth a row, and leaveInvalid that findings without a figure are not either.
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
