package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/report"
)

type assessFlags struct {
	sourceFlags
	drawnFlags
	out        string
	model      string
	with       []string
	against    string
	prometheus prometheusFlags
	at         string // the time at which Prometheus is asked
	prices     assess.Prices
}

func newAssessCommand(env *Env) *cobra.Command {
	var f assessFlags
	cmd := &cobra.Command{
		Use:   "assess [--from FILE...]",
		Short: "Report what a running mesh costs, what limits it, and what would change that",
		Long: "Read a running mesh for --duration, without writing to it: its proxies and their resource use,\n" +
			"their requests, istiod's signals, and the bytes of configuration by owner. Report what limits\n" +
			"the mesh, what Sidecars would save, and what is unknown; and write studies for what only a\n" +
			"measurement can settle. The assessment is a directory: report.html, assessment.json,\n" +
			"sidecars.yaml (not applied) and studies.\n\n" +
			"--from reads files instead, and recognizes them by their contents: archives of istioctl\n" +
			"bug-report, metrics pages, logs and profiles of istiod, config dumps, counters and access logs\n" +
			"of proxies, lists from kubectl get -o json or yaml, Kiali graphs, answers of Prometheus, and\n" +
			"archives of these. A running mesh provides more.\n\n" +
			"--prometheus-url also reads a Prometheus server, over the last --duration: requests, payload\n" +
			"sizes, CPU and memory of proxies that were not read, and istiod's metrics if it is not reached.\n" +
			"Without a cluster or files it reads Prometheus alone.\n\n" +
			"--with takes runs of the study sidecars-or-ambient, and shows which data-plane mode costs this\n" +
			"mesh less; --model takes a model of istiod from `meshtrial assess capacity fit`. Without them,\n" +
			"it uses figures that ship with the program, measured on another machine.\n\n" +
			"Exit codes: 0 the mesh was assessed, whatever was found; 4 only its pods or nothing could be read.",
		Example: "  meshtrial assess\n" +
			"  meshtrial assess --lab cluster --duration 10m --core-month 30 --gb-month 4\n" +
			"  meshtrial assess --lab cluster --with runs/sidecars-or-ambient-... --model model.json",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			// With a Prometheus, files have a time over which it is asked.
			run, err := f.check(func(name string) bool { return changed(name) && (name != "duration" || f.prometheus.url == "") }, args)
			switch {
			case err != nil:
				return err
			case run != "":
				return errs.WithHint(errs.Usage("unexpected argument %q", run), "name files with --from FILE...; for its parts: meshtrial assess --help")
			case !isPrice(f.prices.Core) || !isPrice(f.prices.GB):
				return errs.Usage("--core-month and --gb-month must be numbers from 0 to 1e9")
			}
			return runAssess(cmd.Context(), env, f)
		},
	}
	flags := cmd.Flags()
	f.sourceFlags.register(flags)
	f.registerWatch(flags)
	f.registerProgram(flags)
	flags.StringVar(&f.out, "out", "", "`DIR` for the assessment (default: assessments/TIME)")
	flags.StringVar(&f.model, "model", "", "`FILE` with a capacity model of istiod, as written by assess capacity fit (default: a built-in one)")
	flags.StringArrayVar(&f.with, "with", nil, "`RUN` that compared data-plane modes, or a file written by unit-costs; may be repeated")
	f.prometheus.register(flags, "also query the Prometheus server at this `URL`", "prometheus-selector")
	flags.StringVar(&f.at, "prometheus-time", "", "ask Prometheus about the --duration before this `TIME`, such as 2026-11-30T09:00:00Z, and do not read the running mesh (default: now)")
	flags.StringVar(&f.against, "against", "", "also report changes since an earlier assessment of the same mesh, in this `DIR`")
	flags.Float64Var(&f.prices.Core, "core-month", 0, "price of a core per month")
	flags.Float64Var(&f.prices.GB, "gb-month", 0, "price of a GB of memory per month")
	flags.StringVar(&f.prices.Currency, "currency", "USD", "currency of the prices")
	f.drawnFlags.register(flags)
	cmd.AddCommand(newTrafficCommand(env), newLimitsCommand(env), newConfigCommand(env), newCapacityCommand(env), newUnitCostsCommand(env))
	return cmd
}

func newUnitCostsCommand(env *Env) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "unit-costs RUN --out FILE",
		Short: "Save a run's costs of data-plane modes in one small file",
		Long: "Write what an assessment needs from a run of sidecars-or-ambient into one file, for --with:\n" +
			"the study, the machine, the versions, and the CPU and memory of each trial.",
		Example: "  meshtrial assess unit-costs runs/sidecars-or-ambient-... --out costs.json.zst",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errs.Usage("--out is missing")
			}
			data, err := app.UnitCosts(cmd.Context(), args[0], env.warn)
			if err != nil {
				return err
			}
			return writeWhole(out, data)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write")
	return cmd
}

