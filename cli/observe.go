package cli

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/spf13/cobra"
)

func newObserveCommand(env *Env) *cobra.Command {
	options := observe.Options{}
	var alone time.Duration
	var verbose bool
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Serve resource use of containers and the machine: CPU, memory, pressure",
		Long: "observe is the role that runs on each node (a DaemonSet) and reads cgroups and /proc at\n" +
			"the requested instants. It needs the node's PID namespace (hostPID) and the node's\n" +
			"/sys/fs/cgroup mounted read-only. To read the memory of other users' processes it also\n" +
			"needs root with CAP_SYS_PTRACE, and nothing else. Its control server has no access\n" +
			"control, so it listens on loopback only.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if verbose {
				options.Log = slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
			}
			options.Alive, options.Version = jsonhttp.NewAlive(alone), app.Version()
			server, err := observe.New(options)
			if err != nil {
				return err
			}
			return serveRole(cmd.Context(), env, options.Alive, server)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Control, "control", fmt.Sprintf("127.0.0.1:%d", observe.ControlPort), "loopback `address` of the control server")
	flags.StringVar(&options.CgroupRoot, "cgroup-root", "/sys/fs/cgroup", "`DIR` where the node's cgroups are mounted")
	flags.StringVar(&options.ProcRoot, "proc-root", "/proc", "`DIR` where the node's /proc is mounted")
	addAlone(flags, &alone)
	flags.BoolVar(&verbose, "verbose", false, "log what happens to standard error")
	return cmd
}
