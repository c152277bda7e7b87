package findings

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// unsteady are the parts whose use has no rate that is steady: none follows the requests.
var unsteady = []string{record.PartControl, record.PartIdleNode, record.PartNodeAgent}

// sampledCPU says of a run whose CPU the kubelets told how well it is known: the
// usual error of a figure, the largest, and what no figure is beyond. Intervals
// have the error in them as far as it varies from block to block.
func sampledCPU(o *analysis.Observations) []note.Note {
	if o.Run.Header.Observed != record.ObservedKubelet {
		return nil
	}
	var shares []float64
	bound, gap := 0.0, 0.0
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		if !t.Validity.Valid {
			continue
		}
		for part, s := range t.Sampled {
			used := t.CPU[part].TotalS()
			if slices.Contains(unsteady, part) || used <= 0 {
				continue
			}
			shares = append(shares, s.ErrorS/used)
			bound, gap = max(bound, (s.HighS-used)/used, (used-s.LowS)/used), max(gap, s.GapS)
		}
	}
	if len(shares) == 0 {
		return []note.Note{noteKubelets.Of(nil, nil, nil, nil)}
	}
	percent := func(v float64) string {
		if v >= 0.1 {
			return words.Percent(v)
		}
		return fmt.Sprintf("%.2g%%", v*100)
	}
	return []note.Note{noteKubelets.Of(gap, percent(stat.Median(shares)), percent(slices.Max(shares)), percent(bound))}
}
