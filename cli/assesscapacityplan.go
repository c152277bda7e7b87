package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/capacity/plan"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
)

type capacityPlanFlags struct {
	model, out string
	json       bool
}

func newCapacityPlanCommand(env *Env) *cobra.Command {
	var f capacityPlanFlags
	cmd := &cobra.Command{
		Use:   "plan MESH.yaml --model FILE",
		Short: "Choose istiod's replicas, requests and limits for a mesh",
		Long: "Read a mesh and the targets of its control plane from a file, use a capacity model to find\n" +
			"the fewest CPUs that meet them, and write values for Istio's Helm chart istiod: requests,\n" +
			"limits and autoscaler bounds, each with its reason, and the levers that would change the\n" +
			"answer.\n\n" +
			"A mesh file:\n\n" +
			"    proxies: 5000\n    services: 2000\n    visible: 100%            # of the services, by a sidecar\n    namespaces: 20           # of the sidecars\n" +
			"    changes: {rate: 1, arrival: poisson, mix: {endpoints: 9, configuration: 1}}\n" +
			"    targets: {convergence_p99: 5s, cpu: 70%, survives: 1, reconnect: 60s, growth: 2}\n" +
			"    istiod: {min_replicas: 2, max_replicas: 20, max_cores: 16}\n\n" +
			"docs/capacity.md lists all fields.\n\n" +
			"Exit codes: 0 success, 2 wrong usage or input, 3 no configuration within the bounds\n" +
			"meets the targets.",
		Example: "  meshtrial assess capacity plan mesh.yaml --model model.json -o istiod-values.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return app.Computing(cmd.Context(), func() error { return runCapacityPlan(cmd.Context(), env, f, args[0]) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "`FILE` with the model, as written by assess capacity fit")
	flags.StringVarP(&f.out, "out", "o", "", "write the values to this `FILE` instead of standard output")
	flags.BoolVar(&f.json, "json", false, "print the plan as JSON")
	return cmd
}

func runCapacityPlan(ctx context.Context, env *Env, f capacityPlanFlags, path string) error {
	request, err := readMesh(ctx, path)
	if err != nil {
		return err
	}
	m, err := readModel(ctx, f.model)
	if err != nil {
		return err
	}
	line := newProgress(env.Stderr)
	line.Say("trying sizes of istiod")
	p, err := plan.Make(m, request, capacitySeed)
	line.Clear()
	var none *plan.ErrNone
	switch {
	case errors.As(err, &none):
		return errs.WithHint(errs.WithCode(err, errs.CodeAssertion), "raise istiod.max_replicas or istiod.max_cores, or relax the targets; if only the interval misses a target, a model of larger runs has a narrower one; `meshtrial assess capacity predict` shows one size at a time")
	case err != nil:
		return errs.WithCode(err, errs.CodeUsage)
	}
	if f.out != "" {
		if err := writeWhole(f.out, []byte(p.YAML())); err != nil || !f.json {
			return err
		}
	}
	if f.json {
		return writeJSON(env.Stdout, p)
	}
	_, err = io.WriteString(env.Stdout, p.YAML())
	return err
}
