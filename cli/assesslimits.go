package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
)

type adviseFlags struct {
	istiodFlags
	istiod   string
	cells    []string
	duration time.Duration
	interval time.Duration
	all      bool
	json     bool
}

func newLimitsCommand(env *Env) *cobra.Command {
	var f adviseFlags
	cmd := &cobra.Command{
		Use:   "limits [RUN]",
		Short: "Diagnose what limits a mesh and suggest changes, from a run or a running istiod",
		Long: "Evaluate rules against measurements: from run directory RUN, cell by cell, or from a running\n" +
			"istiod, watched for --duration. Each rule holds, is ruled out, or lacks evidence and says what\n" +
			"to measure. Advice comes with its evidence, the manifest to apply, what to expect, and how to\n" +
			"revert it. Nothing is applied.\n\n" +
			"Exit codes: 0 the rules were evaluated, whatever they say; 4 no rule could be decided.",
		Example: "  meshtrial assess limits runs/control-plane-levers-...\n" +
			"  meshtrial assess limits --duration 5m\n" +
			"  meshtrial assess limits --lab cluster --revision canary --istiod image",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.Flags().Changed, args); err != nil {
				return err
			}
			if len(args) == 1 {
				return adviseRun(cmd.Context(), env, f, args[0])
			}
			return adviseLive(cmd.Context(), env, f)
		},
	}
	flags := cmd.Flags()
	f.istiodFlags.register(flags)
	flags.DurationVar(&f.duration, "duration", time.Minute, "how long to watch a running istiod")
	flags.DurationVar(&f.interval, "interval", time.Second, "time between readings of a running istiod")
	flags.StringVar(&f.istiod, "istiod", "",
		istiodUsage+" (default: the local lab's, if it is the same version)")
	flags.StringArrayVar(&f.cells, "cell", nil, "with RUN: only cells with this `FACTOR=LEVEL`; may be repeated")
	flags.BoolVar(&f.all, "all", false, "also show the rules that are ruled out")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// ofRunning are the flags for a running istiod.
var ofRunning = []string{"lab", "kubeconfig", "context", "istio-namespace", "revision", "duration", "interval"}

func (f *adviseFlags) check(changed func(string) bool, args []string) error {
	if len(args) == 1 {
		if i := slices.IndexFunc(ofRunning, changed); i >= 0 {
			return errs.Usage("--%s applies only to a running istiod, not to a run", ofRunning[i])
		}
	} else if len(f.cells) > 0 {
		return errs.Usage("--cell requires a run directory")
	}
	if f.interval < 100*time.Millisecond || f.duration < 2*f.interval || f.duration > 24*time.Hour {
		return errs.Usage("--duration %s with --interval %s: the interval must be at least 100ms, and the duration between two intervals and 24h", f.duration, f.interval)
	}
	return f.Check()
}

// adviseDocument is what --json prints; its schema is 2 since reasons have codes.
type adviseDocument struct {
	Schema  int             `json:"schema"`
	Reports []advice.Report `json:"reports"`
}

func adviseRun(ctx context.Context, env *Env, f adviseFlags, dir string) error {
	cell, err := parseCell(f.cells)
	if err != nil {
		return err
	}
	run, err := loadRun(ctx, env, dir)
	if err != nil {
		return err
	}
	findings, err := analyses.All().Analyze(run)
	if err != nil {
		return err
	}
	known, note, err := askIstiod(ctx, f.istiod, versionOf(run.Header), imageOf(run))
	if err != nil {
		return err
	}
	series, err := recorded(dir)
	if err != nil {
		return err
	}
	all, err := gather.OfRun(ctx, gather.Run{Dir: dir, Record: run, Findings: findings, Series: series, Known: known,
		Facts: recordedProxies(ctx, dir)})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e *advice.Evidence) bool {
		for factor, level := range cell {
			if e.Cell[factor] != level {
				return true
			}
		}
		return false
	})
	if len(all) == 0 {
		return errs.WithHint(errs.Usage("no cell of the run has %s", strings.Join(f.cells, ", ")),
			"meshtrial report %s shows its cells", dir)
	}
	return showAdvice(env, f, all, note)
}

func parseCell(pairs []string) (record.Cell, error) {
	cell := record.Cell{}
	for _, pair := range pairs {
		factor, level, ok := strings.Cut(pair, "=")
		if !ok || factor == "" || level == "" {
			return nil, errs.WithHint(errs.Usage("--cell %q is not FACTOR=LEVEL", pair),
				"as in --cell debounce_after=100ms")
		}
		cell[factor] = level
	}
	return cell, nil
}

// recorded opens the series of a run; nil without any.
func recorded(dir string) (signals.Source, error) {
	folder, err := store.Folder(dir, store.DirSeries)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := signals.OpenSeries(folder)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// showAdvice judges the rules over each evidence and shows the reports.
func showAdvice(env *Env, f adviseFlags, all []*advice.Evidence, notes ...string) error {
	document := adviseDocument{Schema: 2}
	decided := 0
	for _, e := range all {
		for _, n := range notes {
			if n != "" {
				e.Notes = append(e.Notes, n)
			}
		}
		r := advice.Judge(e)
		decided += len(r.Advice) + len(r.RuledOut)
		document.Reports = append(document.Reports, r)
	}
	if f.json {
		if err := writeJSON(env.Stdout, document); err != nil {
			return err
		}
	} else {
		for i, r := range document.Reports {
			if i > 0 {
				fmt.Fprintln(env.Stdout)
			}
			if err := advice.WriteText(env.Stdout, r, f.all); err != nil {
				return err
			}
		}
	}
	if decided == 0 {
		return errs.WithHint(errs.WithCode(errors.New("no rule could be decided"), errs.CodeInvalid),
			"the report above says what to measure")
	}
	return nil
}

// adviseLive watches a running istiod; it reads only.
func adviseLive(ctx context.Context, env *Env, f adviseFlags) error {
	from, err := f.Open(ctx, rights.Advise)
	if err != nil {
		return err
	}
	defer from.Close()
	line := newProgress(env.Stderr)
	defer line.Clear()
	seen, err := from.Watch(ctx, app.IstiodWatch{Interval: f.interval, Duration: f.duration, Ask: f.ask,
		Say: func(text string) { line.Say("%s", text) }})
	if err != nil {
		return err
	}
	line.Clear()
	if err := f.proxies(ctx, env, from, seen.Evidence); err != nil {
		return err
	}
	return showAdvice(env, f, []*advice.Evidence{seen.Evidence}, seen.Problems...)
}

// ask asks the istiod that --istiod names for its settings; see [askIstiod].
func (f *adviseFlags) ask(ctx context.Context, version, image string) (*variables.Known, string, error) {
	return askIstiod(ctx, f.istiod, version, image)
}
