package findings

import (
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
)

// heatSteps is the number of latency ranges per factor of ten.
const heatSteps = 12

// latencyByBlock counts a cell's requests by block and latency; nil without any.
func latencyByBlock(o *analysis.Observations, cell int) *record.LatencyByBlock {
	out := &record.LatencyByBlock{}
	step := func(ns int64) int {
		return int(math.Floor(heatSteps * math.Log10(math.Max(1, float64(ns)*analysis.NsToUS))))
	}
	var counts []map[int]int64 // by block and step
	first, last := math.MaxInt, math.MinInt
	for _, block := range o.Blocks {
		in := map[int]int64{}
		for _, t := range o.ValidIn(cell, block) {
			h := o.Run.Hist[t.ID].Intended
			if h == nil {
				continue
			}
			for _, bar := range h.Distribution() {
				if bar.Count > 0 {
					i := step(bar.From + (bar.To-bar.From)/2)
					in[i], first, last = in[i]+bar.Count, min(first, i), max(last, i)
				}
			}
		}
		if len(in) > 0 {
			out.Blocks, counts = append(out.Blocks, block), append(counts, in)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	for i := first; i <= last+1; i++ {
		out.EdgesUS = append(out.EdgesUS, math.Pow(10, float64(i)/heatSteps))
	}
	for _, in := range counts {
		row := make([]int64, last-first+1)
		for i, n := range in {
			row[i-first] = n
		}
		out.Counts = append(out.Counts, row)
	}
	return out
}
