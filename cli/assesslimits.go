package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
)

type limitsFlags struct {
	sourceFlags
	cells []string
	all   bool
	json  bool
}

func newLimitsCommand(env *Env) *cobra.Command {
	var f limitsFlags
	cmd := &cobra.Command{
		Use:   "limits [RUN | --from FILE...]",
		Short: "Diagnose what limits istiod and the proxies, and suggest changes",
		Long: "Evaluate rules against measurements: of a running mesh, watched for --duration, of files, or\n" +
			"of the run in directory RUN, cell by cell. Each rule holds, is ruled out, or lacks evidence and\n" +
			"says what to measure. Advice comes with its evidence, the manifest to apply, what to expect,\n" +
			"and how to revert it. Nothing is applied.\n\n" +
			"Exit codes: 0 the rules were evaluated, whatever they say; 4 no rule could be decided.",
		Example: "  meshtrial assess limits runs/control-plane-levers-...\n" +
			"  meshtrial assess limits --duration 5m\n" +
			"  meshtrial assess limits --lab cluster --revision canary --istiod pilot-discovery",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := f.check(cmd.Flags().Changed, args)
			if err != nil {
				return err
			}
			reports, err := f.reports(cmd.Context(), env, run)
			if err != nil {
				return err
			}
			return f.show(env, reports)
		},
	}
	flags := cmd.Flags()
	f.sourceFlags.register(flags)
	f.registerWatch(flags)
	f.registerProgram(flags)
	flags.StringArrayVar(&f.cells, "cell", nil, "with RUN: only cells with this `FACTOR=LEVEL`; may be repeated")
	flags.BoolVar(&f.all, "all", false, "also show the rules that are ruled out")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// limitsDocument is what --json prints; its schema is 2 since reasons have codes.
type limitsDocument struct {
	Schema  int             `json:"schema"`
	Reports []advice.Report `json:"reports"`
}

// reports judges the rules: of a mesh once, of a run for each cell.
func (f *limitsFlags) reports(ctx context.Context, env *Env, run string) ([]advice.Report, error) {
	if run != "" {
		return f.ofRun(ctx, env, run)
	}
	if len(f.cells) > 0 {
		return nil, errs.Usage("--cell requires a run directory")
	}
	a, _, err := f.read(ctx, env, app.Assessment{Section: assess.SectionLimits})
	if err != nil {
		return nil, err
	}
	if a.Limits == nil {
		return nil, nothingRead()
	}
	report := *a.Limits
	for _, text := range a.Lacks(assess.SectionLimits) {
		if !slices.Contains(report.Notes, text) {
			report.Notes = append(report.Notes, text)
		}
	}
	return []advice.Report{report}, nil
}

// nothingRead is the error of an assessment without the section that was wanted.
func nothingRead() error {
	return errs.WithHint(errs.WithCode(errors.New("nothing of this could be read"), errs.CodeInvalid), "meshtrial assess lists what is unknown, and how to find out")
}

func (f *limitsFlags) ofRun(ctx context.Context, env *Env, dir string) ([]advice.Report, error) {
	cell, err := parseCell("cell", f.cells)
	if err != nil {
		return nil, err
	}
	run, err := loadRun(ctx, env, dir)
	if err != nil {
		return nil, err
	}
	findings, err := analyses.All().Analyze(run)
	if err != nil {
		return nil, err
	}
	known, note, err := askIstiod(ctx, f.istiod, versionOf(run.Header))
	if err != nil {
		return nil, err
	}
	of := gather.Run{Dir: dir, Record: run, Findings: findings, Known: known, Facts: recordedFacts(ctx, dir)}
	switch _, err := store.Folder(dir, store.DirSeries); {
	case err == nil:
		if of.Series, err = app.RecordedSeries(dir); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	all, err := gather.OfRun(ctx, of)
	if err != nil {
		return nil, err
	}
	var reports []advice.Report
	for _, e := range all {
		if !e.Cell.Has(cell) {
			continue
		}
		if note != "" {
			e.Notes = append(e.Notes, note)
		}
		reports = append(reports, advice.Judge(e))
	}
	if len(reports) == 0 {
		return nil, errs.WithHint(errs.Usage("no cell of the run has %s", strings.Join(f.cells, ", ")),
			"meshtrial report %s shows its cells", shell.Quote(dir))
	}
	return reports, nil
}

// parseCell parses the values of a flag that takes FACTOR=LEVEL.
func parseCell(flag string, pairs []string) (record.Cell, error) {
	cell := record.Cell{}
	for _, pair := range pairs {
		factor, level, ok := strings.Cut(pair, "=")
		if !ok || factor == "" || level == "" {
			return nil, errs.WithHint(errs.Usage("--%s %q is not FACTOR=LEVEL", flag, pair), "as in --%s debounce_after=100ms", flag)
		}
		cell[factor] = level
	}
	return cell, nil
}

// recordedFacts returns a function that reads from a run's recorded configuration what its
// findings do not contain: clusters that proxies resolve by DNS themselves, and listeners of
// headless Services.
func recordedFacts(ctx context.Context, dir string) func([]*record.Trial) (map[*advice.Quantity]float64, []string) {
	return func(trials []*record.Trial) (map[*advice.Quantity]float64, []string) {
		var all []scope.Proxy
		var notes []string
		err := recordedProxies(ctx, dir, scope.Options{Keep: gather.KeepListeners}, func(name string) bool {
			return slices.ContainsFunc(trials, func(t *record.Trial) bool { return strings.HasPrefix(name, t.ID+"-") })
		}, func(p scope.Proxy, err error) error {
			if err == nil {
				all = append(all, p)
			} else { // part of a file would give counts that are too low
				notes = append(notes, fmt.Sprintf("not read: %v", err))
			}
			return nil
		})
		if err != nil {
			notes = append(notes, "not read: "+err.Error())
		}
		facts := map[*advice.Quantity]float64{}
		return facts, append(notes, gather.Held(all, facts)...)
	}
}

// show prints the reports.
func (f *limitsFlags) show(env *Env, reports []advice.Report) error {
	decided := 0
	for _, r := range reports {
		decided += len(r.Advice) + len(r.RuledOut)
	}
	if f.json {
		if err := writeJSON(env.Stdout, limitsDocument{Schema: 2, Reports: reports}); err != nil {
			return err
		}
	}
	for i, r := range reports {
		if f.json {
			break
		}
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		if err := advice.WriteText(env.Stdout, r, f.all); err != nil {
			return err
		}
	}
	if decided == 0 {
		return errs.WithHint(errs.WithCode(errors.New("no rule could be decided"), errs.CodeInvalid),
			"the report above says what to measure")
	}
	return nil
}
