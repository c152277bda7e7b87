// Command scenarios runs the shipped scenarios repeatedly and reports whether each
// cell gets the same verdict every time: the one that its study expects, which for a
// planted defect is fail.
//
//	make build && go run ./bench/scenarios -n 10
//
// A round runs every scenario once, each by `meshtrial run`, in the running lab or in
// one that it starts (which requires root). The result of a run is a line in the log
// (-log), so the bench can be ended at any time and resumes from there; with -table
// it only prints the log. The run directory of an unexpected verdict is kept next to
// the log.
//
// The exit code is 1 if a verdict differs, including an inconclusive one.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/jsonl"
	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"

	// The kinds register themselves for study files.
	_ "github.com/meshtrial/meshtrial/kinds/controlplane"
	_ "github.com/meshtrial/meshtrial/kinds/dataplane"
)

func main() {
	var log jsonl.Log[line]
	var rounds int
	var only string
	table.Program{
		Name: "scenarios",
		Flags: func(f *flag.FlagSet) {
			log.Flags(f, "runs/scenarios.jsonl", 0)
			f.IntVar(&rounds, "n", 10, "how often each scenario is to have been run")
			f.StringVar(&only, "only", "", "scenarios, with commas between them (default all that come with meshtrial, but for those that need an ambient mesh)")
		},
		Run: func(ctx context.Context) error {
			names, err := chosen(only)
			if err == nil {
				err = log.Open()
			}
			if err != nil {
				return err
			}
			err = log.Fill(ctx, lacking(&log, names, rounds))
			lines := slices.DeleteFunc(log.Lines, func(l line) bool { return !slices.Contains(names, l.Scenario) })
			rows := tally(names, lines)
			title := title(lines)
			err = errors.Join(err, printText(os.Stdout, title, rows), table.WriteJSON(log.JSON, struct {
				Schema  int    `json:"schema"`
				Title   string `json:"title"`
				Results []row  `json:"results"`
			}{1, title, rows}))
			return errors.Join(err, judge(rows))
		},
	}.Main()
}

// chosen returns the scenarios that only names; for "" all except those that need an
// ambient mesh, which a lab does not have by default.
func chosen(only string) ([]string, error) {
	all := studies.ScenarioNames()
	if only == "" {
		return slices.DeleteFunc(all, ambient), nil
	}
	names := strings.Split(only, ",")
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("-only %q: want some of %s", name, strings.Join(all, ","))
		}
	}
	return names, nil
}

// ambient reports whether ztunnel carries the requests of a scenario's cells.
func ambient(name string) bool {
	s, err := parsed(name)
	if err != nil {
		return false
	}
	plan, err := study.NewPlan(s, 1)
	return err == nil && slices.ContainsFunc(plan.Cells, study.Ambient)
}

// once reduces a run to one trial of each cell: a baseline would run twice.
var once = []string{"baseline={}", "blocks.min=1", "blocks.max=1"}

// parsed returns a scenario as it is run.
func parsed(name string) (*study.Study, error) {
	text, err := studies.Read(name)
	if err != nil {
		return nil, err
	}
	return study.Parse(text, name+".yaml", once)
}

// lacking returns the runs that are missing from the log, scenario by scenario in
// every round.
func lacking(log *jsonl.Log[line], names []string, rounds int) iter.Seq[jsonl.Run[line]] {
	had := map[string]int{}
	for _, l := range log.Lines {
		had[l.Scenario]++
	}
	return func(yield func(jsonl.Run[line]) bool) {
		for round := range rounds {
			for _, name := range names {
				if had[name] > round {
					continue
				}
				run := jsonl.Run[line]{Name: fmt.Sprintf("round %d of %d: %s", round+1, rounds, name), Takes: usual(name, log.Lines),
					Do: func(ctx context.Context) (line, error) { return one(ctx, log.Folder(), name, round) }}
				if !yield(run) {
					return
				}
			}
		}
	}
}

// usual returns how long a scenario's run takes: as long as its last run, or else 1.5
// times its timelines.
func usual(name string, lines []line) time.Duration {
	for _, l := range slices.Backward(lines) {
		if l.Scenario == name && l.Error == "" {
			return time.Duration(l.Seconds * float64(time.Second))
		}
	}
	s, err := parsed(name)
	if err != nil {
		return 0
	}
	plan, err := study.NewPlan(s, 1)
	if err != nil {
		return 0
	}
	return time.Duration(plan.BlockSize()) * resilience.Of(s).Timeline.Duration * 3 / 2
}

// one runs a scenario once. An error means that continuing is pointless.
func one(ctx context.Context, folder, name string, round int) (line, error) {
	out := filepath.Join(folder, fmt.Sprintf("%s-%d-%s", name, round+1, time.Now().UTC().Format("150405")))
	args := []string{"run", name, "--json", "--out", out}
	for _, set := range once {
		args = append(args, "--set", set)
	}
	l := line{Schema: 1, Scenario: name, At: time.Now().UTC()}
	var printed bytes.Buffer
	code, err := labs.Run(ctx, &printed, args...)
	if ctx.Err() != nil {
		return l, ctx.Err()
	}
	l.Seconds, l.Exit = time.Since(l.At).Seconds(), code
	var findings record.Findings
	if json.Unmarshal(printed.Bytes(), &findings) != nil { // there are none
		l.Error, l.Run = fmt.Sprintf("no findings: %v", err), out
		return l, nil
	}
	loaded, _, err := store.Load(ctx, out)
	if err != nil {
		return l, err
	}
	l.Meshtrial, l.Cells = findings.Meshtrial, cellsOf(findings, loaded.Trials)
	if slices.ContainsFunc(l.Cells, func(c cell) bool { return c.Verdict != c.Expected }) {
		l.Run = out
		return l, nil
	}
	return l, os.RemoveAll(out)
}
