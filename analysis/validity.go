package analysis

import (
	"fmt"
	"slices"
	"sort"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// validity counts a run's trials and says why some are not valid.
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

// trialWarnings merges the warnings of all trials: similar warnings become one, with the range of
// their values and the first trial that has it.
func (o *Observations) trialWarnings() []note.Note {
	var order []note.Note
	alike, in := map[int][]note.Note{}, map[int][]string{} // trials that have each
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		for _, w := range t.Validity.Warnings {
			k := slices.IndexFunc(order, w.Like)
			if k < 0 {
				k = len(order)
				order = append(order, w)
			}
			alike[k] = append(alike[k], w)
			if !slices.Contains(in[k], t.ID) {
				in[k] = append(in[k], t.ID)
			}
		}
	}
	out := make([]note.Note, len(order))
	for k := range order {
		where := "trial " + in[k][0]
		if n := len(in[k]); n > 1 {
			where = fmt.Sprintf("%d of %d trials, %s the first", n, len(o.Run.Trials), in[k][0])
		}
		out[k] = note.Together(alike[k]).At(where)
	}
	return out
}
