package cli

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// signalsFlags holds the flags of `meshtrial assess traffic`.
type signalsFlags struct {
	istiodFlags
	tableFlags
	prometheus string
	headers    []string
	run        string
	record     string
	duration   time.Duration
	interval   time.Duration
	timeout    time.Duration
	once, json bool
}

// tableFlags select the time window and the series of the table.
type tableFlags struct {
	window                       time.Duration
	selector, process, container string
}

func (f *tableFlags) register(flags *pflag.FlagSet) {
	flags.DurationVar(&f.window, "window", time.Minute, "look-back window of rates and quantiles")
	flags.StringVar(&f.selector, "selector", "", "`labels` that istiod's metrics must have, such as cluster=\"one\"")
	flags.StringVar(&f.process, "process-selector", "", "`labels` of istiod's process_* and go_* metrics (default app=\"istiod\")")
	flags.StringVar(&f.container, "container-selector", "", "`labels` of istiod's container in the kubelets' metrics (default container=\"discovery\",pod=~\"istiod.*\")")
}

func (f *tableFlags) options() (signals.Options, error) {
	o := signals.Options{Window: f.window, Selector: f.selector, Process: f.process, Container: f.container}
	if f.window < time.Second || f.window > 24*time.Hour {
		return o, errs.Usage("--window %s: must be 1s to 24h", f.window)
	}
	if err := o.Check(); err != nil {
		return o, errs.WithHint(errs.Usage("%v", err), "selectors are written as in PromQL, without braces: --selector 'cluster=\"one\"'")
	}
	return o, nil
}

func newTrafficCommand(env *Env) *cobra.Command {
	var f signalsFlags
	cmd := &cobra.Command{
		Use:   "traffic",
		Short: "Show the golden signals of a control plane: live, from a run, or from Prometheus",
		Long: "Evaluate istiod's latency, saturation, traffic and errors in PromQL: from a running\n" +
			"istiod, through the Kubernetes API; from a Prometheus server (--prometheus-url); or from\n" +
			"a run's records (--run).\n\n" +
			"It watches two alerts: convergence p99 over 1 s, or over 2 s, for 10 s. The exit code is\n" +
			"3 if one is firing at the end of a live watch, or fired during a run. A missing metric\n" +
			"is shown as missing, never as zero.",
		Example: "  meshtrial assess traffic\n" +
			"  meshtrial assess traffic --once --json\n" +
			"  meshtrial assess traffic --prometheus-url http://localhost:9090 --duration 10m",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.check(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return f.show(cmd.Context(), env, o)
		},
	}
	flags := cmd.Flags()
	f.istiodFlags.register(flags)
	f.tableFlags.register(flags)
	flags.StringVar(&f.prometheus, "prometheus-url", "", "query the Prometheus server at this `URL` instead of istiod itself")
	flags.StringArrayVar(&f.headers, "prometheus-header", nil, "send this header to the Prometheus server, `\"Name: value\"`; may be repeated")
	flags.StringVar(&f.run, "run", "", "show the metrics in this `DIR`, recorded by a run or by --record")
	flags.StringVar(&f.record, "record", "", "store the metrics read from istiod in this `DIR`, as a run does")
	flags.DurationVar(&f.duration, "duration", 0, "how long to watch (default: until interrupted)")
	flags.DurationVar(&f.interval, "interval", time.Second, "time between readings; the default with a Prometheus server is 5s")
	flags.DurationVar(&f.timeout, "timeout", answerTimeout, "how long to wait for each response of the Prometheus server")
	flags.BoolVar(&f.once, "once", false, "show one reading and exit")
	flags.BoolVar(&f.json, "json", false, "print JSON: one document per line, or a single one with --once or --run")
	cmd.AddCommand(newSignalsExportCommand(env))
	return cmd
}

// check returns an error for invalid flags before anything is queried.
func (f *signalsFlags) check(changed func(string) bool) (o signals.Options, err error) {
	given := func(names ...string) string {
		if i := slices.IndexFunc(names, changed); i >= 0 {
			return names[i]
		}
		return ""
	}
	ofIstiod, watching := given("lab", "kubeconfig", "context", "istio-namespace", "record"), given("once", "duration", "interval")
	switch {
	case f.run != "" && f.prometheus != "":
		return o, errs.Usage("--run and --prometheus-url are mutually exclusive")
	case f.run+f.prometheus != "" && ofIstiod != "":
		return o, errs.Usage("--%s applies only to reading istiod itself, not to --run or --prometheus-url", ofIstiod)
	case f.run != "" && watching != "":
		return o, errs.Usage("--%s applies only to watching, not to --run", watching)
	case len(f.headers) > 0 && f.prometheus == "":
		return o, errs.Usage("--prometheus-header requires --prometheus-url")
	case f.interval < 100*time.Millisecond || f.interval > 5*time.Minute:
		return o, errs.Usage("--interval %s: must be 100ms to 5m", f.interval)
	case changed("timeout") && f.prometheus == "":
		return o, errs.Usage("--timeout requires --prometheus-url")
	case f.timeout < 100*time.Millisecond || f.timeout > 10*time.Minute:
		return o, errs.Usage("--timeout %s: must be 100ms to 10m", f.timeout)
	case f.duration < 0 || f.once && changed("duration"):
		return o, errs.Usage("--duration must be more than 0, and cannot be combined with --once")
	case f.prometheus != "" && !changed("interval"):
		f.interval = 5 * time.Second
	}
	if err := f.Check(); err != nil {
		return o, err
	}
	return f.tableFlags.options()
}

// answerTimeout is how long a Prometheus server may take to answer.
const answerTimeout = 10 * time.Second

// openPrometheus returns a client of a Prometheus server.
func openPrometheus(address string, headers []string) (*signals.Remote, error) {
	h := http.Header{}
	for _, text := range headers {
		name, value, ok := strings.Cut(text, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, errs.Usage("--prometheus-header: want \"Name: value\"")
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return signals.NewRemote(address, h)
}

// show shows a run's signals, or watches those of a Prometheus server or of istiod.
func (f *signalsFlags) show(ctx context.Context, env *Env, o signals.Options) (err error) {
	view := newSignalsView(env, *f)
	watch := app.SignalsWatch{Options: o, Duration: f.duration, Interval: f.interval, Once: f.once, Show: view.show}
	var alarm bool
	switch {
	case f.run != "":
		var r signals.Reading
		if r, alarm, err = app.SignalsOfRun(ctx, f.run, o); err == nil {
			err = showReading(env, f.json, r)
		}
	case f.prometheus != "":
		s, failure := openPrometheus(f.prometheus, f.headers)
		if failure != nil {
			return failure
		}
		defer s.Close()
		s.SetTimeout(f.timeout)
		alarm, err = watch.Ask(ctx, s)
	default:
		alarm, err = watch.Scrape(ctx, f.Istiod, f.record)
	}
	if err == nil {
		err = view.end()
	}
	if err == nil && alarm {
		return quiet(errs.CodeAssertion)
	}
	return err
}

func showReading(env *Env, asJSON bool, r signals.Reading) error {
	return env.show(asJSON, r, func(w io.Writer) error { return signals.WriteTable(w, r) })
}
