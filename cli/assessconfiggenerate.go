package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/report"
)

// generateFlags holds the flags of scope --generate.
type generateFlags struct {
	to                                              string
	inventory, logs, metrics, kiali, graphs, always []string
	prometheus                                      string
	headers                                         []string
	domain, root, revision                          string
	window, watched, reach                          time.Duration
}

// generateNames lists the flags that require --generate.
var generateNames = []string{"inventory", "access-log", "istio-metrics", "metrics-window", "prometheus-url", "prometheus-header",
	"kiali", "graph", "always", "window", "watched", "cluster-domain", "root-namespace", "revision", "apply"}

func (f *generateFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.to, "generate", "", "write Sidecars based on what workloads call to this `DIR`, or to standard output (-), with the report on standard error")
	flags.StringArrayVar(&f.inventory, "inventory", nil, "`FILE` with the mesh's objects from kubectl get -o json: namespaces, pods, services, Istio's objects, ConfigMap istio (not needed with --lab); may be repeated")
	flags.StringArrayVar(&f.logs, "access-log", nil, "sidecars' access log, `NAMESPACE[/WORKLOAD]=FILE`; lines may be prefixed by kubectl logs --prefix; may be repeated")
	flags.StringArrayVar(&f.metrics, "istio-metrics", nil, "`FILE` with a Prometheus response for istio_requests_total; may be repeated")
	flags.DurationVar(&f.reach, "metrics-window", 0, "look-back of the --istio-metrics query, such as 720h (the shortest, if several). Without it, workloads seen only there are not narrowed")
	flags.StringVar(&f.prometheus, "prometheus-url", "", "query the Prometheus server at this `URL` for calls within --window")
	flags.StringArrayVar(&f.headers, "prometheus-header", nil, "send this header to the Prometheus server, `\"Name: value\"`; may be repeated")
	flags.StringArrayVar(&f.kiali, "kiali", nil, "`FILE` with a graph from Kiali, JSON; may be repeated")
	flags.StringArrayVar(&f.graphs, "graph", nil, "declared service graph, `NAMESPACE=FILE` (isotope); may be repeated")
	flags.StringArrayVar(&f.always, "always", nil, "egress `host` (namespace/name) to include in every Sidecar, such as istio-system/*; may be repeated")
	flags.DurationVar(&f.window, "window", generate.DefaultWindow, "count calls up to this long before the newest observation")
	flags.DurationVar(&f.watched, "watched", generate.DefaultWatched, "do not narrow workloads observed for less than this")
	flags.StringVar(&f.domain, "cluster-domain", "cluster.local", "`domain` of the cluster's Services")
	addRevisionFlag(flags, &f.revision)
	flags.StringVar(&f.root, "root-namespace", "istio-system", "`namespace` of the mesh's configuration, unless its ConfigMap names another")
}

// check returns an error for flags that do not go together.
func (f *generateFlags) check(s scopeFlags, changed func(string) bool) error {
	for _, name := range []string{"yes", "wait"} {
		if changed(name) && !s.applied.apply {
			return errs.Usage("--%s requires --apply", name)
		}
	}
	if f.to == "" {
		for _, name := range generateNames {
			if changed(name) {
				return errs.Usage("--%s requires --generate", name)
			}
		}
		return nil
	}
	switch {
	case s.applied.apply && s.lab == "":
		return errs.WithHint(errs.Usage("--apply requires --lab"), "it applies to the cluster that was read: --lab cluster")
	case len(s.clusters) == 0 && s.lab == "" && len(f.logs)+len(f.metrics)+len(f.kiali)+len(f.graphs) == 0 && f.prometheus == "":
		return errs.WithHint(errs.Usage("--generate requires a source of observed calls"), "give --lab, --dump with --clusters, --access-log, --istio-metrics, --prometheus-url, --kiali or --graph")
	case f.revision != "" && s.lab == "":
		return errs.WithHint(errs.Usage("--revision requires --lab"), "without a lab, give the revision's ConfigMap as a file with --inventory")
	case f.window < time.Minute:
		return errs.Usage("--window %s: must be at least 1m", f.window)
	case f.reach < 0 || f.watched < 0:
		return errs.Usage("--metrics-window and --watched must not be negative")
	case f.reach != 0 && len(f.metrics) == 0:
		return errs.Usage("--metrics-window requires --istio-metrics")
	case len(f.headers) > 0 && f.prometheus == "":
		return errs.Usage("--prometheus-header requires --prometheus-url")
	}
	for _, host := range f.always {
		namespace, name, _ := strings.Cut(host, "/")
		if namespace == "" || name == "" || strings.Contains(name, "/") || strings.HasPrefix(namespace, "~") {
			return errs.WithHint(errs.Usage("invalid egress host --always %q", host), "write namespace/name, such as istio-system/* or tracing/zipkin.tracing.svc.cluster.local")
		}
	}
	return nil
}

