package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/store"
)

type scopeFlags struct {
	dumps, clusters []string
	filters         string
	run             string
	lab             string
	kubeconfig      string
	context         string
	namespace       string
	selector        string
	stats, json     bool
	top, proxies    int
	color           string
	width           int
	generate        generateFlags
	applied         applyFlags
	// choose, if set, receives all pods of a lab that have a proxy and returns those to read, in
	// order.
	choose func([]corev1.Pod) []corev1.Pod
}

func newConfigCommand(env *Env) *cobra.Command {
	var f scopeFlags
	cmd := &cobra.Command{
		Use:   "config {--dump FILE... | --run DIR | --lab local|cluster} [--generate DIR]",
		Short: "Show the size of the proxies' configuration and who owns it",
		Long: "Count every byte of the proxies' configuration once: by proxy, by type, and by the\n" +
			"Service, VirtualService, DestinationRule, ServiceEntry... that caused it. Read config\n" +
			"dumps and recorded configuration from files, from a run's directory, or from the\n" +
			"sidecars of a running lab. A dump cannot show which part a workload uses; --stats asks\n" +
			"the proxies what they have called so far.\n\n" +
			"A config dump is the JSON that an Envoy serves at /config_dump. For a sidecar or gateway:\n" +
			"kubectl -n NAMESPACE exec POD -c istio-proxy -- pilot-agent request GET 'config_dump?include_eds' > FILE\n" +
			"For a ztunnel: istioctl ztunnel-config all ZTUNNEL-POD.istio-system -o json > FILE\n\n" +
			"With --generate it writes Sidecar resources based on observed calls, from the proxies'\n" +
			"counters, access logs, Prometheus or service graphs, with a diff against existing ones\n" +
			"and a report of what is not covered. They are applied only with --apply; then they stay,\n" +
			"and are recorded so that `meshtrial cluster restore --run RUN` can remove them.",
		Example: "  meshtrial assess config --dump sidecar.json\n  meshtrial assess config --lab local --namespace shop --stats\n" +
			"  meshtrial xds record --address 10.96.0.20:15010 --namespace shop --out shop.xds.gz && meshtrial assess config --dump shop.xds.gz\n" +
			"  meshtrial assess config --lab cluster --prometheus-url http://localhost:9090 --generate sidecars",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && len(f.dumps) == 0 {
				return errs.WithHint(errs.Usage("unexpected argument %q", args[0]), "name config dumps with --dump FILE...")
			}
			f.dumps = append(f.dumps, args...) // for example --dump *.json
			if err := f.check(cmd.Flags().Changed); err != nil {
				return err
			}
			if f.generate.to != "" {
				return runGenerate(cmd.Context(), env, f)
			}
			return runScope(cmd.Context(), env, f)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.dumps, "dump", nil, "config dump of an Envoy or a ztunnel (JSON), or a recording by meshtrial xds record; may be gzip-compressed, - for standard input; more `FILE`s may follow")
	flags.StringVar(&f.filters, "envoy-filters", "", "`FILE` with the mesh's EnvoyFilters, from kubectl get envoyfilters -A -o json (not needed with --lab)")
	flags.StringArrayVar(&f.clusters, "clusters", nil, "`FILE` with /clusters?format=json of the same Envoy; one for each dump, in the same order")
	flags.StringVar(&f.run, "run", "", "read the config dumps of the run in this `DIR`")
	flags.StringVar(&f.lab, "lab", "", "read the sidecars of a running lab: local, or cluster for the kubeconfig's cluster")
	addKubeconfigFlags(flags, &f.kubeconfig, &f.context, ofLabCluster)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the pods (default: all)")
	flags.StringVarP(&f.selector, "selector", "l", "", "label selector of the pods, such as app=catalog")
	flags.IntVar(&f.proxies, "proxies", 50, "read at most this many proxies of a lab, 0 for all")
	flags.BoolVar(&f.stats, "stats", false, "with --lab: query each proxy for the clusters it called")
	flags.IntVar(&f.top, "top", 20, "number of entries per list; 0 for all that are kept")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	f.generate.register(flags)
	flags.BoolVar(&f.applied.apply, "apply", false, "with --generate and --lab: apply the Sidecars to the cluster, after confirmation")
	flags.BoolVar(&f.applied.yes, "yes", false, "with --apply: do not ask")
	flags.DurationVar(&f.applied.wait, "wait", 0, waitUsage)
	addTextFlags(cmd, &f.color, &f.width)
	return cmd
}

