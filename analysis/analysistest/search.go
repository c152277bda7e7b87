package analysistest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// refineStudy searches between its levels.
const refineStudy = `
name: one
question: How many?
control: {changes: 2}
factors: {proxies: [10, 20, 40, 80]}
search: [{factor: proxies, finding: convergence_p99, bound: 300 ms, tolerance: 10%}]
blocks: {min: 1, max: 3}
`

// Limited returns a world whose istiod keeps up with a limited number of
// proxies, which depends on the block.
func Limited(limit func(block int) int) func(*record.Trial, []record.Event) {
	return func(t *record.Trial, events []record.Event) {
		n, _ := strconv.Atoi(t.Cell[controlplane.FactorProxies])
		if n <= limit(t.Block) {
			return
		}
		for i := range events {
			for k := range events[i].Seen.AckedUS {
				events[i].Seen.AckedUS[k] += 1_000_000
			}
		}
	}
}

// Climbed executes the trials that Next requests, taking them from a run that
// measured all.
func Climbed(t testing.TB, kinds analysis.Kinds, all record.Run, blocks int) (record.Run, []string) {
	t.Helper()
	plan := PlanOf(t, string(all.StudyYAML), all.Header.Seed)
	run := all
	run.Trials, run.Events = nil, nil
	var tried []string
	for block := range blocks {
		for n := 0; ; n++ {
			order, more, err := kinds.Next(plan, run, block)
			if err != nil || n > plan.BlockSize() {
				t.Fatal("block without end", tried, err)
			}
			if !more {
				break
			}
			id := study.TrialID(block, order)
			if slices.ContainsFunc(run.Trials, func(t record.Trial) bool { return t.ID == id }) {
				t.Fatal("asked twice for", id)
			}
			for _, one := range all.Trials {
				if one.ID == id {
					run.Trials = append(run.Trials, one)
					tried = append(tried, fmt.Sprint(block, ":", one.Cell[controlplane.FactorProxies]))
				}
			}
			for _, e := range all.Events {
				if e.Trial == id {
					run.Events = append(run.Events, e)
				}
			}
		}
	}
	return run, tried
}

// Refined returns a run of a study that searches between its levels.
func Refined(t *testing.T, blocks int, spoil func(*record.Trial, []record.Event)) record.Run {
	return SimulateControl(t, refineStudy, blocks, func(record.Cell) ControlWorld { return ControlWorld{DebounceMS: 10, Spoil: spoil} })
}
