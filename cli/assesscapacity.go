package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/capacity/fit"
	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

func newCapacityCommand(env *Env) *cobra.Command {
	return parentCommand("capacity", "Predict what istiod needs in a mesh that does not exist yet",
		"fit builds a model from measured runs: what istiod spends on changes, pushes, proxies and\n"+
			"services, with intervals. predict uses that model to simulate how changes reach the\n"+
			"proxies of a mesh of any size. plan uses it to choose istiod's replicas, requests and\n"+
			"limits.",
		newCapacityFitCommand(env), newCapacityPredictCommand(env), newCapacityPlanCommand(env))
}

// capacitySeed is the seed of resampling, changes and draws: the same input gives the same model.
const capacitySeed = 1

type capacityFitFlags struct {
	out     string
	holdOut []string
	draws   int
	printFlags
}

func newCapacityFitCommand(env *Env) *cobra.Command {
	var f capacityFitFlags
	cmd := &cobra.Command{
		Use:   "fit RUN...",
		Short: "Fit a capacity model to runs of control-plane studies",
		Long: "Fit a model to the valid trials of runs of control-plane studies. It reports the\n" +
			"parameters with 90% intervals, the model's error on held-out cells, what these runs cannot\n" +
			"determine, and which study would. The runs should vary proxies, services and the rate of\n" +
			"changes, as `meshtrial run capacity-holdout` does.\n\n" +
			"--hold-out FACTOR=LEVEL excludes those cells from the fit and predicts them.",
		Example: "  meshtrial assess capacity fit runs/capacity-holdout-* --hold-out variant=held-out -o model.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return app.Computing(cmd.Context(), func() error { return runCapacityFit(cmd.Context(), env, f, args) })
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "write the model to this `FILE`")
	flags.StringArrayVar(&f.holdOut, "hold-out", nil, "exclude cells with this `FACTOR=LEVEL` from the fit and predict them; if repeated, all must apply")
	flags.IntVar(&f.draws, "draws", 200, "how often to resample the trials for the intervals")
	f.printFlags.register(flags)
	return cmd
}

func runCapacityFit(ctx context.Context, env *Env, f capacityFitFlags, dirs []string) error {
	if f.draws < 10 || f.draws > 5000 {
		return errs.Usage("--draws %d: must be 10 to 5000", f.draws)
	}
	holdOut, err := parseCell("hold-out", f.holdOut)
	if err != nil {
		return err
	}
	var runs []record.Run
	for _, dir := range dirs {
		run, err := loadRun(ctx, env, dir)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	m, err := fit.Fit(runs, fit.Options{Seed: capacitySeed, Draws: f.draws, HoldOut: holdOut})
	if err != nil {
		return errs.WithHint(errs.WithCode(err, errs.CodeInvalid), "to record runs that a model can be fitted to: meshtrial run capacity-holdout")
	}
	if f.out != "" {
		var doc bytes.Buffer
		if err := writeJSON(&doc, m); err != nil {
			return err
		}
		if err := writeWhole(f.out, doc.Bytes()); err != nil {
			return err
		}
	}
	return f.show(env, m, func(w io.Writer, o report.Options) error { return report.RenderModel(w, m, o) })
}

// readModel reads the document that `capacity fit` wrote.
func readModel(ctx context.Context, path string) (*model.Model, error) {
	if path == "" {
		return nil, errs.WithHint(errs.Usage("--model is missing"), "`meshtrial assess capacity fit RUN... -o model.json` writes one")
	}
	data, err := readInput(ctx, path, model.MaxFile)
	if err != nil {
		return nil, err
	}
	m, err := model.Parse(data)
	if err != nil {
		return nil, errs.WithHint(errs.WithCode(fmt.Errorf("%s: %w", path, err), errs.CodeUsage), "`meshtrial assess capacity fit RUN... -o FILE` writes one")
	}
	return m, nil
}