func runScope(ctx context.Context, env *Env, f scopeFlags) error {
	options, err := textOptions(env.Stdout, f.color, f.width)
	if err != nil {
		return err
	}
	o := scope.Options{}
	if f.filters != "" {
		err := withFile(ctx, env, f.filters, func(r io.Reader) error {
			o.Filters, err = scope.ReadFilters(r)
			return err
		})
		if err != nil {
			return err
		}
	}
	var proxies []scope.Proxy
	notes, err := takeProxies(ctx, env, f, o, func(p scope.Proxy) error {
		proxies = append(proxies, p)
		return nil
	})
	if err != nil {
		return err
	}
	r := scope.Merge(proxies, f.top)
	for _, text := range notes {
		r.Notes = append(r.Notes, scope.Note{Code: scope.NoteSource, Text: text})
	}
	return env.show(f.json, r, func(w io.Writer) error { return report.RenderScope(w, r, f.top, options) })
}

// where returns the lab whose sidecars are read.
func (f *scopeFlags) where() app.Where {
	return app.Where{Lab: f.lab, Kubeconfig: f.kubeconfig, Context: f.context}
}

func (f *scopeFlags) check(changed func(string) bool) error {
	sources := 0
	for _, given := range []bool{len(f.dumps) > 0, f.run != "", f.lab != ""} {
		if given {
			sources++
		}
	}
	switch {
	case sources != 1 && (f.generate.to == "" || sources > 1):
		return errs.WithHint(errs.Usage("scope reads config dumps from one source"), "name it with --dump FILE..., --run DIR or --lab local|cluster")
	case f.lab != "" && f.lab != "local" && f.lab != "cluster":
		return errs.Usage("--lab must be local or cluster, not %q", f.lab)
	case f.lab == "" && (f.namespace != "" || f.selector != ""):
		return errs.Usage("--namespace and --selector require --lab")
	case f.lab != "cluster" && (f.kubeconfig != "" || f.context != ""):
		return errs.Usage("--kubeconfig and --context require --lab cluster")
	case f.lab == "" && f.stats:
		return errs.WithHint(errs.Usage("--stats requires --lab"), "with --dump, give the output of /clusters?format=json with --clusters")
	case len(f.clusters) > 0 && len(f.clusters) != len(f.dumps):
		return errs.Usage("%d --clusters for %d dumps: give one for each, in the same order", len(f.clusters), len(f.dumps))
	case f.top < 0 || f.proxies < 0:
		return errs.Usage("--top and --proxies must not be negative")
	}
	if f.generate.to != "" && !changed("proxies") {
		f.proxies = 0 // narrowing a workload requires reading its proxies
	}
	return f.generate.check(*f, changed)
}

func fileProxies(ctx context.Context, env *Env, f scopeFlags, o scope.Options) ([]scope.Proxy, error) {
	var proxies []scope.Proxy
	stdin := 0
	for i, name := range f.dumps {
		if name == "-" {
			if stdin++; stdin > 1 {
				return nil, errs.Usage("standard input is named twice")
			}
		}
		p, err := readScopeFile(ctx, env, name, name, o)
		if err != nil {
			return nil, noDump(name, err)
		}
		if len(f.clusters) > 0 {
			err := withFile(ctx, env, f.clusters[i], func(r io.Reader) error {
				calls, err := scope.ReadCalls(r)
				p.SetCalls(calls)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		proxies = append(proxies, p)
	}
	return proxies, nil
}

// noDump adds a hint to the error for a path without a dump.
func noDump(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errs.WithHint(errs.Usage("there is no config dump %s", path), "%s", scope.TakeDump)
	}
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
		return errs.WithHint(err, "name the dumps in it (--dump DIR/*.json), or a run directory with --run")
	}
	return err
}

// scopeFiles lists the extensions of files that contain the configuration of a proxy.
var scopeFiles = []string{confile.Extension, ".json.gz", ".json"}

// runProxies reads the config dumps, and the configuration of simulated proxies, that a run
// recorded.
func runProxies(ctx context.Context, f scopeFlags, o scope.Options) ([]scope.Proxy, error) {
	if _, err := os.Stat(f.run); errors.Is(err, fs.ErrNotExist) {
		return nil, errs.WithHint(errs.Usage("there is no run at %s", f.run), "give the directory that `meshtrial run` printed")
	}
	root := filepath.Join(f.run, store.DirConfigs)
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && slices.ContainsFunc(scopeFiles, func(end string) bool { return strings.HasSuffix(path, end) }) {
			files = append(files, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errs.WithHint(errs.Usage("run %s has no configuration of proxies in %s", f.run, root), "a study records them with the measure config")
	}
	slices.Sort(files)
	var proxies []scope.Proxy
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		for _, end := range scopeFiles {
			name = strings.TrimSuffix(name, end)
		}
		p, err := readScopeFile(ctx, nil, file, filepath.ToSlash(name), o)
		if err != nil {
			return nil, err
		}
		proxies = append(proxies, p)
	}
	return proxies, nil
}

func readScopeFile(ctx context.Context, env *Env, file, name string, o scope.Options) (p scope.Proxy, err error) {
	err = withFile(ctx, env, file, func(r io.Reader) error {
		p, err = scope.Read(r, name, o)
		return err
	})
	return p, err
}
