package cli

import "github.com/spf13/cobra"

func newClusterCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Say what a user's cluster must allow",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	cmd.AddCommand(clusterCheckCommand(env))
	return cmd
}
