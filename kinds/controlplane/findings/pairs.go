package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// Percentiles over change-proxy pairs are reported if the pairs leave one beyond them. Pairs of one
// change are similar, since istiod debounces and computes once for all proxies, so the number of
// changes determines the precision of a percentile. It is therefore shown with that number, and
// with a warning if the changes alone would be too few.

// reached returns a quantile of change-proxy pairs, NaN if there are too few to leave one beyond
// it: the 90th percentile requires 10, the 99th 100, the 99.9th 1,000.
func reached(c stat.Counts, q float64) float64 {
	if q < 1 && q > 0.5 && float64(c.Total())*(1-q) < 1-1e-9 {
		return math.NaN()
	}
	return c.Quantile(q)
}

// fewChanges warns of percentiles over pairs with too few changes, judging by the trial that has
// the fewest.
func fewChanges(needs int, of group) func(o *analysis.Observations, cell int) []note.Note {
	return func(o *analysis.Observations, cell int) []note.Note {
		return fewChangesOf(o, o.Valid(cell), needs, of)
	}
}

func fewChangesOf(o *analysis.Observations, trials []*record.Trial, needs int, of group) []note.Note {
	pairs, changes := 0, math.MaxInt
	for _, t := range trials {
		c := of.of(converged(o, t))
		if p := int(c.acked.Total()); p > 0 && len(c.first) < changes {
			pairs, changes = p, len(c.first)
		}
	}
	if changes >= needs {
		return nil
	}
	return []note.Note{noteFewChanges.Of(pairs, changes, needs)}
}

// either combines two sources of warnings.
func either(a, b func(o *analysis.Observations, cell int) []note.Note) func(o *analysis.Observations, cell int) []note.Note {
	return func(o *analysis.Observations, cell int) []note.Note { return append(a(o, cell), b(o, cell)...) }
}
