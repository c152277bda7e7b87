package cli

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/openmetrics"
	"github.com/meshtrial/meshtrial/record"
)

// defaultLoadDuration is how long a load lasts unless a flag or the steps say otherwise.
const defaultLoadDuration = 10 * time.Second

func newLoadCommand(env *Env) *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "load URL",
		Short: "Send open-loop load to a server and measure its latency",
		Long: "Send requests on a schedule fixed in advance (open loop), and measure each from its\n" +
			"intended send time (intended) and from its actual one (send). Every scheduled request\n" +
			"is accounted for.\n\n" +
			"URL is http://, https://, grpc://, grpcs://, tcp:// or tls://HOST:PORT[/PATH].\n" +
			"When interrupted, it prints the results so far.",
		Example: "  meshtrial load http://127.0.0.1:8080/ --rate 1000 --connections 16\n" +
			"  meshtrial load http://127.0.0.1:8080/ --rate max --duration 5s\n" +
			"  meshtrial load grpc://127.0.0.1:9090 --payload 1024 --ramp 100:5000",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.control != "" && cmd.Flags().NFlag() > 1:
				return errs.Usage("--control receives loads over HTTP and allows no other flags")
			case f.control != "" && len(args) > 0:
				return errs.Usage("--control receives the URL over HTTP, not on the command line")
			case f.control == "" && len(args) != 1:
				return errs.WithHint(errs.Usage("want one URL, got %d arguments", len(args)), "meshtrial load http://HOST:PORT/")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.control != "" {
				return serveLoadControl(cmd.Context(), env, f.control)
			}
			spec, err := f.spec(cmd.Context(), args[0], cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return runLoad(cmd.Context(), env, spec, f)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// serveLoadControl serves the load role: it runs loads on request until ctx ends.
func serveLoadControl(ctx context.Context, env *Env, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return errs.WithHint(fmt.Errorf("load control: %w", err), "--control takes a free HOST:PORT, such as 127.0.0.1:15980")
	}
	fmt.Fprintf(env.Stderr, "control %s\n", listener.Addr())
	return control.NewServer(ctx, app.Version()).Serve(listener)
}

func runLoad(ctx context.Context, env *Env, spec load.Spec, f *loadFlags) error {
	// Open the logs first, so that a long run cannot end with nowhere to write its results.
	log, err := createLog("--log", f.log)
	if err != nil {
		return err
	}
	defer log.Close()
	requests, err := createLog("--request-log", f.requestLog)
	if err != nil {
		return err
	}
	defer requests.Close()
	progress := newProgress(env.Stderr)
	server, err := openmetrics.Listen(f.metrics)
	if err != nil {
		return err
	}
	defer server.Close()
	if server != nil {
		progress.Note("metrics at %s", server.URL())
	}
	running, err := load.Start(ctx, spec, func(s load.Summary) {
		progress.Say("%d of %.0f s  %.0f rps  p50 %s  p99 %s  failed %d", int(float64(s.StartNS+s.DurationNS)/1e9), spec.DurationS,
			float64(s.Answered)/(float64(s.DurationNS)/1e9), micros(s.P50NS/1e3), micros(s.P99NS/1e3), s.Failed)
	})
	if err != nil {
		return err
	}
	server.Serve(running.Live().Page)
	result, err := running.Result(context.Background()) // after ctx ends, what there is
	progress.Clear()
	if err != nil {
		return err
	}
	if log != nil {
		if err := result.WriteLog(log, 0, len(result.Intervals)); err != nil {
			return err
		}
		if err := log.Close(); err != nil {
			return fmt.Errorf("interval log: %w", err)
		}
	}
	if requests != nil {
		if err := result.Requests.Write(requests); err != nil {
			return err
		}
		if err := requests.Close(); err != nil {
			return fmt.Errorf("request log: %w", err)
		}
	}
	report := result.Report()
	err = env.print(f.json, report, loadText(result, report))
	switch {
	case err != nil:
		return err
	case report.Interrupted:
		return quiet(errs.CodeInterrupted)
	case !report.Valid:
		return quiet(errs.CodeInvalid)
	}
	return nil
}

// createLog creates the file that a flag names. It returns nil if the path is empty.
func createLog(flag, path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "%s takes the path of a file to write", flag)
	}
	return file, nil
}

// percentiles of the text output.
var percentiles = []float64{50, 75, 90, 95, 99, 99.9, 99.99}