// observed is the input that --generate reads.
type observed struct {
	inv   *generate.Inventory
	obs   *generate.Observations
	scale *generate.Scale
	notes []string
}

func (o *observed) note(format string, args ...any) {
	o.notes = append(o.notes, fmt.Sprintf(format, args...))
}

// runGenerate generates Sidecars from all the named sources.
func runGenerate(ctx context.Context, env *Env, f scopeFlags) error {
	to := env.Stdout
	if f.generate.to == "-" {
		to = env.Stderr
	}
	text, err := textOptions(to, f.color, f.width)
	if err != nil {
		return err
	}
	o := observed{inv: generate.NewInventory(), obs: generate.NewObservations()}
	o.inv.Domain, o.inv.Root = f.generate.domain, f.generate.root
	o.scale = generate.NewScale(o.inv)
	for _, name := range f.generate.inventory {
		if err := withFile(ctx, env, name, func(r io.Reader) error { return o.inv.Read(r, "") }); err != nil {
			return err
		}
	}
	if f.lab != "" {
		if o.notes, err = labInventory(ctx, f, o.inv); err != nil {
			return err
		}
	}
	more, err := takeProxies(ctx, env, f, scope.Options{}, func(p scope.Proxy) error {
		o.proxy(p)
		return nil
	})
	if err != nil {
		return err
	}
	o.notes = append(o.notes, more...)
	if err := o.read(ctx, env, f.generate); err != nil {
		return err
	}
	options := generate.Options{Window: f.generate.window, Watched: f.generate.watched, Always: f.generate.always, Now: time.Now()}
	if f.namespace != "" {
		options.Only = []string{f.namespace}
	}
	var result generate.Result
	var files generatedFiles
	if err := computing(ctx, func() (err error) {
		if result, err = generate.Generate(o.inv, o.obs, o.scale.Accounts(), options); err == nil {
			files.sidecars = result.Manifests()
			if f.generate.to != "-" {
				files.diff = result.Diff()
			}
		}
		return err
	}); err != nil {
		return err
	}
	result.Notes = append(result.Notes, o.notes...)
	if f.applied.apply {
		if err := f.applied.complete(o.inv); err != nil {
			return err
		}
	}
	return writeGenerated(ctx, env, to, f, result, files, text)
}

// takeProxies passes each selected proxy to take, with what the proxy called. It does not hold
// the proxies of a lab in memory, since there may be thousands.
func takeProxies(ctx context.Context, env *Env, f scopeFlags, o scope.Options, take func(scope.Proxy) error) (notes []string, err error) {
	var proxies []scope.Proxy
	switch {
	case f.lab != "":
		f.stats = f.stats || f.generate.to != ""
		return labProxies(ctx, env, f, o, take)
	case f.run != "":
		proxies, err = runProxies(ctx, f, o)
	default:
		proxies, err = fileProxies(ctx, env, f, o)
	}
	for i := 0; err == nil && i < len(proxies); i++ {
		if err = ctx.Err(); err == nil {
			err = take(proxies[i])
		}
	}
	return nil, err
}

// proxy adds the configuration of a proxy and, if they were read, its counters.
func (o *observed) proxy(p scope.Proxy) {
	o.inv.AddProxy(p)
	o.scale.Add(p)
	if p.Calls == nil || p.Node == nil {
		return
	}
	w := generate.Workload{Namespace: p.Node.Namespace, Name: p.Node.Workload}
	if pod, found := strings.CutPrefix(p.Name, w.Namespace+"/"); found && o.inv.Has("Pod") {
		w = o.inv.WorkloadOf(w.Namespace, pod)
	}
	o.obs.AddCounters(w, p.Calls)
}

