package app

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// Metrics from Prometheus that an assessment reads, besides those of istiod.
const (
	metricBuild    = "istio_build"
	metricClosed   = "istio_tcp_connections_closed_total"
	metricCPU      = "container_cpu_usage_seconds_total"
	metricMemory   = "container_memory_working_set_bytes"
	metricServices = "pilot_services" // of every istiod
	metricPodInfo  = "kube_pod_info"
)

const (
	// podLabels name the pod that a series is about. Istio's own scrape configuration wrote
	// kubernetes_* up to 1.12; exported_* is what a kubelet or kube-state-metrics says of another's pod
	// where Prometheus keeps its own labels.
	podLabels = "namespace, pod, exported_namespace, exported_pod, kubernetes_namespace, kubernetes_pod_name"
	// targetLabels tell apart who scraped the same process: jobs, ports and replicas of Prometheus.
	targetLabels = "job, instance, prometheus, prometheus_replica, replica"
)

// promRead reads what metrics of a Prometheus tell of a mesh.
type promRead struct {
	*meshRead
	source   signals.Source
	selector string        // matchers that all series must have
	window   time.Duration // of rates
	end      time.Time
	// sampled is when each metric of saved answers was sampled; nil for a server.
	sampled map[string]signals.Sampled
	has     map[string]bool
	podless map[string]bool // metrics of which some series do not name their pod
	err     error           // of the first query that failed; no further one is made, and their answers are empty
}

// podRef is a pod.
type podRef struct{ namespace, name string }

// leastWindow has two samples of targets that are scraped each minute.
const leastWindow = 2 * time.Minute

// askPrometheus queries a Prometheus server for the time of the watch.
func (r *meshRead) askPrometheus(ctx context.Context) error {
	if r.Prometheus == nil {
		return nil
	}
	r.Prometheus.Whole() // a part of the series would be a part of the requests
	p := &promRead{meshRead: r, source: r.Prometheus, selector: r.Matchers, window: max(r.Duration, leastWindow), end: r.PrometheusAt}
	if p.end.IsZero() {
		p.end = time.Now()
	}
	if r.e.WindowS == 0 {
		r.e.WindowS = p.window.Seconds()
	}
	return p.read(ctx)
}

// fromPrometheus reads a mesh whose API server cannot be asked, for a reason, from Prometheus alone.
func (o Assessment) fromPrometheus(ctx context.Context, reason error) (assess.Evidence, *generate.Inventory, error) {
	r := newMeshRead(o, "the mesh of "+o.Prometheus.String(), nil, nil)
	if !o.PrometheusAt.IsZero() {
		r.e.At = o.PrometheusAt
	}
	r.unknown(assess.NotRead.Of(reason))
	if err := r.askPrometheus(ctx); err != nil {
		return r.e, nil, err
	}
	if r.e.Limits == nil {
		r.unknown(assess.NotWatched.Of(reason))
	}
	r.e.Proxies = r.proxies
	return r.e, r.inv, nil
}

// read reads everything, and fills in what is unknown. An error is of the context alone.
func (p *promRead) read(ctx context.Context) error {
	p.readAll(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.err != nil:
		p.unknown(assess.NoPrometheus.Of(p.err))
	}
	return nil
}

func (p *promRead) readAll(ctx context.Context) {
	p.podless = map[string]bool{}
	names := []string{generate.MetricRequests, generate.MetricConnections, metricClosed, metricBuild, metricCPU, metricMemory, metricServices, metricPodInfo,
		metricRequestBytes + "_sum", metricResponseBytes + "_sum"}
	for _, name := range histograms {
		names = append(names, name, name+"_count")
	}
	p.has, p.err = p.source.Has(ctx, names, p.end.Add(-p.window), p.end)
	p.nativeAlone(slices.DeleteFunc(slices.Clone(histograms), func(name string) bool { return !p.has[name] || p.has[name+"_count"] }))
	if !p.oneCluster(ctx) {
		return
	}
	if p.history(ctx); p.err != nil {
		return
	}
	for _, metric := range []string{generate.MetricRequests, metricCPU, metricServices} {
		if !p.has[metric] && p.sampled == nil { // of files nobody expects all
			p.unknown(assess.NotScraped.Of(metric, p.window.Seconds()))
		}
	}
	for _, step := range []func(context.Context){p.list, p.usage, p.requests, p.calls, p.sizes, p.istiod} {
		if step(ctx); p.err != nil {
			return
		}
	}
}

