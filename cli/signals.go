package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/run/store"
)

// signalsFlags are the flags of `meshtrial signals`.
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

// tableFlags say over which time and of whom the table is.
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

func newSignalsCommand(env *Env) *cobra.Command {
	var f signalsFlags
	cmd := &cobra.Command{
		Use:   "signals",
		Short: "Show the golden signals of a control plane: live, from a run, or from a Prometheus",
		Long: "Evaluate istiod's latency, saturation, traffic and errors in PromQL: from a running\n" +
			"istiod, through the Kubernetes API; from a Prometheus server (--prometheus-url); or from\n" +
			"a run's records (--run).\n\n" +
			"It watches two alerts: convergence p99 over 1 s, or over 2 s, for 10 s. The exit code\n" +
			"is 3 if one is firing at the end of a live watch, or fired during a run.\n" +
			"A missing metric is shown as missing, never as zero.",
		Example: "  meshtrial signals\n" +
			"  meshtrial signals --once --json\n" +
			"  meshtrial signals --prometheus-url http://localhost:9090 --duration 10m",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.check(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			switch {
			case f.run != "":
				return signalsOfRun(cmd.Context(), env, f, o)
			case f.prometheus != "":
				return signalsOfPrometheus(cmd.Context(), env, f, o)
			}
			return signalsLive(cmd.Context(), env, f, o)
		},
	}
	flags := cmd.Flags()
	f.istiodFlags.register(flags)
	f.tableFlags.register(flags)
	flags.StringVar(&f.prometheus, "prometheus-url", "", "ask the Prometheus server at this `URL` instead of istiod itself")
	flags.StringArrayVar(&f.headers, "prometheus-header", nil, "send this header to the Prometheus server, `\"Name: value\"`; may be repeated")
	flags.StringVar(&f.run, "run", "", "show what was recorded in this `DIR`, by a run or by --record")
	flags.StringVar(&f.record, "record", "", "keep what is read from istiod in this `DIR`, as a run does")
	flags.DurationVar(&f.duration, "duration", 0, "how long to watch (default: until interrupted)")
	flags.DurationVar(&f.interval, "interval", time.Second, "time between two readings; with a Prometheus server 5s unless given")
	flags.DurationVar(&f.timeout, "timeout", answerTimeout, "how long to wait for each answer of the Prometheus server")
	flags.BoolVar(&f.once, "once", false, "show one reading and end")
	flags.BoolVar(&f.json, "json", false, "print JSON: one document per line, or a single one with --once or --run")
	cmd.AddCommand(newSignalsExportCommand(env))
	return cmd
}

// check finds what is wrong before anything is asked.
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
		return o, errs.Usage("--run and --prometheus-url are mutually exclusive: give one of them")
	case f.run+f.prometheus != "" && ofIstiod != "":
		return o, errs.Usage("--%s is for reading istiod itself: leave it out with --run and --prometheus-url", ofIstiod)
	case f.run != "" && watching != "":
		return o, errs.Usage("--%s is for watching: a run is shown as it was", watching)
	case len(f.headers) > 0 && f.prometheus == "":
		return o, errs.Usage("--prometheus-header requires --prometheus-url")
	case f.interval < 100*time.Millisecond || f.interval > 5*time.Minute:
		return o, errs.Usage("--interval %s: must be 100ms to 5m", f.interval)
	case changed("timeout") && f.prometheus == "":
		return o, errs.Usage("--timeout requires --prometheus-url")
	case f.timeout < 100*time.Millisecond || f.timeout > 10*time.Minute:
		return o, errs.Usage("--timeout %s: must be 100ms to 10m", f.timeout)
	case f.duration < 0 || f.once && changed("duration"):
		return o, errs.Usage("--duration takes a time above zero, and not together with --once")
	case f.prometheus != "" && !changed("interval"):
		f.interval = 5 * time.Second
	}
	if err := f.istiodFlags.check(); err != nil {
		return o, err
	}
	return f.tableFlags.options()
}

// answerTimeout is how long a Prometheus server may take to answer.
const answerTimeout = 10 * time.Second

// openPrometheus makes the client of a server.
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

