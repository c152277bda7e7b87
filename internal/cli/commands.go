package cli

import "github.com/spf13/cobra"

// commands lists every subcommand, in the order of the documentation.
func commands(env *Env) []*cobra.Command {
	return []*cobra.Command{
		newComponentsCommand(env),
	}
}
