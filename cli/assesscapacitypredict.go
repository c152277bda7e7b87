package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/capacity/fit"
	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/plan"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/report"
)

type capacityPredictFlags struct {
	model, against string
	bound          time.Duration
	limits         bool
	draws          int
	printFlags
}

func newCapacityPredictCommand(env *Env) *cobra.Command {
	var f capacityPredictFlags
	cmd := &cobra.Command{
		Use:   "predict {MESH.yaml | --against RUN} --model FILE",
		Short: "Predict convergence, pushes, CPU and memory of a mesh with a capacity model",
		Long: "Simulate how changes travel from istiod to the proxies of a mesh, and predict with 90%\n" +
			"intervals how long they take, what is pushed and sent, how much CPU and memory that takes,\n" +
			"what losing a replica costs, and how far rate and size can grow before changes are late. The\n" +
			"report says how far the mesh lies beyond what was measured, and which parameters are assumed.\n\n" +
			"meshtrial assess capacity plan --help describes the mesh file.\n\n" +
			"--against RUN predicts the cells of a run that the model was not fitted to.\n\n" +
			"Exit codes: 0 success, 2 wrong usage or input, 3 istiod would not keep up with this mesh, 4 no\n" +
			"trial of the run can be predicted.",
		Example: "  meshtrial assess capacity predict mesh.yaml --model model.json\n" +
			"  meshtrial assess capacity predict --model model.json --against runs/capacity-holdout-...",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return app.Computing(cmd.Context(), func() error { return runCapacityPredict(cmd.Context(), env, f, args) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "`FILE` with the model, as written by assess capacity fit")
	flags.StringVar(&f.against, "against", "", "predict the cells of this `RUN`")
	flags.DurationVar(&f.bound, "bound", 5*time.Second, "p99 convergence beyond which changes count as late")
	flags.BoolVar(&f.limits, "limits", true, "also find the rate and size beyond which changes are late, and the cost of losing a replica")
	flags.IntVar(&f.draws, "draws", 60, "number of simulations for the intervals")
	f.printFlags.register(flags)
	return cmd
}

func runCapacityPredict(ctx context.Context, env *Env, f capacityPredictFlags, args []string) error {
	switch {
	case f.draws < 5 || f.draws > 2000:
		return errs.Usage("--draws %d: must be 5 to 2000", f.draws)
	case f.bound <= 0:
		return errs.Usage("--bound %v: must be more than 0", f.bound)
	case f.against != "" && len(args) > 0:
		return errs.Usage("--against predicts the cells of a run: omit the mesh")
	case f.against == "" && len(args) == 0:
		return errs.WithHint(errs.Usage("the mesh is missing"), "name a mesh file, or a run with --against")
	}
	m, err := readModel(ctx, f.model)
	if err != nil {
		return err
	}
	o := model.Options{Seed: capacitySeed, Draws: f.draws}
	if f.against != "" {
		return f.showAgainst(ctx, env, m, o)
	}
	request, err := readMesh(ctx, args[0])
	if err != nil {
		return err
	}
	mesh := request.Mesh
	if mesh.Mix == nil {
		mesh.Mix = m.Mix
	}
	p, err := f.predict(m, mesh, o)
	if err != nil {
		return errs.WithCode(err, errs.CodeUsage)
	}
	err = f.show(env, p, func(w io.Writer, o report.Options) error { return report.RenderPrediction(w, p, o) })
	if err == nil && !p.KeepsUp {
		return quiet(errs.CodeAssertion)
	}
	return err
}

func (f capacityPredictFlags) showAgainst(ctx context.Context, env *Env, m *model.Model, o model.Options) error {
	run, err := loadRun(ctx, env, f.against)
	if err != nil {
		return err
	}
	cells, left, err := fit.Against(m, run, o)
	if err != nil {
		return errs.WithCode(err, errs.CodeUsage)
	}
	if len(cells) == 0 {
		return errs.WithHint(errs.WithCode(errors.New("no trial of the run can be predicted"), errs.CodeInvalid), "for details of its trials: meshtrial report %s", shell.Quote(f.against))
	}
	document := struct {
		Schema int          `json:"schema"`
		Cells  []model.Cell `json:"cells"`
		Left   []fit.Left   `json:"left_out,omitempty"`
	}{model.Schema, cells, left}
	return f.show(env, document, func(w io.Writer, o report.Options) error { return report.RenderAgainst(w, cells, fit.Count(left), o) })
}

// predict predicts the behaviour of a mesh, and its limits if f.limits is set.
func (f capacityPredictFlags) predict(m *model.Model, mesh model.Mesh, o model.Options) (*model.Prediction, error) {
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

func readMesh(ctx context.Context, path string) (plan.Request, error) {
	data, err := readInput(ctx, path, plan.MaxFile)
	if err != nil {
		return plan.Request{}, err
	}
	return plan.Parse(data, path)
}