// histograms are read in their classic form; a series with one of these names is a native histogram.
var histograms = append(signals.Histograms(), metricRequestBytes, metricResponseBytes)

// nativeAlone notes histograms that exist in the native form alone.
func (r *meshRead) nativeAlone(names []string) {
	if len(names) > 0 {
		r.unknown(assess.Native.Of(strings.Join(names[:min(len(names), maxListed)], ", ")))
	}
}

// instant makes a query, unless one has failed.
func (p *promRead) instant(ctx context.Context, end time.Time, format string, args ...any) (samples []signals.Sample) {
	if p.err == nil {
		samples, p.err = p.source.Instant(ctx, fmt.Sprintf(format, args...), end)
	}
	return samples
}

// count counts the series of a metric by labels, at its end.
func (p *promRead) count(ctx context.Context, metric, matchers, by string) []signals.Sample {
	if !p.has[metric] {
		return nil
	}
	_, end := p.over(metric)
	return p.instant(ctx, end, "count by (%s) (%s)", by, metric+p.braces(matchers))
}

// present returns the first of the metrics that there is, "" for none.
func (p *promRead) present(names ...string) string {
	if i := slices.IndexFunc(names, func(name string) bool { return p.has[name] }); i >= 0 {
		return names[i]
	}
	return ""
}

// mark selects a metric that shows whose series there are, and since when.
func (p *promRead) mark() string {
	switch name := p.present(generate.MetricRequests, metricServices); {
	case name != "":
		return name + p.braces("")
	case p.has[metricCPU]:
		return metricCPU + p.braces(`container="istio-proxy"`)
	}
	return ""
}

// windowSteps is how many steps of the window are looked at.
const windowSteps = 10

// history shortens the window to what a server has of it: a rate over more would be too low.
func (p *promRead) history(ctx context.Context) {
	mark := p.mark()
	if mark == "" || p.sampled != nil {
		return
	}
	from, step := p.end.Add(-p.window), p.window/windowSteps
	var began time.Time
	if began, p.err = beginning(ctx, p.source, mark, from, p.end, step); p.err != nil {
		return
	}
	if had := p.end.Sub(began); began.Sub(from) > 2*step && had > 0 {
		p.unknown(assess.ShortHistory.Of(had.Seconds(), p.window.Seconds()))
		p.window = had
	}
}

// braces joins matchers with the selector.
func (p *promRead) braces(matchers string) string {
	if p.selector != "" && matchers != "" {
		matchers += ","
	}
	if matchers += p.selector; matchers == "" {
		return ""
	}
	return "{" + matchers + "}"
}

// promWindow formats a window for PromQL.
func promWindow(d time.Duration) string {
	return fmt.Sprintf("%dms", max(d.Milliseconds(), 1000))
}

// over returns the window of a metric and its end.
func (p *promRead) over(metric string) (window time.Duration, end time.Time) {
	s, ok := p.sampled[metric]
	if !ok {
		return p.window, p.end
	}
	return s.Last.Sub(s.First) + time.Millisecond, s.Last // the first sample counts too
}

// rate returns rates of a counter, by labels. A process that is scraped several times counts once: what each scrape
// tells is added up, and the highest of a process counts.
func (p *promRead) rate(ctx context.Context, metric, matchers, by string) []signals.Sample {
	if !p.has[metric] || p.timesDiffer(metric) {
		return nil
	}
	window, end := p.over(metric)
	return p.summed(ctx, "rate(%s["+promWindow(window)+"])", metric, matchers, by, end)
}

