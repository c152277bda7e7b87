package cli

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/capacity/fit"
	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/plan"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/report"
)

type capacityPredictFlags struct {
	model, against, report string
	mesh                   model.Mesh // what flags override
	bound                  time.Duration
	published, limits      bool
	seed                   uint64
	draws                  int
	json                   bool
	color                  string
	width                  int
}

func newCapacityPredictCommand(env *Env) *cobra.Command {
	var f capacityPredictFlags
	cmd := &cobra.Command{
		Use:   "predict [MESH.yaml] --model FILE [--proxies N --services N --rate R | --against RUN | --published]",
		Short: "Predict convergence, pushes, CPU and memory of a mesh with a capacity model",
		Long: "Simulate how changes travel from istiod to the proxies of a mesh, and predict with 90%\n" +
			"intervals how long they take, what is pushed and sent, how much CPU and memory that\n" +
			"takes, what losing a replica costs, and how far rate and size can grow before changes\n" +
			"are late. It says how far the mesh lies beyond what was measured, and which parameters\n" +
			"are assumed.\n\n" +
			"The mesh is that of a mesh file (meshtrial capacity plan --help), of flags, or of a file\n" +
			"with flags that override it.\n\n" +
			"--against RUN predicts the cells of a run that the model was not fitted to. --published\n" +
			"compares published control plane sizes with what the model says of them.\n\n" +
			"Exit codes: 0 success, 2 wrong usage or input, 3 istiod would not keep up with this mesh, 4 no\n" +
			"trial of the run can be predicted.",
		Example: "  meshtrial capacity predict --model model.json --proxies 5000 --services 2000 --rate 1 --replicas 3 --cores 4\n" +
			"  meshtrial capacity predict --model model.json --against runs/capacity-holdout-... --report held-out.html",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return computing(cmd.Context(), func() error { return runCapacityPredict(cmd.Context(), env, f, args) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "the model, a `FILE` that capacity fit wrote")
	flags.StringVar(&f.against, "against", "", "predict the cells of this `RUN`")
	flags.StringVar(&f.report, "report", "", "with --against or --published: also write plots to this HTML `FILE`")
	flags.BoolVar(&f.published, "published", false, "compare published sizes with the model's")
	flags.IntVar(&f.mesh.Proxies, "proxies", 0, "sidecars connected to istiod")
	flags.IntVar(&f.mesh.Services, "services", 0, "Services in the mesh")
	flags.Float64Var(&f.mesh.Rate, "rate", 0, "changes per second")
	flags.IntVar(&f.mesh.Replicas, "replicas", 0, "replicas of istiod (default 1)")
	flags.Float64Var(&f.mesh.Cores, "cores", 0, "CPUs per replica (default 2)")
	flags.DurationVar(&f.bound, "bound", 5*time.Second, "p99 convergence beyond which changes count as late")
	flags.BoolVar(&f.limits, "limits", true, "also look for the rate and the size at which changes are late, and for the cost of losing a replica")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of changes and draws")
	flags.IntVar(&f.draws, "draws", 60, "simulations for the intervals")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	addTextFlags(cmd, &f.color, &f.width)
	return cmd
}

func runCapacityPredict(ctx context.Context, env *Env, f capacityPredictFlags, args []string) error {
	options, err := textOptions(env.Stdout, f.color, f.width)
	if err != nil {
		return err
	}
	if f.draws < 5 || f.draws > 2000 {
		return errs.Usage("--draws %d: must be 5 to 2000", f.draws)
	}
	if f.against != "" && f.published {
		return errs.Usage("--against and --published are mutually exclusive")
	}
	if f.against != "" || f.published {
		if given := f.given(args); given != "" {
			return errs.Usage("%s describes a mesh: leave it out with --against or --published", given)
		}
	}
	if f.bound <= 0 {
		return errs.Usage("--bound %v: must be more than 0", f.bound)
	}
	m, err := readModel(ctx, f.model)
	if err != nil {
		return err
	}
	o := model.Options{Seed: f.seed, Draws: f.draws}
	switch {
	case f.against != "":
		return f.showAgainst(ctx, env, m, o, options)
	case f.published:
		return f.showPublished(env, m, options)
	case f.report != "":
		return errs.WithHint(errs.Usage("--report has nothing to plot"), "give --against RUN or --published too")
	}
	p, err := f.predict(ctx, m, args, o)
	if err != nil {
		return err
	}
	if f.json {
		err = writeJSON(env.Stdout, p)
	} else {
		err = report.RenderPrediction(env.Stdout, p, options)
	}
	if err == nil && !p.KeepsUp {
		return quiet(errs.CodeAssertion)
	}
	return err
}

// given is what describes a mesh, as it was given; "" for nothing.
func (f capacityPredictFlags) given(args []string) string {
	switch {
	case len(args) > 0:
		return args[0]
	case f.mesh.Proxies != 0:
		return "--proxies"
	case f.mesh.Services != 0:
		return "--services"
	case f.mesh.Rate != 0:
		return "--rate"
	case f.mesh.Replicas != 0:
		return "--replicas"
	case f.mesh.Cores != 0:
		return "--cores"
	}
	return ""
}

func (f capacityPredictFlags) showAgainst(ctx context.Context, env *Env, m *model.Model, o model.Options, options report.Options) error {
	run, err := loadRun(ctx, env, f.against)
	if err != nil {
		return err
	}
	cells, left, err := fit.Against(m, run, o)
	if err != nil {
		return errs.WithCode(err, errs.CodeUsage)
	}
	if len(cells) == 0 {
		return errs.WithHint(errs.WithCode(errors.New("no trial of the run can be predicted"), errs.CodeInvalid), "`meshtrial report %s` says more about its trials", f.against)
	}
	if f.report != "" {
		if err := writeCapacityPage(f.report, report.CapacityPage{Title: "A capacity model against a run", HeldOut: cells}); err != nil {
			return err
		}
	}
	if f.json {
		return writeJSON(env.Stdout, struct {
			Schema int          `json:"schema"`
			Cells  []model.Cell `json:"cells"`
			Left   []fit.Left   `json:"left_out,omitempty"`
		}{model.Schema, cells, left})
	}
	return report.RenderAgainst(env.Stdout, cells, fit.Count(left), options)
}

func (f capacityPredictFlags) showPublished(env *Env, m *model.Model, options report.Options) error {
	rows, err := m.ComparePublished(model.Options{Seed: f.seed})
	if err != nil {
		return errs.WithCode(err, errs.CodeUsage)
	}
	if f.report != "" {
		if err := writeCapacityPage(f.report, report.CapacityPage{Title: "A capacity model against published sizes", Published: rows}); err != nil {
			return err
		}
	}
	if f.json {
		return writeJSON(env.Stdout, struct {
			Schema    int               `json:"schema"`
			Published []model.Published `json:"published"`
		}{model.Schema, rows})
	}
	return report.RenderCapacityPublished(env.Stdout, rows, options)
}

// predict predicts the mesh that a file and flags describe.
func (f capacityPredictFlags) predict(ctx context.Context, m *model.Model, args []string, o model.Options) (*model.Prediction, error) {
	mesh, err := f.read(ctx, m, args)
	if err != nil {
		return nil, err
	}
	if err := mesh.Check(); err != nil {
		return nil, errs.WithCode(err, errs.CodeUsage)
	}
	p, err := m.Predict(mesh, o)
	if err != nil || !f.limits {
		return p, err
	}
	if p.Loss, err = m.Loss(mesh, o); err != nil {
		return nil, err
	}
	p.Limits, err = m.Limits(mesh, f.bound.Seconds(), o)
	return p, err
}

func (f capacityPredictFlags) read(ctx context.Context, m *model.Model, args []string) (model.Mesh, error) {
	mesh := model.Default()
	if len(args) > 0 {
		request, err := readMesh(ctx, args[0])
		if err != nil {
			return mesh, err
		}
		mesh = request.Mesh
	} else if f.mesh.Proxies == 0 || f.mesh.Services == 0 || f.mesh.Rate == 0 {
		return mesh, errs.WithHint(errs.Usage("the mesh is missing"), "give a mesh file, or --proxies, --services and --rate")
	}
	mesh.Proxies, mesh.Services = cmp.Or(f.mesh.Proxies, mesh.Proxies), cmp.Or(f.mesh.Services, mesh.Services)
	mesh.Rate, mesh.Cores = cmp.Or(f.mesh.Rate, mesh.Rate), cmp.Or(f.mesh.Cores, mesh.Cores)
	if f.mesh.Replicas != 0 {
		mesh.Replicas, mesh.Shares = f.mesh.Replicas, nil
	}
	if mesh.Mix == nil {
		mesh.Mix = m.Mix
	}
	return mesh, nil
}

// readMesh reads a mesh file.
func readMesh(ctx context.Context, path string) (plan.Request, error) {
	data, err := readInput(ctx, path, plan.MaxFile)
	if err != nil {
		return plan.Request{}, err
	}
	return plan.Parse(data, path)
}
