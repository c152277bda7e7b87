package analysis

import (
	"math"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// A Difference is an estimate with the references to judge it by.
type Difference struct {
	stat.Estimate
	Floor stat.Floor
	Say   func(float64) string

	// OnePods means that the same pods served all blocks: no interval includes their
	// particular properties, and only the floor tells how pods differ.
	OnePods bool

	cell, base int
	measure    Measure
}

// p returns the p-value of the difference: see [stat.Estimate.P].
func (d Difference) p() float64 {
	if d.OnePods {
		return math.Max(d.P(), d.Floor.P(d.Value))
	}
	return d.P()
}

// Put writes a defined difference into a finding: its estimate and interval in any case, and
// one of three answers: see [stat.Estimate.Call]. If the same pods served all blocks, nothing
// is real without a known floor.
func (d Difference) Put(f record.Finding, margin float64) record.Finding {
	switch {
	case d.OnePods && d.Floor.Blocks == 0:
		d.Floor.Value = math.NaN()
	case d.OnePods:
		d.Floor = d.Floor.AtLevel(d.Level)
	}
	f.Blocks, f.Estimate, f.Low, f.High, f.Warnings, f.Margin = d.Blocks, d.Value, d.Low, d.High, d.Warnings, margin
	call, why := d.CallIn(d.Floor, margin, d.Say)
	f.Verdict = string(call)
	if call != stat.Real {
		f.Because(why.Code, why)
	}
	return f
}

// A Family is a set of differences that are reported together and share one error rate.
type Family []Difference

// Judge revokes verdicts that are real only individually, for findings in the family's order,
// and sets the effect that each would have detected: see [stat.Family]. It does not change
// findings that are not differences.
func (all Family) Judge(findings []record.Finding) {
	var p stat.Family
	for i, d := range all {
		switch findings[i].Verdict {
		case record.VerdictReal:
			p = append(p, d.p())
		case record.VerdictNoEffect, record.VerdictInconclusive:
			p = append(p, 1)
		}
	}
	limit, _ := p.Limit(stat.DefaultRate)
	for i, d := range all {
		f := &findings[i]
		switch f.Verdict {
		case record.VerdictReal, record.VerdictNoEffect, record.VerdictInconclusive:
		default:
			continue // not a difference, or an unknown one
		}
		if f.Verdict == record.VerdictReal && d.p() > limit {
			f.Verdict = record.VerdictInconclusive
			f.Because(record.ReasonMany, noteMany.Of(len(p)))
			if math.Max(math.Abs(d.Low), math.Abs(d.High)) <= f.Margin {
				f.Verdict = record.VerdictNoEffect // whatever the sign, it does not matter
			}
		}
		d.Level = p.Level(stat.DefaultRate, f.Verdict == record.VerdictReal)
		if mde := stat.MinimumDetectable(d.Estimate, d.Floor, stat.DefaultPower); stat.Finite(mde) {
			f.MDE = mde
		}
	}
}
