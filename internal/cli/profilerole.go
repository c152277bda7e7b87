package cli

import (
	"fmt"
	"log/slog"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/profile/node"
	"github.com/spf13/cobra"
)

func newProfileRoleCommand(env *Env) *cobra.Command {
	options := node.Options{}
	var tokenFile string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "profile-role",
		Short: "Take profiles of containers on this node with its perf, on command",
		Long: "profile-role runs on a node while its processes are profiled. It finds the\n" +
			"processes of a container and has the node's own perf sample them. It needs the\n" +
			"node's PID namespace (hostPID), root, CAP_SYS_ADMIN, CAP_PERFMON, CAP_SYS_PTRACE\n" +
			"and CAP_SYSLOG. Its control server stays on loopback, and its callers need a token.",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tokenFile == "" {
				return errs.Usage("--control-token-file is missing: whoever reached this process could look at what runs on the node")
			}
			var err error
			if options.Token, err = readToken(cmd.Context(), tokenFile); err != nil {
				return err
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
	flags.StringVar(&options.Tool.Root, "root", "/", "where the node's files are: / or /proc/1/root")
	flags.StringVar(&options.Tool.Path, "perf", "", "`path` of perf on the node (default: where distributions put it)")
	flags.BoolVar(&verbose, "verbose", false, "log more to standard error")
	return cmd
}
