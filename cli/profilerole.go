package cli

import (
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/observe/profile/node"
	"github.com/spf13/cobra"
)

func newProfileRoleCommand(env *Env) *cobra.Command {
	options := node.Options{}
	var flags nodeRoleFlags
	cmd := &cobra.Command{
		Use:   "profile-role",
		Short: "Take profiles of containers on this node with its perf, on command",
		Long: "profile-role runs on a node while its processes are profiled. It finds the\n" +
			"processes of a container and has the node's own perf sample them. It needs the\n" +
			"node's PID namespace (hostPID), root, CAP_SYS_ADMIN, CAP_PERFMON, CAP_SYS_PTRACE\n" +
			"and CAP_SYSLOG. Its control server stays on loopback, and its callers need a token.",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			options.Token, options.Log, err = flags.read(cmd.Context(), env, "look at what runs on the node")
			if err != nil {
				return err
			}
			options.Alive = jsonhttp.NewAlive(flags.alone)
			server, err := node.New(options)
			if err != nil {
				return err
			}
			return serveRole(cmd.Context(), env, options.Alive, server)
		},
	}
	flags.add(cmd, &options.Control, node.ControlPort, &options.ProcRoot)
	cmd.Flags().StringVar(&options.Tool.Root, "root", "/", "where the node's files are: / or /proc/1/root")
	cmd.Flags().StringVar(&options.Tool.Path, "perf", "",
		"`PATH` of perf on the node (default: where distributions put it)")
	return cmd
}
