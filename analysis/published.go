package analysis

import (
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// published compares every figure of the literature with our finding. A figure whose cell leaves a
// factor open is compared with each matching cell.
func (o *Observations) published(findings []record.Finding) []record.Published {
	c := NewBeside(o, findings)
	var out []record.Published
	for _, p := range o.Plan.Study.Published {
		entry := record.Published{Source: p.Source, Claim: p.Claim, Finding: p.Finding, Cell: p.Cell, Figure: p.Figure, Unit: p.Unit}
		matched := false
		cells := o.Plan.Matching(p.Cell)
		for _, cell := range cells {
			f := c.Find(p.Finding, cell)
			if f == nil {
				continue
			}
			matched = true
			beside := entry
			beside.Cell, beside.Measured = f.Cell, f
			beside.Says = c.says(p, f, cell)
			out = append(out, beside)
		}
		if !matched {
			entry.Says = []note.Note{noteNoCell.Of()}
			if len(cells) > 0 {
				entry.Says = []note.Note{noteInNoTrial.Of()}
			}
			out = append(out, entry)
		}
	}
	return out
}

// Beside compares published figures with measured ones.
type Beside struct {
	O     *Observations
	index map[string]*record.Finding
}

// NewBeside returns a comparison for the findings of a run.
func NewBeside(o *Observations, findings []record.Finding) *Beside {
	c := &Beside{O: o, index: map[string]*record.Finding{}}
	for i := range findings {
		f := &findings[i]
		c.index[f.Name+"\x00"+f.Cell.Key()] = f
	}
	return c
}

// Find returns a cell's finding of that name, or nil.
func (c *Beside) Find(name string, cell int) *record.Finding {
	return c.index[name+"\x00"+c.O.Short(cell).Key()]
}

func (c *Beside) says(p study.Published, f *record.Finding, cell int) []note.Note {
	figure, low, high := words.Quantity(p.Figure, p.Unit), words.Quantity(f.Low, f.Unit), words.Quantity(f.High, f.Unit)
	if reach := f.Reach(low, high); reach != "" {
		return []note.Note{noteHere.Of(figure, reach)}
	}
	switch {
	case f.Verdict == record.VerdictInvalid && f.Reason == record.ReasonNotReached:
		return []note.Note{noteHere.Of(figure, words.Unreached(f.Name))}
	case f.Verdict == record.VerdictInvalid && f.Reason == record.ReasonTooFew:
		return []note.Note{noteTooFew.Of(words.TooFew(f.Name))}
	case f.Verdict == record.VerdictInvalid:
		return []note.Note{noteTooFew.Of("too few valid trials")}
	case f.Verdict == record.VerdictNoEffect:
		return []note.Note{noteNoOverhead.Of(figure, words.Quantity(f.Margin, f.Unit))}
	case f.Verdict == record.VerdictInconclusive:
		return []note.Note{noteUndecided.Of(figure, low, high)}
	}
	out := []note.Note{ratioNote(p, f)}
	if c.O.kind.Published != nil {
		out = append(out, c.O.kind.Published(c, p, f, cell)...)
	}
	return out
}

// ratioNote describes how a measured value relates to a published one.
func ratioNote(p study.Published, f *record.Finding) note.Note {
	measured, figure := words.Quantity(f.Estimate, f.Unit), words.Quantity(p.Figure, p.Unit)
	switch {
	case p.Figure >= f.Low && p.Figure <= f.High && tooWide(f):
		return noteTooWide.Of(figure, words.Quantity(f.Low, f.Unit), words.Quantity(f.High, f.Unit))
	case p.Figure == f.Low && f.Low == f.High:
		return noteAgreesFully.Of(figure)
	case p.Figure >= f.Low && p.Figure <= f.High:
		return noteAgrees.Of(figure, words.Quantity(f.Low, f.Unit), words.Quantity(f.High, f.Unit))
	case p.Figure <= 0 || f.Estimate <= 0:
		return noteOtherSign.Of(measured, figure)
	case f.Estimate > p.Figure:
		return noteTimes.Of(measured, words.Times(f.Estimate/p.Figure), figure)
	}
	return noteTimes.Of(measured, words.Share(f.Estimate/p.Figure)+" of", figure)
}

// tooWide reports whether an interval is so wide that agreement means nothing: its upper end
// is more than twice its lower, or it reaches zero.
func tooWide(f *record.Finding) bool { return !(f.Low > 0 && f.High <= 2*f.Low) && f.High > f.Low }

// Overlap reports whether the intervals of two findings meet.
func Overlap(a, b *record.Finding) bool { return a.Low <= b.High && b.Low <= a.High }
