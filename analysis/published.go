package analysis

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// published compares every figure of the literature with our finding, with notes on where and
// why they differ. A figure whose cell leaves a factor open is compared with each matching
// cell.
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
	return c.trends(out)
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
	out := append([]note.Note{ratioNote(p, f)}, c.arrivalNotes(p, f, cell)...)
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

// arrivalNotes describe how the arrival of requests alone affects a latency, if the study
// varies it.
func (c *Beside) arrivalNotes(p study.Published, f *record.Finding, cell int) []note.Note {
	if f.Probe != study.MeasureLatency {
		return nil
	}
	arrival := c.O.Plan.Cells[cell][study.FactorArrival]
	for _, other := range []string{study.ArrivalBurst, study.ArrivalPoisson, study.ArrivalUniform} {
		if other == arrival || (other != study.ArrivalBurst) == (arrival != study.ArrivalBurst) {
			continue
		}
		i, ok := c.O.Plan.Index(c.O.Plan.Study.Kind.Effective(c.O.Plan.Cells[cell].With(record.Cell{study.FactorArrival: other})))
		if !ok {
			continue
		}
		g := c.Find(p.Finding, i)
		if !grown(g) || f.Estimate <= 0 {
			continue
		}
		measured := words.Quantity(g.Estimate, g.Unit)
		switch {
		case Overlap(f, g):
			return []note.Note{noteSameArrivals.Of(other, measured)}
		case arrival == study.ArrivalBurst && g.Estimate < f.Estimate:
			return []note.Note{noteOtherArrivals.Of(other, measured, words.Percent(1-g.Estimate/f.Estimate))}
		case arrival == study.ArrivalBurst:
			return []note.Note{noteOtherArrivals.Of(other, measured, nil)}
		}
		return []note.Note{noteBurst.Of(measured)}
	}
	return nil
}

// trends adds to the last of several published figures that differ in one numeric factor (such
// as connections) how they and ours grow with it.
func (c *Beside) trends(all []record.Published) []record.Published {
	groups := map[string][]int{}
	var order []string
	factor := ""
	for _, varying := range c.O.Plan.Varying {
		if f, ok := study.FactorByName(varying.Factor); ok && f.Numeric {
			factor = varying.Factor
			break
		}
	}
	if factor == "" {
		return all
	}
	for i, p := range all {
		if _, err := strconv.ParseFloat(p.Cell[factor], 64); err != nil || p.Measured == nil {
			continue
		}
		rest := p.Cell.With(nil)
		delete(rest, factor)
		delete(rest, study.FactorArrival)
		key := p.Source + "\x00" + p.Finding + "\x00" + rest.Key()
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}
	level := func(i int) float64 {
		v, _ := strconv.ParseFloat(all[i].Cell[factor], 64)
		return v
	}
	byLevel := func(a, b int) int { return cmp.Compare(level(a), level(b)) }
	for _, key := range order { // of several entries at a level the first counts
		low, high := slices.MinFunc(groups[key], byLevel), slices.MaxFunc(groups[key], byLevel)
		if level(low) < level(high) {
			all[high].Says = append(all[high].Says, c.trend(all[low], all[high], factor)...)
		}
	}
	return all
}

// trend compares the growth of a published figure with ours, for every measured arrival
// process.
func (c *Beside) trend(low, high record.Published, factor string) []note.Note {
	if low.Figure <= 0 || high.Figure <= 0 || low.Claim == high.Claim {
		return nil
	}
	from, to := low.Cell[factor], high.Cell[factor]
	var parts []string
	var burst, spread float64
	var flat bool
	arrivals := []string{low.Cell[study.FactorArrival]}
	for _, varying := range c.O.Plan.Varying {
		if varying.Factor == study.FactorArrival {
			arrivals = varying.Levels
		}
	}
	for _, arrival := range arrivals {
		over := record.Cell{}
		under := ""
		if arrival != "" {
			over[study.FactorArrival] = arrival
			under = " under " + arrival + " arrivals"
		}
		a := c.index[low.Finding+"\x00"+low.Cell.With(over).Key()]
		b := c.index[high.Finding+"\x00"+high.Cell.With(over).Key()]
		if !grown(a) || !grown(b) {
			continue
		}
		growth := b.Estimate / a.Estimate
		within := Overlap(a, b)
		change := words.Fold(growth)
		if within {
			change = "stays within its interval"
		}
		parts = append(parts, change+under)
		if arrival == study.ArrivalBurst {
			burst = growth
		} else if arrival != "" {
			spread, flat = math.Max(spread, growth), flat || within
		}
	}
	if len(parts) == 0 {
		return nil
	}
	out := []note.Note{noteTrend.Of(from, to, factor, words.Fold(high.Figure/low.Figure), words.List(parts))}
	if burst >= 1.5 && spread > 0 && (spread < 1.25 || flat && spread < burst/2) {
		out = append(out, noteScheduleTrend.Of())
	}
	return out
}

// Overlap reports whether the intervals of two findings meet.
func Overlap(a, b *record.Finding) bool { return a.Low <= b.High && b.Low <= a.High }

// grown reports whether there is a finding with a positive figure to take ratios of.
func grown(f *record.Finding) bool {
	return f != nil && (f.Verdict == record.VerdictReal || f.Verdict == record.VerdictMeasured) && f.Estimate > 0
}
