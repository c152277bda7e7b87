package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/store"
)

type configFlags struct {
	sourceFlags
	namespace, selector string
	to                  string // where Sidecars are written; "": they are not made
	calls               app.CallSources
	prometheus          prometheusFlags
	scopes              generate.Options
	applied             applyFlags
	top                 int
	printFlags
}

func newConfigCommand(env *Env) *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use:   "config [RUN | --from FILE...] [--generate DIR]",
		Short: "Show who owns the proxies' configuration, and generate Sidecars that narrow it",
		Long: "Count every byte of the proxies' configuration once: by proxy, by type, and by the\n" +
			"Service, VirtualService, DestinationRule, ServiceEntry... that caused it; and what of it the\n" +
			"proxies have never called. Read the proxies of a running mesh, files, or what a run recorded.\n\n" +
			"--generate writes Sidecars for what workloads call, by the proxies' counters, access logs,\n" +
			"Prometheus and Kiali, with a diff against existing ones and a report of what is not covered.\n" +
			"They are applied only with --apply; then they stay, and are recorded so that\n" +
			"`meshtrial cluster restore --run RUN` can remove them.",
		Example: "  meshtrial assess config --lab cluster --namespace shop\n" +
			"  meshtrial assess config --from sidecar.json clusters.json\n" +
			"  meshtrial xds record --address 10.96.0.20:15010 --namespace shop --out shop.xds.gz && meshtrial assess config --from shop.xds.gz\n" +
			"  meshtrial assess config --lab cluster --prometheus-url http://localhost:9090 --generate sidecars --apply",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			run, err := f.check(changed, args)
			if err == nil {
				err = f.checkGenerate(changed, run)
			}
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), env, run)
		},
	}
	flags := cmd.Flags()
	f.sourceFlags.register(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the pods (default: all)")
	flags.StringVarP(&f.selector, "selector", "l", "", "label selector of the pods, such as app=catalog")
	flags.IntVar(&f.top, "top", 20, "number of entries per list; 0 for all that are kept")
	flags.StringVar(&f.to, "generate", "", "write Sidecars based on what workloads call to this `DIR`, or to standard output (-), with the report on standard error")
	flags.StringArrayVar(&f.calls.Logs, "access-log", nil, "sidecars' access log, `NAMESPACE[/WORKLOAD]=FILE`; lines may be prefixed by kubectl logs --prefix; may be repeated")
	flags.DurationVar(&f.calls.Reach, "metrics-window", 0, "look-back of the queries whose Prometheus responses are in --from, such as 720h (the shortest, if several). Without it, workloads seen only there are not narrowed")
	f.prometheus.register(flags, "query the Prometheus server at this `URL` for calls within --window", "")
	flags.StringArrayVar(&f.scopes.Always, "always", nil, "egress `host` (namespace/name) to include in every Sidecar, such as istio-system/*; may be repeated")
	flags.DurationVar(&f.scopes.Window, "window", generate.DefaultWindow, "count calls up to this long before the newest observation")
	flags.DurationVar(&f.scopes.Watched, "watched", generate.DefaultWatched, "do not narrow workloads observed for less than this")
	flags.StringVar(&f.calls.Domain, "cluster-domain", "", "`domain` of the cluster's Services (default cluster.local)")
	flags.BoolVar(&f.applied.apply, "apply", false, "with --generate: apply the Sidecars to the cluster that was read, after confirmation")
	flags.BoolVar(&f.applied.yes, "yes", false, "with --apply: do not ask")
	flags.DurationVar(&f.applied.wait, "wait", 0, waitUsage)
	f.printFlags.register(flags)
	return cmd
}

// ofGenerate lists the flags that require --generate.
var ofGenerate = []string{"access-log", "metrics-window", "prometheus-url", "prometheus-header", "always", "window", "watched", "cluster-domain", "apply"}

// checkGenerate returns an error for flags that do not go together.
func (f *configFlags) checkGenerate(changed func(string) bool, run string) error {
	if i := slices.IndexFunc([]string{"yes", "wait"}, changed); i >= 0 && !f.applied.apply {
		return errs.Usage("--%s requires --apply", []string{"yes", "wait"}[i])
	}
	if i := slices.IndexFunc(ofGenerate, changed); i >= 0 && f.to == "" {
		return errs.Usage("--%s requires --generate", ofGenerate[i])
	}
	switch {
	case f.top < 0:
		return errs.Usage("--top must not be negative")
	case f.to == "":
		return nil
	case run != "":
		return errs.Usage("--generate requires a running mesh or --from: a run does not record who calls whom")
	case f.scopes.Window < time.Minute:
		return errs.Usage("--window %s: must be at least 1m", f.scopes.Window)
	case f.calls.Reach < 0 || f.scopes.Watched < 0:
		return errs.Usage("--metrics-window and --watched must not be negative")
	}
	for _, host := range f.scopes.Always {
		namespace, name, _ := strings.Cut(host, "/")
		if namespace == "" || name == "" || strings.Contains(name, "/") || strings.HasPrefix(namespace, "~") {
			return errs.WithHint(errs.Usage("invalid egress host --always %q", host), "write namespace/name, such as istio-system/* or tracing/zipkin.tracing.svc.cluster.local")
		}
	}
	if f.namespace != "" {
		f.scopes.Only = []string{f.namespace}
	}
	if !changed("proxies") {
		f.proxies = 0 // narrowing a workload requires reading its proxies
	}
	return nil
}

