package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// CallSources are sources of who calls whom, beside the counters of proxies and the files of an
// assessment.
type CallSources struct {
	Domain string   // of the cluster's Services; "": cluster.local
	Logs   []string // access logs, NAMESPACE[/WORKLOAD]=FILE
	Open   OpenFile // opens them
	// Reach is how far back the queries reach whose answers are in files; 0: unknown.
	Reach time.Duration
	// Window is how far back a Prometheus server is asked.
	Window time.Duration
}

// callReading adds what sources say of who calls whom to observations.
type callReading struct {
	CallSources
	inv   *generate.Inventory
	obs   *generate.Observations
	notes []string
}

func (c *callReading) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// read reads the sources, and asks a server unless it is nil, in a mesh that has been read.
func (s CallSources) read(ctx context.Context, server *signals.Remote, inv *generate.Inventory, obs *generate.Observations) (notes []string, err error) {
	c := callReading{CallSources: s, inv: inv, obs: obs}
	var idle error
	for _, named := range s.Logs {
		err := c.accessLog(ctx, named)
		if errors.Is(err, generate.ErrNoRequests) {
			c.note("Nothing is known from %v.", err)
			idle, err = err, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if server != nil {
		if err := c.ask(ctx, server); err != nil {
			return nil, err
		}
	}
	if obs.Empty() {
		return c.notes, idle
	}
	return c.notes, nil
}

func (c *callReading) accessLog(ctx context.Context, named string) error {
	whose, name, found := strings.Cut(named, "=")
	namespace, workload, _ := strings.Cut(whose, "/")
	if !found || namespace == "" || name == "" {
		return errs.Usage("--access-log %q: want NAMESPACE=FILE or NAMESPACE/WORKLOAD=FILE", named)
	}
	return c.Open(ctx, name, func(r io.Reader) error {
		found, err := c.obs.ReadAccessLog(r, generate.Workload{Namespace: namespace, Name: workload}, func(pod string) generate.Workload {
			return c.inv.WorkloadOf(namespace, pod)
		}, c.inv.Knows)
		if n := int(found.Unknown); n > 0 {
			c.note("%s: ignored %s that are not in the mesh; clients may have made them up.", name, words.Plural(n, "host"))
		}
		if n := int(found.Unended); n > 0 && found.Failed+found.Unended == found.Requests {
			c.note("%s: no request is known to have succeeded (%s without a response code); if a filter drops the successful ones, calls are missing.", name, words.Plural(n, "line"))
		}
		if n := int(found.TooLong); n > 0 {
			c.note("%s: %s too long to read; what they call is not kept because of them.", name, words.Plural(n, "line"))
		}
		return err
	})
}

// maxAnswer limits the size of a file with an answer of Prometheus, in bytes.
const maxAnswer = 256 << 20

// answer reads a Prometheus response for istio_requests_total from a file.
func (c *callReading) answer(r io.Reader, name string) error {
	data, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(data) > maxAnswer {
		return errs.Usage("longer than %d MB", maxAnswer>>20)
	}
	samples, at, err := signals.ReadAnswer(data)
	if err != nil {
		return errs.WithHint(errs.WithCode(err, errs.CodeUsage), "get one with: curl -s 'http://PROMETHEUS/api/v1/query' --data-urlencode 'query=max_over_time(istio_requests_total[30d])', and give --metrics-window 720h")
	}
	var span generate.Span
	if c.Reach > 0 && !at.IsZero() {
		span = generate.At(at.Add(-c.Reach), at)
	}
	if to, only := onlyNamespace(samples); only {
		c.note("%s: all %d series lead to namespace %s: if the query selected that, calls to other namespaces are missing. Query without conditions.", name, len(samples), to)
	}
	return c.samples(samples, "", span)
}

// onlyNamespace returns the namespace to which all series lead, if there are several and they
// lead to just one. The query may have selected that namespace.
func onlyNamespace(samples []signals.Sample) (to string, only bool) {
	for i, s := range samples {
		namespace := s.Labels["destination_service_namespace"]
		if i > 0 && namespace != to {
			return "", false
		}
		to = namespace
	}
	return to, len(samples) > 1
}

// labelsOfCalls lists the labels that say who calls whom.
const labelsOfCalls = "reporter, source_workload, source_workload_namespace, destination_workload, destination_workload_namespace, " +
	"destination_service, destination_service_name, destination_service_namespace, request_protocol"

// samples adds series. Expressions drop the names of metrics, so the caller passes the name.
func (c *callReading) samples(samples []signals.Sample, metric string, at generate.Span) error {
	for i, s := range samples {
		name := cmp.Or(s.Name, metric)
		if name == "" && s.Labels["request_protocol"] == "tcp" {
			name = generate.MetricConnections
		}
		if _, has := s.Labels["source_workload"]; !has {
			return errs.WithHint(errs.Usage("result[%d]: the series has no label source_workload, so it is not istio_requests_total", i), "keep the labels: sum by (%s)", labelsOfCalls)
		}
		c.obs.AddMetric(name, s.Labels, s.Value, at)
	}
	return nil
}

// historySteps is the number of steps into which the window is divided to find the start of a
// server's series.
const historySteps = 240

// beginning returns the time of the first sample of series in a period, or its end if there is none.
func beginning(ctx context.Context, source signals.Source, series string, from, to time.Time, step time.Duration) (time.Time, error) {
	tracks, err := source.Range(ctx, "count("+series+")", from, to, step)
	for _, t := range tracks {
		if len(t.Points) > 0 {
			return time.UnixMilli(t.Points[0].MS), err
		}
	}
	return to, err
}

// ask queries a Prometheus server for every pair that had a request at any time within the
// window, even if counters were reset or have disappeared since.
func (c *callReading) ask(ctx context.Context, server *signals.Remote) error {
	server.Whole() // no partial answers: missing series would look like missing calls
	now := time.Now()
	// A server may keep less history than the query covers, and does not say so.
	from, step := now.Add(-c.Window), max(c.Window/historySteps, time.Minute)
	began, err := beginning(ctx, server, generate.MetricRequests, from, now, step)
	if err != nil {
		return err
	}
	if began.Sub(from) > 2*step {
		c.note("Prometheus has %s of the last %s only: calls before that are unknown.", generate.MetricRequests, now.Sub(began).Round(time.Minute))
		from = began
	}
	c.obs.Whole(generate.Metrics)
	for _, metric := range []string{generate.MetricRequests, generate.MetricConnections} {
		query := fmt.Sprintf("sum by (%s) (max_over_time(%s[%ds]))", labelsOfCalls, metric, int64(c.Window/time.Second))
		samples, err := server.Instant(ctx, query, now)
		if err == nil {
			err = c.samples(samples, metric, generate.At(from, now))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
