package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// pushTestFlags holds the flags of `meshtrial controlplane-test`.
type pushTestFlags struct {
	istiodFlags
	app.PushTestOptions
	delayS     float64
	prometheus prometheusFlags
	wait       time.Duration
	json       bool
}

func newControlPlaneTestCommand(env *Env) *cobra.Command {
	var f pushTestFlags
	cmd := &cobra.Command{
		Use:   "controlplane-test",
		Short: "Run the published simple control-plane test and report what it misses",
		Long: "Create a Service, a Gateway and a VirtualService, wait --delay, and repeat --reps times. Then\n" +
			"report the number of pushes and the p99 of pilot_proxy_convergence_time over the test, and what\n" +
			"these two figures miss. They come from istiod itself, through the Kubernetes API, or from a\n" +
			"Prometheus server (--prometheus-url). Everything that was created is deleted, even if the test\n" +
			"is interrupted; if it is killed, by the next run or `meshtrial cluster restore`.",
		Example: "  meshtrial controlplane-test --reps 10 --delay 2.5\n" +
			"  meshtrial controlplane-test --lab cluster --namespace test --prometheus-url http://localhost:9090",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), env) },
	}
	flags := cmd.Flags()
	f.istiodFlags.register(flags)
	flags.IntVar(&f.Reps, "reps", 10, "how many times to create the three resources")
	flags.Float64Var(&f.delayS, "delay", 2.5, "`seconds` between repetitions")
	flags.StringVar(&f.Gateway, "gateway", "ingressgateway", "ingress gateway selected by the Gateways: `NAME` in its label istio=NAME, or its URL or HOST:PORT to also wait until it serves the last VirtualService")
	flags.StringVar(&f.PushTestOptions.Namespace, "namespace", "default", "where to create the resources")
	flags.StringVar(&f.App, "app", "catalog", "app label selected by each Service; matching pods are optional")
	f.prometheus.register(flags, "query the Prometheus server at this `URL` instead of istiod itself", "selector")
	flags.DurationVar(&f.Settle, "settle", 10*time.Second, "how long to wait after the last repetition")
	flags.DurationVar(&f.wait, "wait", 0, waitUsage)
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func (f *pushTestFlags) run(ctx context.Context, env *Env) (err error) {
	if err := f.Check(); err != nil {
		return err
	}
	if f.Reps < 1 {
		return errs.Usage("--reps %d: must be 1 or more", f.Reps)
	}
	remote, err := f.prometheus.open()
	if err != nil {
		return err
	}
	config, err := f.Config(ctx, f.PushTestOptions.Namespace, rights.PushTest, rights.Journal)
	if err != nil {
		return err
	}
	closeSource, err := f.open(ctx, remote)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeSource()) }()
	f.Delay, f.Progress = time.Duration(f.delayS*float64(time.Second)), newProgress(env.Stderr)
	report, err := app.PushTest(ctx, app.Claim{Config: config, Wait: f.wait, OwnLab: f.Lab == lab.KindLocal}, f.PushTestOptions)
	if err != nil {
		return err
	}
	err = env.print(f.json, report, pushTestText(report))
	if err == nil && !report.Valid {
		err = quiet(errs.CodeInvalid)
	}
	return err
}

// open opens the source of istiod's metrics: a Prometheus server or, if it is nil, istiod's own metrics pages.
func (f *pushTestFlags) open(ctx context.Context, remote *signals.Remote) (closeSource func() error, err error) {
	if remote != nil {
		f.Source, f.Name, f.Selector = remote, remote.String(), f.prometheus.selector
		f.Mark = func(ctx context.Context) (time.Time, error) { return app.AwaitScrape(ctx, remote, f.Selector) }
		return remote.Close, nil
	}
	from, err := f.Istiod.Open(ctx, "", rights.Signals)
	if err != nil {
		return nil, err
	}
	recorder, remove, err := app.TemporaryRecorder()
	if err != nil {
		from.Close()
		return nil, err
	}
	f.Source, f.Name = recorder.Source(), "istiod itself"
	scraper := &signals.Scraper{Recorder: recorder, Discover: from.Pods, RediscoverEvery: time.Nanosecond}
	f.Mark = func(ctx context.Context) (time.Time, error) {
		at, problems, err := scraper.Scrape(ctx)
		if err == nil && len(problems) > 0 {
			err = fmt.Errorf("read istiod: %v", problems[0])
		}
		return at, err
	}
	return func() error {
		from.Close()
		return remove()
	}, nil
}

// pushTestText is the report as text.
func pushTestText(r app.PushTestReport) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%d × a Service, a Gateway and a VirtualService in namespace %s, %g s apart; %g proxies; from %s\n\n",
		r.Reps, r.Namespace, r.DelayS, r.Proxies, r.Source)
	fmt.Fprintf(b, "pushes            %.0f\n", r.Pushes)
	if p99 := r.Convergence.P99S; p99 != nil {
		fmt.Fprintf(b, "convergence p99   %.4f s\n", *p99)
	} else {
		fmt.Fprintf(b, "convergence p99   no data\n")
	}
	fmt.Fprintf(b, "\nWhat these figures miss:\n")
	for _, text := range r.LeftOut {
		fmt.Fprintf(b, "  - %s\n", strings.Join(words.Lines(text, 96), "\n    "))
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(b, "warning: %s\n", text)
	}
	return b.String()
}
