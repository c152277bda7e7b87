package carrying

import (
	"cmp"
	"slices"

	"github.com/meshtrial/meshtrial/stat/sizing"
)

// pairs returns the pairs of ways to compare. Pairs with a way that cannot carry all
// requests of the described mesh come last: it answers only part of the question.
func (z *Ways) pairs(m sizing.Mesh) (out [][2]*Way) {
	for i, a := range z.All {
		for _, b := range z.All[i+1:] {
			if a.plain != b && b.plain != a {
				out = append(out, [2]*Way{a, b})
			}
		}
	}
	last := func(pair [2]*Way) int {
		if z.onlyL4(pair[0], m) || z.onlyL4(pair[1], m) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(p, q [2]*Way) int { return cmp.Compare(last(p), last(q)) })
	return out
}

// onlyL4 reports whether requests of the described mesh need L7, which the way does not
// provide, while another way is the same with waypoints, which do.
func (z *Ways) onlyL4(w *Way, m sizing.Mesh) bool {
	return m.L7 > 0 && slices.ContainsFunc(z.All, func(o *Way) bool { return o.plain == w })
}

// called returns a way's name in comparing sentences.
func (z *Ways) called(w *Way, m sizing.Mesh) string {
	if z.onlyL4(w, m) {
		return w.Name + " without waypoints (L4 alone)"
	}
	return w.Name
}