// loadText is the report as text.
func loadText(result *load.Result, r load.Report) string {
	var b strings.Builder
	asked := "as fast as possible"
	if !r.Rate.IsMax() {
		asked = fmt.Sprintf("%s arrivals at %.6g rps", r.Arrival, r.Rate.RPS())
	}
	keep := ""
	if !r.KeepAlive {
		keep = ", a new one for each request"
	}
	fmt.Fprintf(&b, "%s  %s\n%s, %s%s, %.4g s, seed %d\n\n", r.URL, r.Protocol, asked, words.Plural(r.Connections, "connection"), keep, r.DurationS, r.Seed)

	w := result.Total()
	fmt.Fprintf(&b, "latency    intended        send\n")
	row := func(name string, intended, send float64) {
		fmt.Fprintf(&b, "%-8s %10s  %10s\n", name, micros(intended), micros(send))
	}
	row("min", r.Intended.Min, r.Send.Min)
	for _, p := range percentiles {
		// Skip high percentiles with fewer than three requests beyond them.
		if float64(r.Completed)*(1-p/100) < 3 && p > 90 {
			break
		}
		row(fmt.Sprintf("p%g", p), at(w.Intended, p), at(w.Send, p))
	}
	row("max", r.Intended.Max(), r.Send.Max())
	row("mean", r.Intended.Mean, r.Send.Mean)

	fmt.Fprintf(&b, "\nscheduled %d = completed %d + failed %d + unfinished %d\n", r.Scheduled, r.Completed, w.FailedTotal(), r.Unfinished)
	for _, kind := range slices.Sorted(maps.Keys(r.Failed)) {
		fmt.Fprintf(&b, "  failed: %d %s\n", r.Failed[kind], kind)
		for _, why := range r.Reasons[kind] {
			fmt.Fprintf(&b, "    %s\n", why)
		}
	}
	if r.Backlog > 0 {
		fmt.Fprintf(&b, "  at the end of the schedule: %d answered, %d due but unanswered\n", r.Answered, r.Backlog)
	}
	fmt.Fprintf(&b, "achieved  %.6g rps, at most %d in flight, %d bytes sent, %d read\n", r.AchievedRPS, r.MaxInFlight, r.BytesSent, r.BytesRead)
	if !r.Rate.IsMax() {
		fmt.Fprintf(&b, "own lag   p50 %s  p99 %s  max %s\n", micros(r.Lag.At(0.5)), micros(r.Lag.At(0.99)), micros(r.Lag.Max()))
		fmt.Fprintf(&b, "waited    p50 %s  p99 %s  max %s  for a free connection\n", micros(r.Wait.At(0.5)), micros(r.Wait.At(0.99)), micros(r.Wait.Max()))
	}
	if s := r.Schedule; s != nil {
		fmt.Fprintf(&b, "schedule  %s\n", scheduleText(s))
	}
	if r.Autocorrelation != nil {
		fmt.Fprintf(&b, "latencies of consecutive requests correlate by %.2f: equivalent to %.0f independent requests\n", *r.Autocorrelation, r.EffectiveRequests)
	}
	fmt.Fprintf(&b, "own CPU   %.3g s user, %.3g s system", r.CPU.User, r.CPU.System)
	if r.Answered > 0 {
		fmt.Fprintf(&b, ", %.3g us per request", r.CPU.Total()*1e6/float64(r.Answered))
	}
	b.WriteString("\n")
	if r.Valid {
		b.WriteString("valid     yes\n")
	} else {
		b.WriteString("valid     no\n")
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	return b.String()
}

// scheduleText describes how far a generator's own actions were from the requested arrivals.
func scheduleText(s *record.Schedule) string {
	text := fmt.Sprintf("%s, off by %.1f%% of the requested gap", words.Plural(s.Gaps, "gap"), s.Distance*100)
	if s.PValue != nil {
		text = fmt.Sprintf("%s, %.3f from exponential ones (p %.2g)", words.Plural(s.Gaps, "gap"), s.Distance, *s.PValue)
	}
	text += fmt.Sprintf("; %.2f%% of the requested rate", s.AchievedRatio*100)
	if s.AchievedError > 0 {
		text += fmt.Sprintf(" (±%.2f%% by chance)", s.AchievedError*100)
	}
	return text
}

// at returns a percentile in microseconds.
func at(h *hdrhistogram.Histogram, p float64) float64 {
	if h.TotalCount() == 0 {
		return 0
	}
	return float64(h.ValueAtPercentile(p)) / 1e3
}

// micros formats microseconds in the most readable unit.
func micros(us float64) string {
	switch {
	case us >= 1e6:
		return trimZeros(us/1e6) + " s"
	case us >= 1e3:
		return trimZeros(us/1e3) + " ms"
	}
	return trimZeros(us) + " us"
}

// trimZeros formats v with three significant digits.
func trimZeros(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	return fmt.Sprintf("%.*f", decimals, v)
}
