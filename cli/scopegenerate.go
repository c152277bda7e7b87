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
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/report"
)

// generateFlags are those of scope --generate.
type generateFlags struct {
	to                                              string
	inventory, logs, metrics, kiali, graphs, always []string
	prometheus                                      string
	headers                                         []string
	domain, root, revision                          string
	window, watched, reach                          time.Duration
	exception                                       float64
	units, model                                    string
	mesh                                            model.Mesh
}

// generateNames are the flags that only go with --generate.
var generateNames = []string{"inventory", "access-log", "istio-metrics", "metrics-window", "prometheus-url", "prometheus-header", "kiali", "graph", "always", "window", "watched", "exception", "cluster-domain", "root-namespace", "revision", "unit-costs", "model", "change-rate", "istiod-replicas", "istiod-cores"}

func (f *generateFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.to, "generate", "", "write Sidecars for what the workloads call to this `DIR`, or to standard output (-), with the report on standard error")
	flags.StringArrayVar(&f.inventory, "inventory", nil, "what is in the mesh, a `FILE` of kubectl get -o json: namespaces, pods, services, Istio's objects, ConfigMap istio (--lab lists them itself); may be repeated")
	flags.StringArrayVar(&f.logs, "access-log", nil, "sidecars' access log, `NAMESPACE[/WORKLOAD]=FILE`; lines may have the prefix of kubectl logs --prefix; may be repeated")
	flags.StringArrayVar(&f.metrics, "istio-metrics", nil, "answer of Prometheus to a query of istio_requests_total, a `FILE`; may be repeated")
	flags.DurationVar(&f.reach, "metrics-window", 0, "how far back the query of --istio-metrics looked, such as 720h; of several the shortest. Without it nothing is narrowed that they alone watch")
	flags.StringVar(&f.prometheus, "prometheus-url", "", "ask the Prometheus server at this `URL` who called whom within --window")
	flags.StringArrayVar(&f.headers, "prometheus-header", nil, "send this header to the Prometheus server, `\"Name: value\"`; may be repeated")
	flags.StringArrayVar(&f.kiali, "kiali", nil, "graph of Kiali as JSON, a `FILE`; may be repeated")
	flags.StringArrayVar(&f.graphs, "graph", nil, "declared service graph, `NAMESPACE=FILE` (isotope); may be repeated")
	flags.StringArrayVar(&f.always, "always", nil, "egress `host` (namespace/name) that every Sidecar has, such as istio-system/*; may be repeated")
	flags.DurationVar(&f.window, "window", generate.DefaultWindow, "how long before the newest observation a call still counts")
	flags.DurationVar(&f.watched, "watched", generate.DefaultWatched, "narrow no workload that was watched for less than this")
	flags.Float64Var(&f.exception, "exception", 100*generate.DefaultException, "give a workload a Sidecar of its own where going without would lose more than this `percent` of its saving")
	f.mesh = model.Default()
	flags.StringVar(&f.units, "unit-costs", "", "predict the sidecars' memory and CPU by what a cluster cost in this `RUN` of sidecar-size")
	flags.StringVar(&f.model, "model", "", "predict istiod's memory and CPU by this model, a `FILE` that capacity fit wrote")
	flags.Float64Var(&f.mesh.Rate, "change-rate", 0, "with --model: changes of configuration and endpoints per second")
	flags.IntVar(&f.mesh.Replicas, "istiod-replicas", f.mesh.Replicas, "with --model: replicas of istiod")
	flags.Float64Var(&f.mesh.Cores, "istiod-cores", f.mesh.Cores, "with --model: CPUs of each istiod")
	flags.StringVar(&f.domain, "cluster-domain", "cluster.local", "`domain` of the cluster's Services")
	addRevisionFlag(flags, &f.revision)
	flags.StringVar(&f.root, "root-namespace", "istio-system", "`namespace` of the mesh's configuration, unless its ConfigMap names another")
}

func (f *generateFlags) options() (generate.Options, error) {
	o := generate.Options{Window: f.window, Watched: f.watched, Exception: f.exception / 100, Now: time.Now()}
	switch {
	case f.window < time.Minute:
		return o, errs.Usage("--window %s: must be at least 1m", f.window)
	case f.reach < 0:
		return o, errs.Usage("--metrics-window must not be negative")
	case f.reach != 0 && len(f.metrics) == 0:
		return o, errs.Usage("--metrics-window requires --istio-metrics")
	case f.watched < 0:
		return o, errs.Usage("--watched must not be negative")
	case !(f.exception >= 0 && f.exception <= 100):
		return o, errs.Usage("--exception %g: must be 0 to 100 percent", f.exception)
	case f.model != "" && f.mesh.Rate <= 0:
		return o, errs.WithHint(errs.Usage("--model requires --change-rate: what istiod does follows how often something changes"), "the rate of pilot_xds_pushes{type=\"cds\"} over the number of proxies is near it")
	case f.model == "" && f.mesh.Rate != 0:
		return o, errs.Usage("--change-rate requires --model")
	case len(f.headers) > 0 && f.prometheus == "":
		return o, errs.Usage("--prometheus-header requires --prometheus-url")
	}
	for _, host := range f.always {
		namespace, name, found := strings.Cut(host, "/")
		if !found || namespace == "" || name == "" || strings.Contains(name, "/") || strings.HasPrefix(namespace, "~") {
			return o, errs.WithHint(errs.Usage("--always %q is no egress host", host), "write namespace/name, such as istio-system/* or tracing/zipkin.tracing.svc.cluster.local")
		}
		o.Always = append(o.Always, host)
	}
	return o, nil
}

