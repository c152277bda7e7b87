package cli

import (
	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/advice"
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
