package analysis

import (
	"fmt"
	"regexp"
	"sort"

	"github.com/meshtrial/meshtrial/record"
)

// validity counts a run's trials and says why some may not be believed.
func (o *Observations) validity() record.ValiditySummary {
	v := record.ValiditySummary{Trials: len(o.Run.Trials), Blocks: len(o.Blocks)}
	at := map[string]int{}
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		if t.Validity.Valid {
			v.Valid++
			continue
		}
		v.Invalid++
		for _, c := range t.Validity.Checks {
			if c.OK {
				continue
			}
			k, ok := at[c.Name]
			if !ok {
				k = len(v.Reasons)
				at[c.Name] = k
				v.Reasons = append(v.Reasons, record.InvalidReason{Check: c.Name, Example: fmt.Sprintf("%s: %s", t.ID, c.Detail)})
			}
			v.Reasons[k].Trials++
		}
	}
	sort.SliceStable(v.Reasons, func(i, j int) bool { return v.Reasons[i].Trials > v.Reasons[j].Trials })
	return v
}

var digits = regexp.MustCompile(`(\B-)?[0-9]+(\.[0-9]+)?`)

// trialWarnings gathers what trials warned of: warnings that differ only in
// their figures are told together, with the range of the figures and the first
// trial that has it.
func (o *Observations) trialWarnings() []string {
	type group struct {
		first string // trial
		texts []string
	}
	var order []string
	groups := map[string]*group{}
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		for _, w := range t.Validity.Warnings {
			key := digits.ReplaceAllString(w, "0")
			g := groups[key]
			if g == nil {
				g = &group{first: t.ID}
				groups[key] = g
				order = append(order, key)
			}
			g.texts = append(g.texts, w)
		}
	}
	var out []string
	for _, key := range order {
		g := groups[key]
		if n := len(g.texts); n > 1 {
			out = append(out, fmt.Sprintf("%d of %d trials, %s the first: %s", n, len(o.Run.Trials), g.first, Spread(g.texts)))
			continue
		}
		out = append(out, fmt.Sprintf("trial %s: %s", g.first, g.texts[0]))
	}
	return out
}
