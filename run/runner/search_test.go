package runner

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// climbing has nine cells, searched along both factors.
const climbing = `
name: climbing
question: How far?
mesh: none
settings: {sidecars: none}
factors: {connections: [1, 2, 4], rate: [100, 200, 400]}
search:
  - {factor: connections, finding: latency_p50, bound: 2 ms}
  - {factor: rate, finding: latency_p50, bound: 2 ms}
warmup: {min: 500ms, max: 1s}
window: 500ms
interval: 250ms
blocks: {min: 2, max: 2, limit: 1h}
seed: 7
`

// climbNext requests a block's cells in the study's order, except those above a measured one that
// breaks the bound.
func climbNext(plan *study.Plan, run record.Run, block int) (int, bool, error) {
	done, beyond := map[string]bool{}, false
	for _, t := range run.Trials {
		done[t.ID] = true
		beyond = beyond || t.Cell[study.FactorConnections] == "2" && t.Cell[study.FactorRate] == "200"
	}
	for cell := range plan.Cells {
		c := plan.Cells[cell]
		if beyond && c[study.FactorConnections] != "1" && c[study.FactorRate] != "100" && c.Key() != plan.Cells[4].Key() {
			continue
		}
		for order, slot := range plan.Block(block) {
			if slot.Cell == cell && !done[study.TrialID(block, order)] {
				return order, true, nil
			}
		}
	}
	return 0, false, nil
}

func measuredCells(trials []record.Trial, block int) []string {
	var out []string
	for _, t := range trials {
		if t.Block == block {
			out = append(out, t.Cell[study.FactorConnections]+"x"+t.Cell[study.FactorRate])
		}
	}
	return out
}

// A search measures exactly what is requested, even if the run is resumed in between.
func TestSearch(t *testing.T) {
	s := studytest.Parse(t, climbing)
	want := []string{"1x100", "1x200", "1x400", "2x100", "2x200", "4x100"}
	for n := range 2*len(want) + 1 {
		out := filepath.Join(t.TempDir(), "run")
		first, _ := newRun(t, out, false, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		first.o.Next = climbNext
		first.pods = &script{trial: func(i int, _ record.Cell, _ uint64) error {
			if i == n {
				cancel()
			}
			return nil
		}}
		err := first.blocks(ctx)
		cancel()
		if (err == nil) != (n == 2*len(want)) {
			t.Fatalf("stopped at %d: %v", n, err)
		}
		first.dir.Close()
		r, _ := newRun(t, out, true, s, &script{})
		r.o.Next = climbNext
		must.OK(t, r.blocks(t.Context()))
		trials := trialsOf(t, out)
		if got := measuredCells(trials, 0); !slices.Equal(got, want) {
			t.Fatalf("stopped at %d: measured %v, want %v", n, got, want)
		}
		// The second block knows from the first what exceeds the bound.
		if got := measuredCells(trials, 1); !slices.Equal(got, want) {
			t.Fatalf("stopped at %d: second block measured %v", n, got)
		}
		if r.wholeBlocks() != 2 || r.stop != "all 2 blocks done" {
			t.Errorf("stopped at %d: %d whole blocks, ended by %q", n, r.wholeBlocks(), r.stop)
		}
		r.dir.Close()
	}
}

// A run whose searches need no further block ends, even if it is resumed.
func TestSearchSure(t *testing.T) {
	s := studytest.Parse(t, climbing)
	s.Blocks.Max = 5
	out := filepath.Join(t.TempDir(), "run")
	for _, resume := range []bool{false, true} {
		r, _ := newRun(t, out, resume, s, &script{})
		r.o.Next = func(plan *study.Plan, run record.Run, block int) (int, bool, error) {
			if block == 3 {
				return 0, false, nil
			}
			return climbNext(plan, run, block)
		}
		must.OK(t, r.blocks(t.Context()))
		if r.stop != "every search has its answer after 3 blocks" || r.wholeBlocks() != 3 {
			t.Errorf("ended by %q after %d blocks", r.stop, r.wholeBlocks())
		}
		r.dir.Close()
	}
}

// Without Next, a study that searches measures every cell.
func TestSearchWithoutNext(t *testing.T) {
	r, _ := newRun(t, filepath.Join(t.TempDir(), "run"), false, studytest.Parse(t, climbing), &script{})
	must.OK(t, r.blocks(t.Context()))
	if len(r.trials) != 18 {
		t.Errorf("%d trials of 18", len(r.trials))
	}
}

// A search's time limit also applies within a block: the first trial is always made, and no trial
// starts that would end later than the limit if it took as long as the longest one.
func TestSearchLimit(t *testing.T) {
	s := studytest.Parse(t, climbing)
	s.Blocks.Limit = 25 * time.Second
	r, _ := newRun(t, filepath.Join(t.TempDir(), "run"), false, s, nil)
	clock := time.Unix(0, 0)
	r.now = func() time.Time { return clock }
	r.o.Next = climbNext
	r.pods = &script{trial: func(int, record.Cell, uint64) error {
		clock = clock.Add(8 * time.Second)
		return nil
	}}
	must.OK(t, r.blocks(t.Context()))
	if len(r.trials) != 3 || r.stop != "time limit of 25s after 0 blocks" {
		t.Errorf("%d trials in 25 s, ended by %q", len(r.trials), r.stop)
	}
}
