package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/stat"
)

// Diff is the difference of two profiles: the change in the share of each call path.
type Diff struct {
	// Before and After are the two sides' weights and samples.
	Before DiffSide `json:"before"`
	After  DiffSide `json:"after"`
	// Method is how the intervals were computed, in words.
	Method string `json:"method"`
	// Paths has those with a share of at least leastShare on either side, including
	// vanished and new ones, sorted by the change of their own share, largest first.
	Paths []DiffPath `json:"paths"`
	// TooFew means that one side has too few samples for a difference; a warning says
	// which.
	TooFew bool `json:"too_few,omitempty"`
	// Small counts the omitted paths.
	Small    int         `json:"small"`
	Warnings []note.Note `json:"warnings,omitempty"`
}

// DiffSide is one of the two measurements.
type DiffSide struct {
	Total   int64  `json:"total"`
	Unit    string `json:"unit"`
	Samples int64  `json:"samples"`
	Blocks  int    `json:"blocks"`
}

// DiffPath is a function on a call path, before and after.
type DiffPath struct {
	Frames []Frame `json:"-"`      // the root first
	Path   string  `json:"path"`   // their labels, joined by semicolons
	Before float64 `json:"before"` // share of the samples, including callees
	After  float64 `json:"after"`
	// Delta is After - Before with its 95% interval; Self and the following fields are the
	// function's own part.
	Delta    float64 `json:"delta"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Self     float64 `json:"self"`
	SelfLow  float64 `json:"self_low"`
	SelfHigh float64 `json:"self_high"`
	Vanished bool    `json:"vanished,omitempty"` // absent from all stacks after
	New      bool    `json:"new,omitempty"`

	stack StackID // in the union of both
}

// Real reports whether the interval of the change excludes zero.
func (d DiffPath) Real() bool { return d.Low > 0 || d.High < 0 }

// leastShare is the share that a path must have before or after to be listed.
const leastShare = 0.001

// side is a measurement, indexed by the paths of the union of both.
type side struct {
	blocks     blocks
	total      int64
	samples    int64
	self       [][]int64 // by path, then by block; nil for none
	cumulative [][]int64
}

// Compare compares two measurements, each one profile or several that are its blocks. It
// compares shares, so the durations may differ. Intervals are per path: about five of a
// hundred unchanged paths appear to change.
func Compare(before, after []*Profile) (Diff, error) {
	if len(before) == 0 || len(after) == 0 {
		return Diff{}, fmt.Errorf("a difference needs two profiles")
	}
	for _, p := range slices.Concat(before, after) {
		if p.Kind != before[0].Kind {
			return Diff{}, fmt.Errorf("a %s profile and a %s profile cannot be compared", before[0].Kind, p.Kind)
		}
		if p.Total() == 0 {
			return Diff{}, fmt.Errorf("a profile without samples cannot be compared")
		}
	}
	union := New(before[0].Kind, before[0].Unit)
	a, methodA := union.side(before)
	b, methodB := union.side(after)
	out := Diff{Before: a.about(before), After: b.about(after), Method: "Welch's t on shares, " + methodA}
	if len(a.blocks.totals) < 2 || len(b.blocks.totals) < 2 {
		out.Method = "from the numbers of samples alone, as if they were independent"
	} else if methodA != methodB {
		out.Method += ", and " + methodB
	}
	if out.Before.Unit != out.After.Unit {
		out.Warnings = append(out.Warnings, noteUnits.Of(out.Before.Unit, out.After.Unit))
	}
	for _, side := range []struct {
		name string
		DiffSide
	}{{"before", out.Before}, {"after", out.After}} {
		if TooFew(before[0].Kind, side.Samples) {
			out.TooFew = true
			out.Warnings = append(out.Warnings, Few(side.Samples).At(side.name))
		}
	}
	for id := 1; id < len(union.paths); id++ {
		d := DiffPath{stack: StackID(id)}
		allA, allB := at(a.cumulative, id), at(b.cumulative, id)
		d.Before, d.After = a.share(allA), b.share(allB)
		if d.Before < leastShare && d.After < leastShare {
			out.Small++
			continue
		}
		d.Delta, d.Low, d.High = difference(a, b, allA, allB)
		d.Self, d.SelfLow, d.SelfHigh = difference(a, b, at(a.self, id), at(b.self, id))
		d.Vanished, d.New = allB == nil, allA == nil
		d.Frames = union.Frames(d.stack)
		for i, f := range d.Frames {
			if i > 0 {
				d.Path += ";"
			}
			d.Path += f.folded()
		}
		out.Paths = append(out.Paths, d)
	}
	slices.SortFunc(out.Paths, func(a, b DiffPath) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Self), math.Abs(a.Self)), cmp.Compare(math.Abs(b.Delta), math.Abs(a.Delta)),
			cmp.Compare(a.Path, b.Path))
	})
	return out, nil
}

func (s side) about(profiles []*Profile) DiffSide {
	return DiffSide{Total: s.total, Unit: profiles[0].Unit, Samples: s.samples, Blocks: len(s.blocks.totals)}
}

func at(list [][]int64, id int) []int64 {
	if id < len(list) {
		return list[id]
	}
	return nil
}

// side adds profiles' paths to the union.
func (u *Profile) side(profiles []*Profile) (side, string) {
	var s side
	var method string
	s.blocks, method = blocksOf(profiles)
	add := func(list *[][]int64, id StackID, block int, weight int64) {
		for len(*list) <= int(id) {
			*list = append(*list, nil)
		}
		if (*list)[id] == nil {
			(*list)[id] = make([]int64, len(s.blocks.totals))
		}
		(*list)[id][block] += weight
	}
	for _, p := range profiles {
		s.total = plus(s.total, p.Total())
		s.samples = plus(s.samples, p.Taken())
		to := p.stacksIn(u)
		for sample := range p.Samples() {
			block := s.blocks.of(p, sample)
			id := to[sample.Stack]
			add(&s.self, id, block, sample.Weight)
			for ; id != 0; id = u.paths[id].parent {
				add(&s.cumulative, id, block, sample.Weight)
			}
		}
	}
	return s, method
}

func (s side) share(byBlock []int64) float64 {
	sum, total := 0.0, 0.0
	for _, w := range byBlock {
		sum += float64(w)
	}
	for _, w := range s.blocks.totals {
		total += float64(w)
	}
	return sum / total
}

// difference returns the change of a share with its interval: Welch's over blocks, or from
// the numbers of samples if one side has no blocks.
func difference(a, b side, inA, inB []int64) (delta, low, high float64) {
	if inA == nil && inB == nil {
		return 0, 0, 0
	}
	shareA, shareB := a.share(inA), b.share(inB)
	delta = shareB - shareA
	half := 0.0
	if len(a.blocks.totals) > 1 && len(b.blocks.totals) > 1 {
		if e := stat.Unpaired(a.blocks.shares(inA), b.blocks.shares(inB), stat.Options{}); e.Defined() {
			half = (e.High - e.Low) / 2
		}
	} else {
		half = math.Hypot(binomialHalf(shareA, a.samples), binomialHalf(shareB, b.samples))
	}
	return delta, delta - half, delta + half
}
