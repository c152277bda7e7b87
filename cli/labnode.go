package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/lab/local"
)

// newLabNodeCommand has the orders about nodes of a lab of several.
func newLabNodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Kill and start nodes of a lab with several",
		Long: "Kill and start nodes of a lab that was started with --nodes; `meshtrial lab status` lists them. To\n" +
			"empty a node first, drain it as on any cluster: kubectl drain NAME --ignore-daemonsets.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	one := func(use, short, long string, do func(ctx context.Context, dir, name string) error) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), "", args[0]) },
		}
	}
	cmd.AddCommand(
		one("kill NAME", "Kill a node as if it lost power",
			"Kill all processes of a node at once, and its network: packets sent to it vanish. Kubernetes notices\n"+
				"some 50 s later (NotReady), and moves its pods after another five minutes unless they say otherwise.", local.KillNode),
		one("start NAME", "Start a node that was killed, and wait until it is ready",
			"Start a node that was killed. Its disk is empty but for the images; pods that Kubernetes still has on\n"+
				"it start again.", local.StartNode),
	)
	return cmd
}

// nodeNames are the names of a lab's nodes.
func nodeNames(l *local.Lab) []string {
	var names []string
	for _, n := range l.Nodes() {
		names = append(names, n.Name)
	}
	return names
}