func isPrice(v float64) bool { return v >= 0 && v <= 1e9 }

func runAssess(ctx context.Context, env *Env, f assessFlags) (err error) {
	o := app.Assessment{Owners: mostOwners, Runs: f.with, Prices: f.prices, Matchers: f.prometheus.selector}
	if o.Prometheus, err = f.prometheus.open(); err != nil {
		return err
	}
	if o.Prometheus != nil {
		defer o.Prometheus.Close()
	}
	if f.at != "" {
		if o.PrometheusAt, err = time.Parse(time.RFC3339, f.at); err != nil || o.Prometheus == nil {
			return errs.Usage("--prometheus-time must be a time such as 2026-11-30T09:00:00Z, and requires --prometheus-url")
		}
	}
	if f.model != "" {
		if o.Model, err = readModel(ctx, f.model); err != nil {
			return err
		}
	}
	var old *assess.Assessment
	if f.against != "" {
		if old, err = readAssessment(ctx, f.against); err != nil {
			return err
		}
	}
	out := cmp.Or(f.out, assessments)
	_, missing := os.Stat(out)
	if err := os.MkdirAll(out, 0o755); err != nil { // before minutes of reading
		return errs.WithCode(err, errs.CodeUsage)
	}
	a, made, err := f.read(ctx, env, o)
	if err != nil {
		if missing != nil {
			_ = os.Remove(out) // it is empty
		}
		return err
	}
	if old != nil {
		a.Compare(*old)
	}
	return showAssessment(env, f, a, made.Sidecars)
}

// mostOwners limits the list of owners of configuration.
const mostOwners = 50

// readAssessment reads the assessment in a directory.
func readAssessment(ctx context.Context, dir string) (*assess.Assessment, error) {
	path := filepath.Join(dir, fileAssessment)
	data, err := readInput(ctx, path, assess.MaxFile)
	if err != nil {
		return nil, errs.WithHint(err, "--against takes a directory written by meshtrial assess")
	}
	a, err := assess.Parse(data)
	if err != nil {
		return nil, errs.WithCode(fmt.Errorf("%s: %w", path, err), errs.CodeUsage)
	}
	return &a, nil
}

const (
	fileAssessment = "assessment.json"
	assessments    = "assessments" // the directory of those without --out
)

// showAssessment writes an assessment's directory, and shows it.
func showAssessment(env *Env, f assessFlags, a assess.Assessment, sidecars *generate.Result) error {
	dir := f.out
	if dir == "" {
		dir = filepath.Join(assessments, a.At.UTC().Format("20060102-150405"))
	}
	if err := writeAssessment(dir, a, sidecars); err != nil {
		return err
	}
	if err := f.draw(env, a); err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "\nassessment: %s\n", filepath.Join(dir, "report.html"))
	if a.Traffic != nil || a.Limits != nil || a.Configuration != nil || a.Log != nil || a.Logged != nil || len(a.Profiles) > 0 {
		return nil
	}
	only := errors.New("only the mesh's pods could be read")
	if len(a.Mesh.Proxies)+a.Mesh.Enrolled == 0 {
		only = errors.New("nothing of a mesh could be read")
	}
	return errs.WithHint(errs.WithCode(only, errs.CodeInvalid), "the report above lists what is unknown, and how to find out")
}

// writeAssessment writes the files of an assessment.
func writeAssessment(dir string, a assess.Assessment, sidecars *generate.Result) error {
	var document, page bytes.Buffer
	if err := writeJSON(&document, a); err != nil {
		return err
	}
	if err := report.RenderAssessment(&page, a, "html", report.Options{}); err != nil {
		return err
	}
	files := map[string][]byte{fileAssessment: document.Bytes(), "report.html": page.Bytes()}
	if sidecars != nil && len(sidecars.Steps()) > 0 {
		files[fileSidecars] = []byte(sidecars.Manifests())
	}
	for _, s := range a.Settle {
		files[filepath.Join("studies", s.Name+".yaml")] = []byte(s.File)
	}
	if err := os.MkdirAll(filepath.Join(dir, "studies"), 0o755); err != nil {
		return errs.WithCode(err, errs.CodeUsage)
	}
	stale := []string{fileSidecars}
	for _, name := range assess.Studies {
		stale = append(stale, filepath.Join("studies", name+".yaml"))
	}
	for _, name := range stale { // of an earlier assessment
		if files[name] != nil {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for name, data := range files {
		if err := writeWhole(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}