// read reads all other sources of who calls whom.
func (o *observed) read(ctx context.Context, env *Env, f generateFlags) error {
	var idle error
	for _, named := range f.logs {
		err := o.accessLog(ctx, env, named)
		if errors.Is(err, generate.ErrNoRequests) {
			o.note("Nothing is known from %v.", err)
			idle, err = err, nil
		}
		if err != nil {
			return err
		}
	}
	for _, name := range f.metrics {
		if err := withFile(ctx, env, name, func(r io.Reader) error { return o.metrics(r, name, f.reach) }); err != nil {
			return err
		}
	}
	if f.prometheus != "" {
		if err := o.ask(ctx, f); err != nil {
			return err
		}
	}
	for _, name := range f.kiali {
		if err := withFile(ctx, env, name, func(r io.Reader) error { return o.obs.ReadKiali(r, o.inv.Domain) }); err != nil {
			return err
		}
	}
	for _, named := range f.graphs {
		namespace, name, found := strings.Cut(named, "=")
		if !found || namespace == "" || name == "" {
			return errs.Usage("--graph %q: want NAMESPACE=FILE", named)
		}
		data, err := readInput(ctx, name, graph.MaxFile)
		if err != nil {
			return err
		}
		read, err := graph.ReadIsotope(data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		o.obs.AddGraph(read.Graph, namespace, o.inv.Domain)
	}
	if o.obs.Empty() {
		return idle
	}
	return nil
}

func (o *observed) accessLog(ctx context.Context, env *Env, named string) error {
	whose, name, found := strings.Cut(named, "=")
	namespace, workload, _ := strings.Cut(whose, "/")
	if !found || namespace == "" || name == "" {
		return errs.Usage("--access-log %q: want NAMESPACE=FILE or NAMESPACE/WORKLOAD=FILE", named)
	}
	return withFile(ctx, env, name, func(r io.Reader) error {
		found, err := o.obs.ReadAccessLog(r, generate.Workload{Namespace: namespace, Name: workload}, func(pod string) generate.Workload {
			return o.inv.WorkloadOf(namespace, pod)
		}, o.inv.Knows)
		if n := int(found.Unknown); n > 0 {
			o.note("%s: ignored %s that are not in the mesh; clients may have made them up.", name, words.Plural(n, "host"))
		}
		if n := int(found.Unended); n > 0 && found.Failed+found.Unended == found.Requests {
			o.note("%s: no request is known to have succeeded (%s without a response code); if a filter drops the successful ones, calls are missing.", name, words.Plural(n, "line"))
		}
		if n := int(found.TooLong); n > 0 {
			o.note("%s: %s too long to read; what they call is not kept because of them.", name, words.Plural(n, "line"))
		}
		return err
	})
}

// maxMetrics limits the size of a file with an answer of Prometheus, in bytes.
const maxMetrics = 256 << 20

func (o *observed) metrics(r io.Reader, name string, reach time.Duration) error {
	data, err := io.ReadAll(io.LimitReader(r, maxMetrics+1))
	if err != nil {
		return err
	}
	if len(data) > maxMetrics {
		return errs.Usage("longer than %d MB", maxMetrics>>20)
	}
	samples, at, err := signals.ReadAnswer(data)
	if err != nil {
		return errs.WithHint(errs.WithCode(err, errs.CodeUsage), "get one with: curl -s 'http://PROMETHEUS/api/v1/query' --data-urlencode 'query=max_over_time(istio_requests_total[30d])', and give --metrics-window 720h")
	}
	var span generate.Span
	if reach > 0 && !at.IsZero() {
		span = generate.At(at.Add(-reach), at)
	}
	if to, only := onlyNamespace(samples); only {
		o.note("%s: all %d series lead to namespace %s: if the query selected that, calls to other namespaces are missing. Query without conditions.", name, len(samples), to)
	}
	return o.samples(samples, "", span)
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
func (o *observed) samples(samples []signals.Sample, metric string, at generate.Span) error {
	for i, s := range samples {
		name := s.Name
		if name == "" {
			name = metric
		}
		if name == "" && s.Labels["request_protocol"] == "tcp" {
			name = generate.MetricConnections
		}
		if _, has := s.Labels["source_workload"]; !has {
			return errs.WithHint(errs.Usage("result[%d]: the series has no label source_workload, so it is not istio_requests_total", i), "keep the labels: sum by (%s)", labelsOfCalls)
		}
		o.obs.AddMetric(name, s.Labels, s.Value, at)
	}
	return nil
}

// historySteps is the number of steps into which the window is divided to find the start of a
// server's series.
const historySteps = 240

// ask queries a Prometheus server for every pair that had a request at any time within the
// window, even if counters were reset or have disappeared since.
func (o *observed) ask(ctx context.Context, f generateFlags) error {
	server, err := openPrometheus(f.prometheus, f.headers)
	if err != nil {
		return err
	}
	defer server.Close()
	server.Whole() // no partial answers: missing series would look like missing calls
	now := time.Now()
	// A server may keep less history than the query covers, and does not say so.
	from, step := now.Add(-f.window), max(f.window/historySteps, time.Minute)
	history, err := server.Range(ctx, "count("+generate.MetricRequests+")", from, now, step)
	if err != nil {
		return err
	}
	began := now
	for _, track := range history {
		if len(track.Points) > 0 {
			began = time.UnixMilli(track.Points[0].MS)
		}
	}
	if began.Sub(from) > 2*step {
		o.note("Prometheus has %s of the last %s only: calls before that are unknown.", generate.MetricRequests, now.Sub(began).Round(time.Minute))
		from = began
	}
	o.obs.Whole(generate.Metrics)
	for _, metric := range []string{generate.MetricRequests, generate.MetricConnections} {
		query := fmt.Sprintf("sum by (%s) (max_over_time(%s[%ds]))", labelsOfCalls, metric, int64(f.window/time.Second))
		samples, err := server.Instant(ctx, query, now)
		if err == nil {
			err = o.samples(samples, metric, generate.At(from, now))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Files in the output folder.
const (
	fileSidecars = "sidecars.yaml"
	fileDiff     = "sidecars.diff"
	fileReport   = "report.json"
)

// generatedFiles holds the texts made from a result. For a large mesh, making them takes a while.
type generatedFiles struct{ sidecars, diff string }

// safeName matches the object names that may be written.
var safeName = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

// writeGenerated writes the Sidecars, writes the report to the stream to, and applies the Sidecars if
// --apply is given.
func writeGenerated(ctx context.Context, env *Env, to io.Writer, f scopeFlags, r generate.Result, files generatedFiles, text report.Options) error {
	for _, s := range r.Sidecars {
		if !safeName.MatchString(s.String()) {
			return errs.Usage("a Sidecar would be called %.100q, which is not a valid object name", s)
		}
	}
	if f.generate.to == "-" {
		if _, err := io.WriteString(env.Stdout, files.sidecars); err != nil {
			return err
		}
	} else {
		document, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(f.generate.to, 0o755); err != nil {
			return errs.WithCode(err, errs.CodeUsage)
		}
		for name, text := range map[string]string{fileSidecars: files.sidecars, fileDiff: files.diff, fileReport: string(document) + "\n"} {
			if err := os.WriteFile(filepath.Join(f.generate.to, name), []byte(text), 0o644); err != nil {
				return errs.WithCode(err, errs.CodeUsage)
			}
		}
	}
	if !f.json {
		if err := report.RenderSidecars(to, r, f.top, text); err != nil {
			return err
		}
	}
	var as *appliedAs
	if f.applied.apply {
		var err error
		if as, err = applyGenerated(ctx, env, f, r); err != nil {
			return err
		}
	}
	switch {
	case f.json:
		return writeJSON(to, applied{r, as})
	case f.applied.apply:
		return as.write(to)
	case f.generate.to == "-":
		return nil
	}
	_, err := fmt.Fprintf(to, "\nTo apply: kubectl apply -f %s (or --apply, which records the changes and can revert them)\nThe changes: %s\n", filepath.Join(f.generate.to, fileSidecars), filepath.Join(f.generate.to, fileDiff))
	return err
}