// runGenerate makes Sidecars of all sources that are named.
func runGenerate(ctx context.Context, env *Env, f scopeFlags) error {
	text, err := textOptions(env.Stdout, f.color, f.width)
	if err != nil {
		return err
	}
	if f.generate.to == "-" {
		if text, err = textOptions(env.Stderr, f.color, f.width); err != nil {
			return err
		}
	}
	o, err := f.generate.options()
	if err != nil {
		return err
	}
	if f.namespace != "" {
		o.Only = []string{f.namespace}
	}
	inv, obs := generate.NewInventory(), generate.NewObservations()
	inv.Domain, inv.Root = f.generate.domain, f.generate.root
	var notes []string
	for _, name := range f.generate.inventory {
		if err := withFile(ctx, env, name, func(r io.Reader) error { return inv.Read(r, "") }); err != nil {
			return err
		}
	}
	if f.lab != "" {
		if notes, err = labInventory(ctx, f, inv); err != nil {
			return err
		}
	}
	scale := generate.NewScale(inv)
	more, err := takeProxies(ctx, env, f, scope.Options{}, func(p scope.Proxy) error {
		inv.AddProxy(p)
		scale.Add(p)
		return addCounters(inv, obs, p)
	})
	if err != nil {
		return err
	}
	notes = append(notes, more...)
	logs, err := observations(ctx, env, f, inv, obs)
	if err != nil {
		return err
	}
	bases, err := costBases(ctx, env, f.generate)
	if err != nil {
		return err
	}
	result, err := generate.Generate(inv, obs, scale.Accounts(), o)
	if err != nil {
		return err
	}
	if err := result.Saving.Costs(bases); err != nil {
		return err
	}
	for _, text := range slices.Concat(logs, notes) {
		result.Notes = append(result.Notes, generate.Note{Code: generate.NoteSource, Text: text})
	}
	if f.applied.apply {
		if err := f.applied.complete(inv); err != nil {
			return err
		}
	}
	return writeGenerated(ctx, env, f, result, text)
}

// takeProxies passes each proxy that is named to take, with what it called. Those of a lab, which
// may be thousands, are not held.
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
		err = take(proxies[i])
	}
	return nil, err
}

// addCounters adds the counters of a proxy, if they were read.
func addCounters(inv *generate.Inventory, obs *generate.Observations, p scope.Proxy) error {
	if p.Calls == nil || p.Node == nil {
		return nil
	}
	w := generate.Workload{Namespace: p.Node.Namespace, Name: p.Node.Workload}
	if pod, found := strings.CutPrefix(p.Name, w.Namespace+"/"); found && inv.Has("Pod") {
		w = inv.WorkloadOf(w.Namespace, pod)
	}
	return obs.AddCounters(w, p.Calls)
}

