package analysis

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// Within returns the observations of only some blocks.
func (o *Observations) Within(is func(block int) bool) *Observations {
	out := *o
	out.Blocks = slices.DeleteFunc(slices.Clone(o.Blocks), func(block int) bool { return !is(block) })
	out.Units, out.onePods = out.units()
	out.pseudo, out.merged = map[pooled][]float64{}, map[turns][]stat.Counts{}
	return &out
}

// Added returns what a cell adds to another by several measures, judged together: they
// share one error rate.
func (o *Observations) Added(cell, base int, measures []Measure) []record.Finding {
	var out []record.Finding
	var family Family
	for _, m := range measures {
		f, d := o.added(cell, base, m)
		out, family = append(out, f), append(family, d)
	}
	family.Judge(out)
	return out
}
