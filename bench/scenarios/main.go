// Command scenarios runs the scenarios that come with meshtrial again and again
// and says whether each cell comes to the same verdict every time: the one that
// its study expects, which for a planted defect is to fail.
//
//	make build && go run ./bench/scenarios -n 10
//
// A round runs every scenario once, each by `meshtrial run`, in the lab that runs
// or in one of our own (which takes root). What a run came to is a line in the
// log (-log), so that the bench can be ended at any time and goes on where it
// was; with -table it only prints what the log says. The run directory of a
// verdict that is not the expected one is kept beside the log.
//
// The exit code is 1 if a verdict differs, be it that one is inconclusive.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
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
)

func main() { os.Exit(table.Main("bench scenarios", run)) }

// options are what the bench is run with.
type options struct {
	rounds int
	limit  time.Duration // 0 for none
	folder string        // of the log and of runs that are kept
	stdout io.Writer
	stderr io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("scenarios", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := options{stdout: stdout, stderr: stderr}
	flags.IntVar(&o.rounds, "n", 10, "how often each scenario is to have been run")
	only := flags.String("only", "", "scenarios, with commas between them (default all that come with meshtrial, but for those that need an ambient mesh)")
	flags.DurationVar(&o.limit, "limit", 0, "begin no run that would end later than this (default no limit)")
	log := flags.String("log", "runs/scenarios.jsonl", "file of lines, one a run; what it has is not run again")
	printOnly := flags.Bool("table", false, "run nothing, print what the log says")
	jsonFile := flags.String("json", "", "also write the table to this file, as JSON")
	markdown := flags.String("markdown", "", "also write the table to this file, as Markdown")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names, err := chosen(*only)
	if err != nil {
		return err
	}
	o.folder = filepath.Dir(*log)
	if err := os.MkdirAll(o.folder, 0o755); err != nil {
		return err
	}
	lines, err := jsonl.Read[line](*log)
	if err != nil {
		return err
	}
	var runErr error
	if !*printOnly {
		lines, runErr = o.repeat(ctx, names, *log, lines)
	}
	lines = slices.DeleteFunc(lines, func(l line) bool { return !slices.Contains(names, l.Scenario) })
	rows := tally(names, lines)
	title := title(lines)
	err = errors.Join(runErr, printText(stdout, title, rows))
	if *markdown != "" {
		err = errors.Join(err, os.WriteFile(*markdown, []byte(title+"\n\n"+toMarkdown(rows)), 0o644))
	}
	err = errors.Join(err, table.WriteJSON(*jsonFile, struct {
		Schema  int    `json:"schema"`
		Title   string `json:"title"`
		Results []row  `json:"results"`
	}{1, title, rows}))
	return errors.Join(err, judge(rows))
}

// chosen are the scenarios that only names; for "" all but those that need an ambient
// mesh, which no lab has by itself.
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

// ambient says that ztunnel carries the requests of a scenario's cells.
func ambient(name string) bool {
	s, err := parsed(name)
	if err != nil {
		return false
	}
	plan, err := study.NewPlan(s, 1)
	return err == nil && slices.ContainsFunc(plan.Cells, study.Ambient)
}

// once makes a run one trial of each cell: a baseline would run twice.
var once = []string{"baseline={}", "blocks.min=1", "blocks.max=1"}

// parsed is a scenario as it is run.
func parsed(name string) (*study.Study, error) {
	text, err := studies.Read(name)
	if err != nil {
		return nil, err
	}
	return study.Parse(text, name+".yaml", once)
}

// repeat runs what the log lacks, scenario after scenario in every round, and
// returns all lines.
func (o *options) repeat(ctx context.Context, names []string, log string, lines []line) ([]line, error) {
	had := map[string]int{}
	for _, l := range lines {
		had[l.Scenario]++
	}
	if !slices.ContainsFunc(names, func(name string) bool { return had[name] < o.rounds }) {
		return lines, nil
	}
	begin := time.Now()
	lab, err := labs.Take(ctx)
	if err != nil {
		return lines, err
	}
	defer func() {
		if err := lab.End(ctx); err != nil {
			fmt.Fprintln(o.stderr, err)
		}
	}()
	for round := range o.rounds {
		for _, name := range names {
			if had[name] > round {
				continue
			}
			if wants := usual(name, lines); o.limit > 0 && time.Since(begin)+wants > o.limit {
				fmt.Fprintf(o.stderr, "%s: not run, it wants about %v and the limit is %v\n", name, wants.Round(time.Second), o.limit)
				continue
			}
			l, err := o.one(ctx, name, round)
			if err != nil {
				return lines, err
			}
			if err := jsonl.Append(log, l); err != nil {
				return lines, err
			}
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// usual is how long a scenario's run takes: as long as its last, or else its
// timelines and half as much again.
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

// one runs a scenario once. The error says that there is no point in going on.
func (o *options) one(ctx context.Context, name string, round int) (line, error) {
	out := filepath.Join(o.folder, fmt.Sprintf("%s-%d-%s", name, round+1, time.Now().UTC().Format("150405")))
	fmt.Fprintf(o.stderr, "%s: round %d of %d: %s\n", time.Now().Format("15:04:05"), round+1, o.rounds, name)
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
	if json.Unmarshal(printed.Bytes(), &findings) != nil { // it came to none
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