// observations reads all other sources of who calls whom. Its notes say what could not be read.
func observations(ctx context.Context, env *Env, f scopeFlags, inv *generate.Inventory, obs *generate.Observations) ([]string, error) {
	var notes []string
	var idle error
	for _, named := range f.generate.logs {
		note, err := readAccessLog(ctx, env, named, inv, obs)
		if none := (*generate.NoRequestsError)(nil); errors.As(err, &none) {
			idle, note, err = err, append(note, fmt.Sprintf("Nothing is known from %v.", err)), nil
		}
		if err != nil {
			return nil, err
		}
		notes = append(notes, note...)
	}
	for _, name := range f.generate.metrics {
		err := withFile(ctx, env, name, func(r io.Reader) error {
			note, err := readMetrics(r, name, f.generate.reach, obs)
			notes = append(notes, note...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if f.generate.prometheus != "" {
		note, err := askPrometheus(ctx, f.generate, obs)
		if err != nil {
			return nil, err
		}
		notes = append(notes, note...)
	}
	for _, name := range f.generate.kiali {
		err := withFile(ctx, env, name, func(r io.Reader) error { return obs.ReadKiali(r, inv.Domain) })
		if err != nil {
			return nil, err
		}
	}
	for _, named := range f.generate.graphs {
		namespace, name, found := strings.Cut(named, "=")
		if !found || namespace == "" || name == "" {
			return nil, errs.Usage("--graph %q: want NAMESPACE=FILE", named)
		}
		data, err := readInput(ctx, name, graph.MaxFile)
		if err != nil {
			return nil, err
		}
		read, err := graph.ReadIsotope(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := obs.AddGraph(read.Graph, namespace, inv.Domain); err != nil {
			return nil, err
		}
	}
	if idle != nil && obs.Empty() {
		return nil, idle
	}
	return notes, nil
}

func readAccessLog(ctx context.Context, env *Env, named string, inv *generate.Inventory, obs *generate.Observations) (notes []string, err error) {
	whose, name, found := strings.Cut(named, "=")
	namespace, workload, _ := strings.Cut(whose, "/")
	if !found || namespace == "" || name == "" {
		return nil, errs.Usage("--access-log %q: want NAMESPACE=FILE or NAMESPACE/WORKLOAD=FILE", named)
	}
	err = withFile(ctx, env, name, func(r io.Reader) error {
		found, err := obs.ReadAccessLog(r, generate.Workload{Namespace: namespace, Name: workload}, func(pod string) generate.Workload {
			return inv.WorkloadOf(namespace, pod)
		}, inv.Knows)
		if found.Odd > 0 {
			notes = append(notes, fmt.Sprintf("%s: %s not in Istio's own format, the first is line %d; of the hosts in them those are kept that the mesh knows.", name, words.Plural(int(found.Odd), "line"), found.FirstOdd))
		}
		if found.Unknown > 0 && found.Failed+found.Unknown == found.Requests {
			notes = append(notes, fmt.Sprintf("%s: no request is known to have succeeded (%s without a response code); if a filter leaves out those that did, calls are missing.", name, words.Plural(int(found.Unknown), "line")))
		}
		if found.TooLong > 0 {
			notes = append(notes, fmt.Sprintf("%s: %s too long to read, the first is line %d; what they call is not kept because of them.", name, words.Plural(int(found.TooLong), "line"), found.FirstLong))
		}
		return err
	})
	return notes, err
}

// Files of a folder.
const (
	fileSidecars = "sidecars.yaml"
	fileDiff     = "sidecars.diff"
	fileReport   = "report.json"
)

// safeName matches the names of objects that are written out.
var safeName = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

func writeGenerated(ctx context.Context, env *Env, f scopeFlags, r generate.Result, text report.Options) error {
	for _, s := range r.Sidecars {
		if !safeName.MatchString(s.String()) {
			return errs.Usage("a Sidecar would be called %.100q, which is no name of an object", s)
		}
	}
	if f.generate.to == "-" {
		if _, err := io.WriteString(env.Stdout, r.Manifests()); err != nil {
			return err
		}
		return presentGenerated(ctx, env, env.Stderr, f, r, text)
	}
	if err := os.MkdirAll(f.generate.to, 0o755); err != nil {
		return errs.WithCode(err, errs.CodeUsage)
	}
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	for _, file := range []struct{ name, text string }{{fileSidecars, r.Manifests()}, {fileDiff, r.Diff()}, {fileReport, string(document) + "\n"}} {
		if err := os.WriteFile(filepath.Join(f.generate.to, file.name), []byte(file.text), 0o644); err != nil {
			return errs.WithCode(err, errs.CodeUsage)
		}
	}
	return presentGenerated(ctx, env, env.Stdout, f, r, text)
}

// presentGenerated shows the report, and applies what was generated if --apply asks for it.
func presentGenerated(ctx context.Context, env *Env, to io.Writer, f scopeFlags, r generate.Result, text report.Options) error {
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
	_, err := fmt.Fprintf(to, "\nTo apply: kubectl apply -f %s (or --apply, which records it and can take it back)\nWhat that changes: %s\n", filepath.Join(f.generate.to, fileSidecars), filepath.Join(f.generate.to, fileDiff))
	return err
}

// check rejects flags that do not go together.
func (f *generateFlags) check(s scopeFlags, changed func(string) bool) error {
	for _, name := range []string{"yes", "wait"} {
		if changed(name) && !s.applied.apply {
			return errs.Usage("--%s requires --apply", name)
		}
	}
	if s.applied.apply && s.lab == "" {
		return errs.WithHint(errs.Usage("--apply requires --lab"), "it applies to the cluster that it has read: --lab cluster")
	}
	if f.to == "" {
		for _, name := range append([]string{"apply"}, generateNames...) {
			if changed(name) {
				return errs.Usage("--%s requires --generate", name)
			}
		}
		return nil
	}
	calls := len(s.clusters) > 0 || s.lab != "" || len(f.logs)+len(f.metrics)+len(f.kiali)+len(f.graphs) > 0 || f.prometheus != ""
	switch {
	case !calls:
		return errs.WithHint(errs.Usage("--generate needs to know who calls whom"), "give --lab, --dump with --clusters, --access-log, --istio-metrics, --prometheus-url, --kiali or --graph")
	case f.revision != "" && s.lab == "":
		return errs.WithHint(errs.Usage("--revision requires --lab"), "a file of the revision's ConfigMap is named with --inventory")
	case s.csv:
		return errs.Usage("--csv does not go with --generate")
	}
	return nil
}
