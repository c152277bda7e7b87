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
		Short: "Kill and pause processes, disturb packets of pods on this node, on command",
		Long: "fault is the role that a study of resilience runs on each node (a DaemonSet)\n" +
			"if one of its steps needs it. It kills and pauses processes of a\n" +
			"container, has the kernel kill one for lack of memory, and cuts, loses, delays\n" +
			"or slows packets between a pod and others, each for a time that its client has\n" +
			"to extend, and undoes all of it when it ends. It needs the node's PID namespace (hostPID), root, CAP_KILL,\n" +
			"CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_SYS_PTRACE. Its control server stays on\n" +
			"loopback, and its callers need a token.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if options.Token, options.Log, err = flags.read(cmd.Context(), env, "kill what runs on the node"); err != nil {
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
	cmd.Flags().StringSliceVar(&addresses, "node-address", nil, "the node's own IP `addresses`, which are never disturbed")
	return cmd
}
