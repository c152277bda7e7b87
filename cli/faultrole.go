package cli

import (
	"net/netip"

	"github.com/meshtrial/meshtrial/drive/fault/node"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/spf13/cobra"
)

func newFaultCommand(env *Env) *cobra.Command {
	options := node.Options{}
	var flags nodeRoleFlags
	var addresses []string
	cmd := &cobra.Command{
		Use:   "fault",
		Short: "Inject process and network faults into pods on this node, on command",
		Long: "fault is the role that a study of resilience runs on each node (a DaemonSet) if one of its steps\n" +
			"needs it. It kills and pauses processes of a container, makes the kernel OOM-kill one, and\n" +
			"blocks, drops, delays or rate-limits packets between a pod and others. Each fault lasts only as\n" +
			"long as its client renews it, and all are reverted at exit. It needs the node's PID namespace\n" +
			"(hostPID), root, CAP_KILL, CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_SYS_PTRACE. Its control server\n" +
			"listens on loopback only, and callers need a token.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if options.Token, options.Log, err = flags.read(cmd.Context(), env, "kill processes on the node"); err != nil {
				return err
			}
			for _, text := range addresses {
				address, err := netip.ParseAddr(text)
				if err != nil {
					return errs.Usage("--node-address: %q is not an IP address", text)
				}
				options.Node = append(options.Node, address)
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
	cmd.Flags().StringSliceVar(&addresses, "node-address", nil, "the node's own IP `addresses`, which faults never affect")
	return cmd
}
