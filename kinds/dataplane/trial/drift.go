package trial

import (
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// driftOf compares the halves of a window; nil if it has too few intervals. CPU counters are not
// read during a window, so it relies on latency alone.
func driftOf(intervals []load.Interval) *record.Drift {
	medians := make([]float64, len(intervals))
	for i := range intervals {
		medians[i] = intervals[i].MedianNS() / 1e3
	}
	d, ok := stat.DriftOf(medians)
	if !ok {
		return nil
	}
	return &record.Drift{FirstUS: d.First, SecondUS: d.Second, ErrorUS: d.SE, Intervals: d.N}
}