func (f *configFlags) run(ctx context.Context, env *Env, run string) (err error) {
	to := env.Stdout
	if f.to == "-" {
		to = env.Stderr
	}
	if run != "" {
		r, err := f.ofRun(ctx, run)
		if err != nil {
			return err
		}
		return f.showScope(env, r)
	}
	o := app.Assessment{Section: assess.SectionConfiguration, PodNamespace: f.namespace, PodSelector: f.selector, Owners: f.top, Calls: f.calls}
	if f.to != "" {
		o.Scopes, o.Calls.Open, o.Calls.Window = &f.scopes, env.openFile, f.scopes.Window
	}
	if o.Prometheus, err = f.prometheus.open(); err != nil {
		return err
	}
	if o.Prometheus != nil {
		defer o.Prometheus.Close()
	}
	a, made, err := f.read(ctx, env, o)
	switch {
	case err != nil:
		return err
	case f.to == "" && a.Configuration == nil:
		return errs.WithHint(errs.Usage("no file has the configuration of a proxy"), "%s", scope.TakeDump)
	case f.to == "":
		r := *a.Configuration.Held
		for _, what := range a.Lacks(assess.SectionConfiguration) {
			r.Notes = append(r.Notes, scope.Note{Code: scope.NoteSource, Text: what})
		}
		return f.showScope(env, r)
	}
	result := *made.Sidecars
	result.Notes = append(result.Notes, a.Lacks(assess.SectionMesh)...)
	if f.applied.apply {
		if err := f.applied.complete(made.Inventory); err != nil {
			return err
		}
	}
	return f.write(ctx, env, to, result)
}

// showScope prints who owns the configuration.
func (f *configFlags) showScope(env *Env, r scope.Report) error {
	return f.show(env, r, func(w io.Writer, o report.Options) error { return report.RenderScope(w, r, f.top, o) })
}

// ofRun reports on what a run recorded.
func (f *configFlags) ofRun(ctx context.Context, run string) (scope.Report, error) {
	if _, err := os.Stat(run); errors.Is(err, fs.ErrNotExist) {
		return scope.Report{}, errs.WithHint(errs.Usage("there is no run at %s", run), "give the directory that `meshtrial run` printed; files are named with --from FILE...")
	}
	var proxies []scope.Proxy
	err := recordedProxies(ctx, run, scope.Options{}, func(string) bool { return true }, func(p scope.Proxy, err error) error {
		proxies = append(proxies, p)
		return err
	})
	if err == nil && len(proxies) == 0 {
		err = errs.WithHint(errs.Usage("run %s has no configuration of proxies", run), "a study records them with the measure config")
	}
	return scope.Merge(proxies, f.top), err
}

// recordedFiles lists the extensions of files that contain the configuration of a proxy.
var recordedFiles = []string{confile.Extension, ".json.gz", ".json"}

// recordedProxies passes take the configurations that a run recorded, of files whose names, without
// extension, are wanted.
func recordedProxies(ctx context.Context, run string, o scope.Options, wanted func(name string) bool, take func(scope.Proxy, error) error) error {
	root, err := store.Folder(run, store.DirConfigs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the study does not record configuration
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		i := slices.IndexFunc(recordedFiles, func(end string) bool { return strings.HasSuffix(path, end) })
		if err != nil || i < 0 || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(root, strings.TrimSuffix(path, recordedFiles[i]))
		if name = filepath.ToSlash(name); err != nil || !wanted(name) {
			return err
		}
		var p scope.Proxy
		err = withFile(ctx, nil, path, func(r io.Reader) error {
			p, err = scope.Read(r, name, o)
			return err
		})
		return take(p, err)
	})
}

// Files in the output folder.
const (
	fileSidecars = "sidecars.yaml"
	fileDiff     = "sidecars.diff"
	fileReport   = "report.json"
)

// safeName matches the object names that may be written.
var safeName = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

// write writes the Sidecars, writes the report to the stream to, and applies the Sidecars if
// --apply is given.
func (f *configFlags) write(ctx context.Context, env *Env, to io.Writer, r generate.Result) error {
	for _, s := range r.Sidecars {
		if !safeName.MatchString(s.String()) {
			return errs.Usage("a Sidecar would be called %.100q, which is not a valid object name", s)
		}
	}
	if f.to == "-" {
		if _, err := io.WriteString(env.Stdout, r.Manifests()); err != nil {
			return err
		}
	} else {
		document, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(f.to, 0o755); err != nil {
			return errs.WithCode(err, errs.CodeUsage)
		}
		for name, text := range map[string]string{fileSidecars: r.Manifests(), fileDiff: r.Diff(), fileReport: string(document) + "\n"} {
			if err := writeWhole(filepath.Join(f.to, name), []byte(text)); err != nil {
				return err
			}
		}
	}
	if !f.json {
		if err := report.RenderSidecars(to, r, f.top, f.on(to)); err != nil {
			return err
		}
	}
	var as *appliedAs
	if f.applied.apply {
		var err error
		if as, err = f.apply(ctx, env, r); err != nil {
			return err
		}
	}
	switch {
	case f.json:
		return writeJSON(to, applied{r, as})
	case f.applied.apply:
		return as.write(to)
	case f.to == "-":
		return nil
	}
	_, err := fmt.Fprintf(to, "\nTo apply: kubectl apply -f %s (or --apply, which records the changes and can revert them)\nThe changes: %s\n", shell.Quote(filepath.Join(f.to, fileSidecars)), filepath.Join(f.to, fileDiff))
	return err
}
