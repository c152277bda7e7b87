package analysis

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
)

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
