package runner

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/study"
)

// climbing has nine cells, searched along both of their factors.
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

// breaks are the cells of a plan that were measured and have more than so
// many requests a second on all connections.
func breaks(plan *study.Plan, run record.Run) []record.Cell {
	var out []record.Cell
	for _, t := range run.Trials {
		if t.Cell[study.FactorConnections] == "2" && t.Cell[study.FactorRate] == "200" {
			out = append(out, t.Cell)
		}
	}
	return out
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

// Cells are measured from low levels to high ones, and those above one that
// breaks the bound are left out, also when the run is resumed in between.
func TestSearch(t *testing.T) {
	s := parse(t, climbing)
	want := []string{"1x100", "1x200", "1x400", "2x100", "2x200", "4x100"}
	for n := range 2*len(want) + 1 {
		out := filepath.Join(t.TempDir(), "run")
		first, _ := newRun(t, out, false, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		first.o.Beyond = breaks
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
		r.o.Beyond = breaks
		if err := r.blocks(t.Context()); err != nil {
			t.Fatal(err)
		}
		trials := trialsOf(t, out)
		if got := measuredCells(trials, 0); !slices.Equal(got, want) {
			t.Fatalf("stopped at %d: measured %v, want %v", n, got, want)
		}
		// The second block knows from the first what is beyond the bound.
		if got := measuredCells(trials, 1); !slices.Equal(got, want) {
			t.Fatalf("stopped at %d: second block measured %v", n, got)
		}
		if r.wholeBlocks() != 2 || r.stop != "all 2 blocks done" {
			t.Errorf("stopped at %d: %d whole blocks, ended by %q", n, r.wholeBlocks(), r.stop)
		}
		r.dir.Close()
	}
}

// Nothing is left out of a study that does not search, or where nothing is
// beyond the bound.
func TestSearchNothingBeyond(t *testing.T) {
	s := parse(t, climbing)
	r, events := newRun(t, filepath.Join(t.TempDir(), "run"), false, s, &script{})
	r.o.Beyond = func(*study.Plan, record.Run) []record.Cell { return nil }
	if err := r.blocks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.trials) != 18 || slices.ContainsFunc(*events, func(e Event) bool { return strings.Contains(e.Text, "left out") }) {
		t.Errorf("%d trials of 18", len(r.trials))
	}
}
