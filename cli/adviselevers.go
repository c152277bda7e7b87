package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
)

func newAdviseLeversCommand(env *Env) *cobra.Command {
	var f istiodFlags
	var program string
	var others, json bool
	cmd := &cobra.Command{
		Use:   "levers",
		Short: "List the settings that an istiod has, and what is known of each",
		Long: "Ask istiod's program for its environment variables, with their defaults and its own\n" +
			"help, and list beside them the levers of studies and advice: which ones this version lacks,\n" +
			"and which studies measure each.\n\n" +
			"The program is the one that --istiod names, or the local lab's; with --lab cluster it must\n" +
			"be of the version that runs there, which is looked up first.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			known, err := istiodAsked(cmd.Context(), &f, program, cmd.Flags().Changed("lab"))
			if err != nil {
				return err
			}
			shipped, err := shippedStudies()
			if err != nil {
				return err
			}
			list := advice.Levers(known, shipped, others)
			if json {
				return writeJSON(env.Stdout, list)
			}
			return advice.WriteLevers(env.Stdout, list)
		},
	}
	flags := cmd.Flags()
	f.register(flags)
	flags.StringVar(&program, "istiod", "", istiodUsage)
	flags.BoolVar(&others, "all", false, "also list the variables that are no lever")
	flags.BoolVar(&json, "json", false, "print JSON")
	return cmd
}

// istiodAsked asks the named program, or that of the local lab. running says that it must be of
// the version of the running istiod.
func istiodAsked(ctx context.Context, f *istiodFlags, program string, running bool) (*variables.Known, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	version, image := "", ""
	if running {
		from, err := newIstiods(ctx, f, rights.Advise)
		if err != nil {
			return nil, err
		}
		defer from.close()
		e := &advice.Evidence{}
		if version, err = from.settings(ctx, f, e); err != nil {
			return nil, err
		}
		image = e.Levers[study.FactorIstiod]
	}
	known, err := askLocal(ctx, program, image)
	if err == nil && version != "" && known.Version != version {
		err = errs.WithHint(errs.Usage("istiod %s runs, but %s has version %s", version, known.Source, known.Version),
			"--istiod image takes the program out of the image that runs, where its registry can be reached")
	}
	return known, err
}

// askLocal asks the named program, or that of the local lab.
func askLocal(ctx context.Context, program, image string) (*variables.Known, error) {
	if program != "" {
		return askNamed(ctx, program, image)
	}
	_, cached, err := cachedIstiod(ctx)
	if err != nil {
		return nil, err
	}
	if cached == "" {
		return nil, errs.WithHint(errs.Usage("no istiod to ask: that of the local lab has not been built"),
			"meshtrial lab components build istiod builds it; or take yours out of its image with --istiod oci://IMAGE, or name it with --istiod FILE")
	}
	return variables.Ask(ctx, cached)
}

// shippedStudies are the studies that the program contains.
func shippedStudies() ([]*study.Study, error) {
	var out []*study.Study
	for _, name := range studies.Names() {
		data, err := studies.Read(name)
		if err != nil {
			return nil, err
		}
		s, err := study.Parse(data, name, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
