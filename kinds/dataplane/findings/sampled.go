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

// unsteady lists the parts without a steady rate of use: they do not follow the requests.
var unsteady = []string{record.PartControl, record.PartIdleNode, record.PartNodeAgent}

// sampledCPU states the precision of a run's CPU figures from kubelets: the usual error of a
// figure, the largest error, and an upper bound. Intervals include the error only to the extent
// that it varies between blocks.
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
