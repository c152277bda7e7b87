package cli

import (
	"bytes"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/signals"
)

func newSignalsExportCommand(env *Env) *cobra.Command {
	var format, out string
	var o signals.Options
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the golden signals as a Prometheus rule file or a Grafana dashboard",
		Example: "  meshtrial assess traffic export --format grafana --out istiod.json\n" +
			"  meshtrial assess traffic export --format prometheus-rules --selector 'cluster=\"one\"'",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			write := map[string]func(io.Writer, signals.Options) error{"prometheus-rules": signals.WriteRules, "grafana": signals.WriteDashboard}[format]
			if o.Window < time.Second || o.Window > 24*time.Hour {
				return errs.Usage("--window %s: must be 1s to 24h", o.Window)
			}
			if err := o.Check(); err != nil {
				return errs.WithHint(errs.Usage("%v", err), "selectors are written as in PromQL, without braces: --selector 'cluster=\"one\"'")
			}
			var text bytes.Buffer
			if err := write(&text, o); err != nil {
				return err
			}
			if out == "" {
				_, err := env.Stdout.Write(text.Bytes())
				return err
			}
			return writeWhole(out, text.Bytes())
		},
	}
	flags := cmd.Flags()
	addChoice(flags, &format, "format", "prometheus-rules or grafana", "prometheus-rules", "grafana")
	flags.StringVar(&out, "out", "", "write to this `FILE` (default: print)")
	flags.DurationVar(&o.Window, "window", time.Minute, "look-back window of rates and quantiles")
	flags.StringVar(&o.Selector, "selector", "", "`labels` that istiod's metrics must have, such as cluster=\"one\"")
	flags.StringVar(&o.Process, "process-selector", "", "`labels` of istiod's process_* and go_* metrics (default app=\"istiod\")")
	flags.StringVar(&o.Container, "container-selector", "", "`labels` of istiod's container in the kubelets' metrics (default container=\"discovery\",pod=~\"istiod.*\")")
	return cmd
}
