package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/run/detached"
)

func newDetachedRunCommand(env *Env) *cobra.Command {
	var options, run, namespace string
	cmd := &cobra.Command{
		Use:   "detached-run",
		Short: "Run a detached study in a pod, or resume it after an earlier pod",
		Long: "detached-run is `meshtrial run` in a pod of the Job that run --detach creates. It reaches the\n" +
			"cluster with its pod's service account, and reports its progress in a ConfigMap.",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for flag, value := range map[string]string{"run": run, "namespace": namespace, "options": options} {
				if value == "" {
					return errs.Usage("--%s is missing", flag)
				}
			}
			f := runFlags{yes: true} // the user agreed before the Job was created
			if err := json.Unmarshal([]byte(options), &f.RunOptions); err != nil {
				return errs.Usage("--options: %v", err)
			}
			p := newProgress(env.Stderr)
			defer p.Clear()
			f.tell(env, p)
			f.Present = func(a app.Analyzed) error { // the path is local to this pod
				err := presentText(env, a.Findings)
				if err == nil {
					_, err = fmt.Fprintf(env.Stdout, "\nreport and trials: meshtrial runs fetch %s\n", run)
				}
				if unread(err) {
					return nil
				}
				return err
			}
			return app.RunAttempt(cmd.Context(), f.RunOptions, namespace, run)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options, "options", "", "what to run where, as `JSON`")
	flags.StringVar(&run, "run", "", "`name` of the detached run")
	flags.StringVar(&namespace, "namespace", "", "`name` of its Job's namespace")
	return cmd
}

func newDetachedResultsCommand(env *Env) *cobra.Command {
	var options struct{ dir, control string }
	var alive time.Duration
	cmd := &cobra.Command{
		Use:    "detached-results",
		Short:  "Serve a detached run's directory from its volume",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if options.dir == "" {
				return errs.Usage("--dir is missing")
			}
			hears := jsonhttp.NewAlive(alive)
			server, err := detached.NewServer(options.dir, options.control, hears)
			if err != nil {
				return err
			}
			return serveRole(cmd.Context(), env, hears, server)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.dir, "dir", "", "the run `DIR`")
	flags.StringVar(&options.control, "control", fmt.Sprintf("127.0.0.1:%d", detached.ControlPort), "loopback `address` of the control server")
	addAlone(flags, &alive)
	return cmd
}