// signalsOfRun shows the whole of what a run recorded.
func signalsOfRun(ctx context.Context, env *Env, f signalsFlags, o signals.Options) error {
	dir, err := store.Folder(f.run, store.DirSeries)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(f.run, store.FileHeader)); err == nil {
			return errs.WithHint(errs.Usage("run %s has no recorded series", f.run),
				"its study has to ask for them: signals among its measures, as measures: [convergence, signals]")
		}
		dir, err = f.run, nil // what --record wrote
	}
	if err != nil {
		return err
	}
	s, err := signals.OpenSeries(dir)
	if err != nil {
		return err
	}
	from, to := s.Span()
	whole := o
	// Rates look back on the whole run, with its first sample.
	whole.Window = max(to.Sub(from)+time.Millisecond, time.Second)
	r, err := signals.Read(ctx, s, whole, to)
	if err != nil {
		return err
	}
	w := signals.NewWatch(s, o)
	if err := w.Replay(ctx, from, to, time.Second); err != nil {
		return err
	}
	r.Alerts = w.Alerts()
	if err := showReading(env, f.json, r); err != nil {
		return err
	}
	for _, a := range r.Alerts {
		if len(a.Fired) > 0 {
			return quiet(errs.CodeAssertion)
		}
	}
	return nil
}

func showReading(env *Env, asJSON bool, r signals.Reading) error {
	if asJSON {
		return writeJSON(env.Stdout, r)
	}
	return signals.WriteTable(env.Stdout, r)
}

// firing tells by exit code whether an alert fires.
func firing(w *signals.Watch) error {
	if w.Firing() {
		return quiet(errs.CodeAssertion)
	}
	return nil
}

// alertsLookBack is the time before the first reading whose alerts a
// Prometheus server can still tell of.
const alertsLookBack = 30 * time.Second

func signalsOfPrometheus(ctx context.Context, env *Env, f signalsFlags, o signals.Options) error {
	s, err := openPrometheus(f.prometheus, f.headers)
	if err != nil {
		return err
	}
	defer s.Close()
	s.SetTimeout(f.timeout)
	w := signals.NewWatch(s, o)
	now := time.Now()
	if err := w.Replay(ctx, now.Add(-alertsLookBack), now, time.Second); err != nil {
		return err
	}
	view := newSignalsView(env, f)
	ctx, cancel := limited(ctx, f.duration)
	defer cancel()
	for {
		r, err := w.Read(ctx, o, time.Now())
		if err == nil {
			err = view.show(r)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil || f.once || wake.Pause(ctx, f.interval) != nil {
			return errors.Join(view.end(), firing(w))
		}
	}
}

// limited bounds a watch that has a duration.
func limited(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// signalsLive reads istiod itself into a database of its own.
func signalsLive(ctx context.Context, env *Env, f signalsFlags, o signals.Options) (err error) {
	from, err := newIstiods(ctx, &f.istiodFlags, rights.Signals)
	if err != nil {
		return err
	}
	defer from.close()
	if _, err := from.targets(ctx); err != nil { // no istiod is an error now, and a problem later
		return err
	}
	dir := f.record
	if dir == "" {
		if dir, err = os.MkdirTemp("", "meshtrial-signals-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	recorder, err := signals.OpenRecorder(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recorder.Close()) }()

	ctx, cancel := limited(ctx, f.duration)
	defer cancel()
	view := newSignalsView(env, f)
	w := signals.NewWatch(recorder.Source(), o)
	scraper := &signals.Scraper{Recorder: recorder, Discover: from.targets}
	var first time.Time
	readings := 0
	err = scraper.Run(ctx, f.interval, func(at time.Time, problems []string) error {
		if first.IsZero() {
			first = at
			return nil // rates need two
		}
		seen := o
		// A rate over more time than was watched would be too low.
		seen.Window = min(o.Window, time.Duration(at.UnixMilli()-first.UnixMilli()+1)*time.Millisecond)
		r, err := w.Read(ctx, seen, at)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		r.Source, r.Problems = "istiod of "+f.lab+" lab, namespace "+f.namespace, problems
		readings++
		if err := view.show(r); err != nil {
			return err
		}
		if f.once {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if readings == 0 && f.duration > 0 {
		return errs.WithHint(fmt.Errorf("nothing was read twice in %s", f.duration), "give --duration at least two intervals")
	}
	return errors.Join(view.end(), firing(w))
}

// errEnough ends a scrape loop.
var errEnough = errors.New("enough")