// timesDiffer reports whether a rate over the whole time of saved answers would be too low for most series.
func (p *promRead) timesDiffer(metric string) bool {
	s, ok := p.sampled[metric]
	if ok = ok && s.Whole < 0.5; ok {
		p.once(assess.TimesDiffer.Of(metric))
	}
	return ok
}

// onePod gives series the labels own_namespace and own_pod of the pod that they are about, whichever labels name it.
func onePod(expr string) string {
	for _, of := range []string{"namespace", "pod"} {
		old := map[string]string{"namespace": "kubernetes_namespace", "pod": "kubernetes_pod_name"}[of]
		for _, label := range []string{old, of, "exported_" + of} { // the last that there is stands
			expr = fmt.Sprintf(`label_replace(%s, "own_%s", "$1", %q, "(.+)")`, expr, of, label)
		}
	}
	return expr
}

// summed adds up series of a metric by labels, with each process counted once.
func (p *promRead) summed(ctx context.Context, of, metric, matchers, by string, end time.Time) []signals.Sample {
	further, process := "", podLabels
	if by != "" && by != podLabels {
		further = ", " + by
	}
	scraped := fmt.Sprintf("sum by (%s, %s%s) (%s)", podLabels, targetLabels, further, fmt.Sprintf(of, metric+p.braces(matchers)))
	if by != podLabels {
		scraped, process = onePod(scraped), "own_namespace, own_pod"
	}
	if _, known := p.podless[metric]; !known {
		p.podless[metric] = len(p.instant(ctx, end, "count(%s)", metric+p.braces(`pod="",exported_pod="",kubernetes_pod_name=""`))) > 0
	}
	if p.podless[metric] { // then addresses tell processes apart
		process += ", instance"
	}
	return p.instant(ctx, end, "sum by (%s) (max by (%s%s) (%s))", by, process, further, scraped)
}

// once adds an unknown that is not there yet.
func (p *promRead) once(u assess.Unknown) {
	if !slices.ContainsFunc(p.e.Unknown, func(o assess.Unknown) bool {
		return o.What.Code == u.What.Code && slices.Equal(o.What.Args, u.What.Args)
	}) {
		p.unknown(u)
	}
}

// podOf returns the pod that a series is about.
func podOf(labels map[string]string) podRef {
	return podRef{cmp.Or(labels["exported_namespace"], labels["namespace"], labels["kubernetes_namespace"]),
		cmp.Or(labels["exported_pod"], labels["pod"], labels["kubernetes_pod_name"])}
}

// byPod returns rates of a counter by pod.
func (p *promRead) byPod(ctx context.Context, metric, matchers string) map[podRef]float64 {
	return valuesOf(p.rate(ctx, metric, matchers, podLabels))
}

func valuesOf(samples []signals.Sample) map[podRef]float64 {
	out := map[podRef]float64{}
	for _, s := range samples {
		if pod := podOf(s.Labels); pod.name != "" && finite(s.Value) {
			out[pod] = max(out[pod], s.Value) // of jobs that name it by different labels
		}
	}
	return out
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// readAnswers reads what saved answers of Prometheus tell.
func (r *filesRead) readAnswers(ctx context.Context) error {
	r.nativeAlone(r.answers.Native())
	if r.answers.Empty() {
		return nil
	}
	source, err := r.answers.Source("files with answers of Prometheus")
	if err != nil {
		return err
	}
	p := &promRead{meshRead: r.meshRead, source: source, sampled: r.answers.Sampled()}
	from := time.Time{}
	for _, s := range p.sampled {
		if from.IsZero() || s.First.Before(from) {
			from = s.First
		}
		if s.Last.After(p.end) {
			p.end = s.Last
		}
	}
	p.window = p.end.Sub(from) + time.Millisecond
	if p.e.WindowS == 0 {
		p.e.WindowS = p.window.Seconds()
	}
	return p.read(ctx)
}
