package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
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

// leaveOut removes the trials that fail checks against the other trials of their run: first
// those on unusual machines, then those that the kind finds among the rest.
func (o *Observations) leaveOut() {
	o.without(o.unlike())
	if o.kind.Unfair != nil {
		o.without(o.kind.Unfair(o))
	}
}

// without removes the trials that have failed checks (given by trial), and adds these checks
// to the run's verdicts in memory; those on disk stay unchanged.
func (o *Observations) without(found map[string][]record.Check) {
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		checks := slices.DeleteFunc(found[t.ID], func(c record.Check) bool { return c.OK })
		if len(checks) == 0 {
			continue
		}
		t.Validity.Checks = slices.Concat(t.Validity.Checks, checks)
		t.Validity.Valid = false
	}
	for _, blocks := range o.trials {
		for block, trials := range blocks {
			blocks[block] = slices.DeleteFunc(trials, func(t *record.Trial) bool { return !t.Validity.Valid })
		}
	}
}

// Neighbouring trials count as correlated if there are at least this many trials and the
// correlation is this many standard errors above zero.
const (
	alikeTrials = 20
	alikeErrors = 2.5
)

// drifting warns of a machine whose level changed so slowly that neighbouring trials are
// correlated, whatever their cells. Differences inside blocks remain valid. A plain value
// applies only to the time of the run, and its interval says nothing about any other hour.
func (o *Observations) drifting(measures []Measure) []note.Note {
	for _, m := range measures {
		if m.Quantile != 0.5 && m.Part != record.PartMachine {
			continue
		}
		if r, n := o.alike(m); n >= alikeTrials && r > alikeErrors/math.Sqrt(float64(n)) {
			return []note.Note{noteDrift.Of(m.Name, r)}
		}
	}
	return nil
}

// alike returns the correlation of a measure between successive trials of any cells, on a
// ratio scale and after subtracting each cell's mean, and the number of trials.
func (o *Observations) alike(m Measure) (correlation float64, trials int) {
	type one struct {
		trial *record.Trial
		value float64
	}
	var all []one
	for cell := range o.Plan.Cells {
		var sum, n float64
		from := len(all)
		for _, t := range o.Valid(cell) {
			if v := m.Of(o, t); v > 0 && !math.IsInf(v, 1) {
				all = append(all, one{t, math.Log(v)})
				sum, n = sum+math.Log(v), n+1
			}
		}
		for i := range all[from:] {
			all[from+i].value -= sum / n
		}
	}
	slices.SortFunc(all, func(a, b one) int {
		if a.trial.Block != b.trial.Block {
			return a.trial.Block - b.trial.Block
		}
		return a.trial.Order - b.trial.Order
	})
	var square, next float64
	for i, x := range all {
		square += x.value * x.value
		if i > 0 {
			next += x.value * all[i-1].value
		}
	}
	if square == 0 {
		return 0, len(all)
	}
	return next / square, len(all)
}

// unattributedLimit is the share of all CPUs' time above which use by processes
// outside the study is reported. On a quiet machine it is 1% or less.
const unattributedLimit = 0.05

// unattributed warns of trials in which processes outside the study used much of
// the machine, and names them if they are known.
func (o *Observations) unattributed() []note.Note {
	above, known, most := 0, 0, 0.0
	used := map[string]float64{}
	var commands []string
	for i := range o.Run.Trials {
		others := o.Run.Trials[i].Others
		if others == nil {
			continue
		}
		known++
		if others.UnattributedRatio <= unattributedLimit {
			continue
		}
		above, most = above+1, math.Max(most, others.UnattributedRatio)
		for _, p := range others.Who {
			if _, ok := used[p.Command]; !ok {
				commands = append(commands, p.Command)
			}
			used[p.Command] += p.CPUS
		}
	}
	if above == 0 {
		return nil
	}
	slices.SortStableFunc(commands, func(a, b string) int { return cmp.Compare(used[b], used[a]) })
	var who any
	if n := min(len(commands), 3); n > 0 {
		who = strings.Join(commands[:n], ", ")
	}
	return []note.Note{noteUnattributed.Of(above, known, words.Percent(unattributedLimit), words.Percent(most), who)}
}
