package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/report"
)

type trafficFlags struct {
	sourceFlags
	drawnFlags
}

// drawnFlags say how an assessment is drawn on standard output.
type drawnFlags struct {
	textFlags
	format string
}

func (f *drawnFlags) register(flags *pflag.FlagSet) {
	formats := append(slices.Clone(report.AssessmentFormats), "json")
	addChoice(flags, &f.format, "format", "format of standard output: "+strings.Join(formats, ", "), formats...)
	f.textFlags.register(flags)
}

// draw writes an assessment to standard output.
func (f *drawnFlags) draw(env *Env, a assess.Assessment) error {
	return env.show(f.format == "json", a, func(w io.Writer) error { return report.RenderAssessment(w, a, f.format, f.on(w)) })
}

func newTrafficCommand(env *Env) *cobra.Command {
	var f trafficFlags
	cmd := &cobra.Command{
		Use:   "traffic [RUN | --from FILE...]",
		Short: "Report who calls whom, and istiod's golden signals",
		Long: "Read the requests of a running mesh by the counters of its sidecars, and istiod's golden\n" +
			"signals: latency, saturation, traffic and errors. Of a run, read the signals that it recorded.\n\n" +
			"Two alerts fire if the p99 of istiod's convergence stays over 1 s, or over 2 s, for 10 s. A\n" +
			"missing metric is never shown as zero.\n\n" +
			"Exit codes: 0 success, 3 an alert fired, 4 neither traffic nor signals could be read.",
		Example: "  meshtrial assess traffic --duration 10m\n" +
			"  meshtrial assess traffic runs/control-plane-levers-... --format json",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := f.check(cmd.Flags().Changed, args)
			if err != nil {
				return err
			}
			return f.show(cmd.Context(), env, run)
		},
	}
	f.sourceFlags.register(cmd.Flags())
	f.registerWatch(cmd.Flags())
	f.drawnFlags.register(cmd.Flags())
	cmd.AddCommand(newSignalsExportCommand(env))
	return cmd
}

func (f *trafficFlags) show(ctx context.Context, env *Env, run string) (err error) {
	var a assess.Assessment
	if run != "" {
		var r signals.Reading
		if r, err = app.SignalsOfRun(ctx, run); err == nil {
			a = assess.Assess(assess.Evidence{Source: r.Source, At: time.UnixMilli(r.AtMS), WindowS: r.WindowS, Signals: &r}).TrafficAlone()
		}
	} else if a, _, err = f.read(ctx, env, app.Assessment{Section: assess.SectionTraffic}); err == nil {
		a = a.TrafficAlone()
	}
	if err == nil {
		err = f.draw(env, a)
	}
	switch {
	case err != nil:
		return err
	case a.Traffic == nil && a.Signals == nil:
		return nothingRead()
	case a.Signals != nil && slices.ContainsFunc(a.Signals.Alerts, func(x signals.Alert) bool { return len(x.Fired) > 0 }):
		return quiet(errs.CodeAssertion)
	}
	return nil
}
