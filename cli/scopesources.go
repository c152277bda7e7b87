package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// costBases reads what memory and CPU are predicted from.
func costBases(ctx context.Context, env *Env, f generateFlags) (b generate.Bases, err error) {
	b.Mesh = f.mesh
	if f.model != "" {
		if b.Model, err = readModel(ctx, f.model); err != nil {
			return b, err
		}
	}
	if f.units == "" {
		return b, nil
	}
	run, err := loadRun(ctx, env, f.units)
	if err != nil {
		return b, err
	}
	findings, err := analyses.All().Analyze(run)
	b.Units = &findings
	return b, err
}

// maxMetrics bounds a file with an answer of Prometheus, bytes.
const maxMetrics = 256 << 20

func readMetrics(r io.Reader, name string, reach time.Duration, obs *generate.Observations) ([]string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxMetrics+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxMetrics {
		return nil, errs.Usage("longer than %d MB", maxMetrics>>20)
	}
	samples, at, err := signals.ReadAnswer(data)
	if err != nil {
		return nil, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "take one with: curl -s 'http://PROMETHEUS/api/v1/query' --data-urlencode 'query=max_over_time(istio_requests_total[30d])', and give --metrics-window 720h")
	}
	var span generate.Span
	if reach > 0 && !at.IsZero() {
		span = generate.Between(at.Add(-reach), at)
	}
	return narrowed(name, samples), addSamples(obs, samples, "", span)
}

// narrowed says that all series of an answer lead to one namespace, as those of a
// query that asks for that do.
func narrowed(name string, samples []signals.Sample) []string {
	to := map[string]bool{}
	for _, s := range samples {
		to[s.Labels["destination_service_namespace"]] = true
	}
	if len(to) != 1 || len(samples) == 1 {
		return nil
	}
	return []string{fmt.Sprintf("%s: all %d series lead to namespace %s: if the query asked for that, what workloads call elsewhere is not in it and is left out. Ask without conditions.",
		name, len(samples), samples[0].Labels["destination_service_namespace"])}
}

// addSamples adds series. An expression takes the names of metrics away: they
// are known to whoever asked.
func addSamples(obs *generate.Observations, samples []signals.Sample, metric string, at generate.Span) error {
	for i, s := range samples {
		name := s.Name
		if name == "" {
			name = metric
		}
		if name == "" && s.Labels["request_protocol"] == "tcp" {
			name = generate.MetricConnections
		}
		if _, has := s.Labels["source_workload"]; !has {
			return errs.WithHint(errs.Usage("result[%d]: the series has no label source_workload: it is not of istio_requests_total", i), "keep the labels: sum by (source_workload, source_workload_namespace, destination_workload, destination_workload_namespace, destination_service, destination_service_name, destination_service_namespace, reporter, request_protocol)")
		}
		if err := obs.AddMetric(name, s.Labels, s.Value, at); err != nil {
			return err
		}
	}
	return nil
}

// callersQuery is what Prometheus is asked: every pair that had a request at any
// time within the window, whatever became of the counters.
func callersQuery(metric string, window time.Duration) string {
	return fmt.Sprintf("sum by (reporter, source_workload, source_workload_namespace, destination_workload, destination_workload_namespace, destination_service, destination_service_name, destination_service_namespace, request_protocol) (max_over_time(%s[%ds]))",
		metric, int64(window/time.Second))
}

// historySteps are the steps in which the beginning of a server's series is looked
// for.
const historySteps = 240

func askPrometheus(ctx context.Context, f generateFlags, obs *generate.Observations) (notes []string, err error) {
	server, err := openPrometheus(f.prometheus, f.headers)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	server.Whole() // whom a store that did not answer knows of would count as calling nobody
	now := time.Now()
	// A server keeps less than it is asked for, and does not say so.
	from := now.Add(-f.window)
	step := max(f.window/historySteps, time.Minute)
	history, err := server.Range(ctx, "count("+generate.MetricRequests+")", from, now, step)
	if err != nil {
		return nil, err
	}
	began := now
	for _, track := range history {
		if len(track.Points) > 0 {
			began = time.UnixMilli(track.Points[0].MS)
		}
	}
	if late := began.Sub(from); late > 2*step {
		notes = append(notes, fmt.Sprintf("Prometheus has %s of the last %s only: what was before that is not known.", generate.MetricRequests, now.Sub(began).Round(time.Minute)))
		from = began
	}
	obs.Whole(generate.Metrics)
	for _, metric := range []string{generate.MetricRequests, generate.MetricConnections} {
		samples, err := server.Instant(ctx, callersQuery(metric, f.window), now)
		if err == nil {
			err = addSamples(obs, samples, metric, generate.Between(from, now))
		}
		if err != nil {
			return nil, err
		}
	}
	return notes, nil
}
