package analysis_test

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Intervals narrow from block to block until the stop rule is satisfied.
func TestProgress(t *testing.T) {
	progress := func(text string, blocks int) analysis.Progress {
		p, err := kinds.Progress(analysistest.Simulate(t, text, blocks, 6, analysistest.Quiet()))
		must.OK(t, err)
		return p
	}
	for blocks, done := range map[int]bool{0: false, 1: false, 4: false, 5: true} {
		p := progress(analysistest.QuickStudy, blocks)
		if p.Blocks != blocks || p.Done != done || p.Why == "" || p.TargetRatio <= 0 {
			t.Errorf("after %d blocks: %+v", blocks, p)
		}
		if blocks < 2 {
			if len(p.Widths) > 0 {
				t.Errorf("after %d blocks there are intervals: %+v", blocks, p.Widths)
			}
			continue
		}
		for _, w := range p.Widths {
			first, last := w.After[0], w.After[len(w.After)-1]
			if w.Label == "" || first.Blocks != 2 || last.Blocks != blocks || last.Ratio >= first.Ratio {
				t.Errorf("after %d blocks: %+v", blocks, w)
			}
		}
		if len(p.Widths) == 0 {
			t.Errorf("after %d blocks there is no interval", blocks)
		}
	}
	long := progress(analysistest.QuickStudy, 40)
	if n := len(long.Widths[0].After); n > 12 || long.Widths[0].After[n-1].Blocks != 40 {
		t.Errorf("of 40 blocks: %+v", long.Widths[0].After)
	}
	if p := progress(analysistest.SweepStudy, 6); p.Why != "" || len(p.Widths) > 0 || p.Blocks != 6 {
		t.Errorf("without a stop rule: %+v", p)
	}
	began := time.Now()
	progress(analysistest.QuickStudy, 20)
	t.Logf("20 blocks: %v", time.Since(began))
}
