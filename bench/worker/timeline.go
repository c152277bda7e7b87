package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
)

// graphStudy is a trial that only serves to create its pods.
const graphStudy = `
name: bench-graph
question: How soon is a graph of workers there?
mesh: none
graph: {generate: {services: %d, depth: 4, fan_out: 6, seed: 1}}
load: {clients: 1}
settings: {rate: 1}
timeline: {duration: 1s, steps: [{name: more, at: 500ms, load: {rate: 2}}]}
baseline: {}
blocks: {min: 1, max: 1}
stop: none
assert: [total.failed == 0]
`

// graph returns the seconds that the pods of a graph took to start in each round.
func (o *options) graph(ctx context.Context) ([]table.Row, error) {
	var seconds []float64
	for round := range o.rounds {
		run, _, err := o.study(ctx, fmt.Sprintf("graph-%d", round), fmt.Sprintf(graphStudy, o.workers))
		if err != nil {
			return nil, err
		}
		seconds = append(seconds, run.Trials[0].Scenario.ReadyS)
	}
	return []table.Row{table.Of(fmt.Sprintf("a graph of %d workers ready", o.workers), "s", seconds...).AtMost(startTarget)}, nil
}

// stepsStudy has 40 changes of workers, each reverted, and 10 of the load.
const stepsStudy = `
name: bench-steps
question: Does each step begin when it is due?
mesh: istio
graph: {services: {bar: {replicas: 3, service_time: {mean: 5ms}, response: 1KiB, concurrency: 20, queue: 100}}}
load: {to: bar, clients: 2}
settings: {rate: 100, connections: 4}
timeline:
  duration: 15s
  steps:
  - {name: slow, at: 2s, every: 250ms, times: 40, for: 120ms, worker: {service: bar, set: {service_time: {mean: 6ms}}}}
  - {name: more, at: 2.06s, every: 1s, times: 10, for: 450ms, load: {rate: 150}}
baseline: {}
blocks: {min: 1, max: 1}
stop: none
assert: [total.failed == 0]
`

// steps measures the begins and ends of steps, and windows.
func (o *options) steps(ctx context.Context) ([]table.Row, error) {
	var late, worst, edges, worstEdge []float64
	count := 0
	for round := range o.rounds {
		run, findings, err := o.study(ctx, fmt.Sprintf("steps-%d", round), stepsStudy)
		if err != nil {
			return nil, err
		}
		here := lateness(run.Events)
		cuts := cuts(findings)
		if len(here) == 0 || len(cuts) == 0 {
			return nil, fmt.Errorf("round %d: %d begins and ends of steps, %d windows", round+1, len(here), len(cuts))
		}
		count += len(here)
		late, worst = append(late, median(here)), append(worst, slices.Max(here))
		edges, worstEdge = append(edges, median(cuts)), append(worstEdge, slices.Max(cuts))
	}
	return []table.Row{
		table.Of(fmt.Sprintf("steps begun or ended after their time, %d in all, median", count), "ms", late...),
		table.Of("steps begun or ended after their time, the latest of a round", "ms", worst...).AtMost(stepTarget),
		table.Of("windows' edges from what they stand for, median", "ms", edges...),
		table.Of("windows' edges from what they stand for, the farthest of a round", "ms", worstEdge...).AtMost(cutTarget),
	}, nil
}

// lateness returns how much later than planned the begin and end of each step
// were sent, in ms.
func lateness(events []record.Event) []float64 {
	var out []float64
	for _, e := range events {
		if e.SentNS > 0 {
			out = append(out, float64(e.SentNS-e.PlannedNS)/1e6)
		}
	}
	return out
}

// cuts returns the distances in ms between the edges of each step's windows and
// the begin or end that they represent.
func cuts(f record.Findings) []float64 {
	var out []float64
	for _, c := range f.Cells {
		if c.Scenario == nil {
			continue
		}
		at := map[string]float64{}
		for _, s := range c.Scenario.Steps {
			at[s.Name], at[s.Name+".end"] = s.BeginS, s.EndS
		}
		for _, w := range c.Scenario.Windows {
			for _, name := range w.Names {
				if s, ok := at[name]; ok {
					out = append(out, 1e3*max(w.FromS-s, s-w.FromS))
				}
			}
		}
	}
	return out
}

func median(values []float64) float64 { return table.Of("", "", values...).Median }

// study runs a study once and reads the results.
func (o *options) study(ctx context.Context, name, text string) (record.Run, record.Findings, error) {
	var findings record.Findings
	fmt.Fprintln(os.Stderr, name)
	path, out := filepath.Join(o.dir, name+".yaml"), filepath.Join(o.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return record.Run{}, findings, err
	}
	_, runErr := labs.Run(ctx, io.Discard, "run", path, "--out", out) // the verdict does not matter
	run, _, err := store.Load(ctx, out)
	if err != nil || len(run.Trials) != 1 || run.Trials[0].Scenario == nil {
		return run, findings, fmt.Errorf("study %s came to no trial: %w", name, errors.Join(err, runErr))
	}
	data, err := os.ReadFile(filepath.Join(out, store.FileFindings))
	if err == nil {
		err = json.Unmarshal(data, &findings)
	}
	return run, findings, err
}
