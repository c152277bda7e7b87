package cli

import (
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/fault/node"
	"github.com/spf13/cobra"
)

func newFaultCommand(env *Env) *cobra.Command {
	options := node.Options{}
	var tokenFile string
	var addresses []string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "fault",
		Short: "Kill and pause processes, disturb packets of pods on this node, on command",
		Long: "fault is the role that runs on each node (a DaemonSet) while a study of\n" +
			"resilience does, if that asks for it. It kills and pauses processes of a\n" +
			"container, and cuts, loses, delays or slows packets between a pod and others,\n" +
			"each for a time that its client has to extend, and undoes all of it when it\n" +
			"ends. It needs the node's PID namespace (hostPID), root, CAP_KILL,\n" +
			"CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_SYS_PTRACE. Its control server stays on\n" +
			"loopback, and its callers need a token.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tokenFile == "" {
				return errs.Usage("--control-token-file is missing: whoever reached this process could kill what runs on the node")
			}
			var err error
			if options.Token, err = readToken(cmd.Context(), tokenFile); err != nil {
				return err
			}
			for _, text := range addresses {
				address, err := netip.ParseAddr(text)
				if err != nil {
					return errs.Usage("--node-address: %q is no IP address", text)
				}
				options.Node = append(options.Node, address)
			}
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			options.Log = slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: level}))
			server, err := node.New(options)
			if err != nil {
				return err
			}
			fmt.Fprintf(env.Stderr, "control %s\n", server.Address())
			return server.Serve(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Control, "control", fmt.Sprintf("127.0.0.1:%d", node.ControlPort), "loopback `address` of the control server")
	flags.StringVar(&tokenFile, "control-token-file", "", "`file` with the token that callers must send")
	flags.StringVar(&options.ProcRoot, "proc-root", "/proc", "`directory` where the node's /proc is mounted")
	flags.StringSliceVar(&addresses, "node-address", nil, "the node's own IP `addresses`, which are never disturbed")
	flags.BoolVar(&verbose, "verbose", false, "log more to standard error")
	return cmd
}
