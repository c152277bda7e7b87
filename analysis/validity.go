package analysis

import (
	"fmt"
	"regexp"
	"sort"

	"github.com/meshmark/meshmark/record"
)

// validity counts a run's trials and says why some may not be believed.
func (o *observations) validity() record.ValiditySummary {
	v := record.ValiditySummary{Trials: len(o.run.Trials), Blocks: len(o.blocks)}
	at := map[string]int{}
	for i := range o.run.Trials {
		t := &o.run.Trials[i]
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

var digits = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// trialWarnings gathers what trials warned of: warnings that differ only in
// their figures are counted together and shown by their first.
func (o *observations) trialWarnings() []string {
	type group struct {
		example string
		trials  int
	}
	var order []string
	groups := map[string]*group{}
	for i := range o.run.Trials {
		t := &o.run.Trials[i]
		for _, w := range t.Validity.Warnings {
			key := digits.ReplaceAllString(w, "0")
			g := groups[key]
			if g == nil {
				g = &group{example: t.ID + ": " + w}
				groups[key] = g
				order = append(order, key)
			}
			g.trials++
		}
	}
	var out []string
	for _, key := range order {
		g := groups[key]
		if g.trials == 1 {
			out = append(out, "trial "+g.example)
			continue
		}
		out = append(out, fmt.Sprintf("%d of %d trials, as %s", g.trials, len(o.run.Trials), g.example))
	}
	return out
}
