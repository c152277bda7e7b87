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
		Short: "Profile containers on this node with its perf, on command",
		Long: "profile-role runs on a node while its processes are profiled. It finds the processes of\n" +
			"a container and samples them with the node's own perf. It needs the node's PID namespace\n" +
			"(hostPID), root, CAP_SYS_ADMIN, CAP_PERFMON, CAP_SYS_PTRACE and CAP_SYSLOG. Its control\n" +
			"server listens on loopback only, and callers need a token.",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			options.Token, options.Log, err = flags.read(cmd.Context(), env, "inspect processes on the node")
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
		"`PATH` of perf on the node (default: the usual locations)")
	return cmd
}
