package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/debugfile"
	"github.com/meshtrial/meshtrial/observe/profile/perf"
	"github.com/meshtrial/meshtrial/report"
)

// profileFormats lists the formats that `meshtrial profile` writes.
var profileFormats = []string{"text", "folded", "pprof", "html", "json"}

type profileFlags struct {
	against    []string
	format     string
	out        string
	configDump string
	perf       string
	debug      []string
	finder     *debugfile.Finder

	pid       int
	port      int
	kind      string
	namespace string
	where     app.Where
	image     string
	length    time.Duration
	wait      time.Duration
	hz        int
	graph     string

	top int
	textFlags
}

func newProfileCommand(env *Env) *cobra.Command {
	var f profileFlags
	cmd := &cobra.Command{
		Use:   "profile {FILE... | POD[/CONTAINER] | --pid PID}",
		Short: "Show where a program's CPU time goes: profile a file, a process or a pod",
		Long: "Read profiles (perf script, perf.data, folded stacks, pprof), or record one: a local process\n" +
			"with perf, a pod's container with perf on its node, or a non-CPU profile from the pod's pprof\n" +
			"endpoint or Envoy's admin interface. Show CPU time by thread, by cost centre of a proxy, and\n" +
			"by function.\n\n" +
			"Symbols that perf guessed are discarded. If symbols are missing, the output says how to get\n" +
			"them; --debug names debug files, matched by build id. Several files are blocks of one\n" +
			"measurement. --format html writes a flame graph.",
		Example: "  meshtrial profile perf.txt --config-dump sidecar.json\n" +
			"  meshtrial profile after.folded --against before.folded --format html --out diff.html\n" +
			"  meshtrial profile productpage-v1-abc/istio-proxy -n shop --length 60s\n" +
			"  meshtrial profile ztunnel-abc -n istio-system --lab cluster --image registry.example/meshtrial:1\n" +
			"  meshtrial profile --pid 4242 --hz 19 --debug envoy.debug\n" +
			"  meshtrial profile istiod-abc -n istio-system --kind heap\n" +
			"  meshtrial profile - < heap.pb.gz",
		RunE: func(cmd *cobra.Command, args []string) error { return runProfile(cmd.Context(), env, f, args) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.against, "against", nil,
		"baseline profile `FILE` to compare with; may be repeated, as blocks of one measurement")
	addChoice(flags, &f.format, "format", strings.Join(profileFormats, ", "), profileFormats...)
	flags.StringVar(&f.out, "out", "", "`FILE` to write instead of standard output")
	flags.StringVar(&f.configDump, "config-dump", "",
		"`FILE` with the proxy's /config_dump: shows which of its filters appear in the profile")
	flags.StringVar(&f.perf, "perf", "", "`PATH` of perf (default: the usual locations)")
	flags.StringArrayVar(&f.debug, "debug", nil,
		"`PATH` of a debug file, or of a directory of them, for missing symbols; matched by build id; may be repeated")
	flags.IntVar(&f.pid, "pid", 0, "profile a process on this machine, with all its threads")
	addChoice(flags, &f.kind, "kind", "for a pod: cpu, heap, mutex or block; for an Istio sidecar: cpu, heap, peak-heap or alloc",
		observe.ProfileCPU, "heap", "mutex", "block", observe.ProfilePeakHeap, observe.ProfileAlloc)
	flags.IntVar(&f.port, "port", 0, "with a pod, for kinds other than cpu: port of pprof or "+
		"Envoy's admin interface (default 15000 for an Istio sidecar, otherwise 8080)")
	flags.StringVarP(&f.namespace, "namespace", "n", "default", "namespace of the pod")
	addWhereFlags(flags, &f.where, "where the pod runs")
	flags.StringVar(&f.image, "image", "", ofLabCluster+"image of this program that the nodes can pull")
	flags.DurationVar(&f.wait, "wait", 0, "with a pod and kind cpu: "+waitUsage)
	flags.DurationVar(&f.length, "length", 30*time.Second, "how long to profile")
	flags.IntVar(&f.hz, "hz", perf.DefaultHz, "samples per second of CPU time")
	flags.StringVar(&f.graph, "graph", perf.GraphFP,
		"how perf finds callers: fp (frame pointers), dwarf (debug information, expensive) or none")
	flags.IntVar(&f.top, "top", 20, "number of entries per list; 0 for all")
	f.textFlags.register(flags)
	return cmd
}

// profiled is a profile with its title, in one or more blocks.
type profiled struct {
	title  string
	blocks []*profile.Profile
}

func runProfile(ctx context.Context, env *Env, f profileFlags, args []string) (err error) {
	if err := f.check(args); err != nil {
		return err
	}
	if f.finder, err = debugfile.New(f.debug); err != nil {
		return err
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(profile.MemoryLimit))
	var filters []profile.ConfigFilter
	if f.configDump != "" {
		if filters, err = readFilters(ctx, env, f.configDump); err != nil {
			return err
		}
	}
	now, err := f.profiled(ctx, env, args)
	if err != nil {
		return err
	}
	var before profiled
	if len(f.against) > 0 {
		if before, err = readProfiles(ctx, env, f, f.against); err != nil {
			return err
		}
	}
	out := env.Stdout
	if f.out != "" {
		file, err := os.Create(f.out)
		if err != nil {
			return errs.WithCode(err, errs.CodeUsage)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	return writeProfile(out, f, now, before, filters)
}

// check returns an error for flags and arguments that do not go together.
func (f profileFlags) check(args []string) error {
	switch {
	case (len(args) > 0) == (f.pid != 0):
		return errs.WithHint(errs.Usage("profile takes either files, a pod or --pid"), "for examples: meshtrial profile --help")
	case f.pid != 0 && f.kind != observe.ProfileCPU:
		return errs.Usage("--kind %s: perf records only CPU profiles", f.kind)
	case f.port < 0 || f.port > 65535:
		return errs.Usage("--port %d is not a port", f.port)
	case f.pid < 0:
		return errs.Usage("--pid %d is not a process", f.pid)
	case f.top < 0:
		return errs.Usage("--top must not be negative")
	case len(f.against) > 0 && (f.format == "folded" || f.format == "pprof"):
		return errs.Usage("--against does not work with --format %s: use text, html or json", f.format)
	}
	if err := (perf.Options{PIDs: []int{1}, Hz: f.hz, Length: f.length, Graph: f.graph}).Check(); err != nil {
		return errs.WithHint(errs.WithCode(err, errs.CodeUsage),
			"see --hz, --length and --graph; --graph fp takes the least space")
	}
	return nil
}

func readFilters(ctx context.Context, env *Env, name string) (filters []profile.ConfigFilter, err error) {
	err = withFile(ctx, env, name, func(r io.Reader) error {
		data, err := io.ReadAll(io.LimitReader(r, maxConfigDump+1))
		if err != nil {
			return err
		}
		if len(data) > maxConfigDump {
			return errs.Usage("more than %d MiB", maxConfigDump>>20)
		}
		if filters, err = profile.ReadFilters(data); err != nil {
			return errs.WithCode(err, errs.CodeUsage)
		}
		return nil
	})
	return filters, err
}

// maxConfigDump limits the size of a config dump, in bytes.
const maxConfigDump = 512 << 20

// podName matches POD and POD/CONTAINER.
var podName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`)

// profiled returns the requested profile.
func (f profileFlags) profiled(ctx context.Context, env *Env, args []string) (profiled, error) {
	if f.pid != 0 {
		return takePID(ctx, env, f)
	}
	if len(args) == 1 && args[0] != "-" {
		_, err := os.Stat(args[0])
		file := err == nil || slices.Contains(fileExtensions, filepath.Ext(args[0]))
		if !file && errors.Is(err, os.ErrNotExist) && podName.MatchString(args[0]) {
			return takePod(ctx, env, f, args[0])
		}
	}
	return readProfiles(ctx, env, f, args)
}

// fileExtensions distinguishes missing files from pods.
var fileExtensions = []string{".txt", ".data", ".gz", ".pb", ".folded", ".perf", ".script", ".out", ".prof", ".pprof"}

// readProfiles reads files that are blocks of one measurement.
func readProfiles(ctx context.Context, env *Env, f profileFlags, names []string) (profiled, error) {
	out := profiled{title: filepath.Base(names[0])}
	if len(names) > 1 {
		out.title = fmt.Sprintf("%s and %d more", out.title, len(names)-1)
	}
	for _, name := range names {
		p, err := readProfile(ctx, env, f, name)
		if err != nil {
			return out, err
		}
		out.blocks = append(out.blocks, p)
		if first := out.blocks[0].Kind; p.Kind != first {
			return out, errs.Usage("%s is a %s profile, and %s is a %s profile: blocks of one measurement must be of one kind",
				name, p.Kind, names[0], first)
		}
	}
	return out, nil
}

func readProfile(ctx context.Context, env *Env, f profileFlags, name string) (*profile.Profile, error) {
	var p *profile.Profile
	var files map[string]profile.ELF
	err := withFile(ctx, env, name, func(r io.Reader) (err error) {
		p, err = profile.Read(r)
		return err
	})
	if errors.Is(err, profile.ErrPerfData) {
		if name == "-" {
			return nil, errs.WithHint(errs.Usage("standard input: %v", profile.ErrPerfData), "pipe it through: perf script -i -")
		}
		p, files, err = perf.Tool{Path: f.perf}.ReadFile(ctx, name)
	}
	if err != nil {
		if errors.Is(err, profile.ErrFormat) {
			err = errs.WithHint(errs.WithCode(err, errs.CodeUsage),
				"profile reads the output of perf script, perf.data, folded stacks, and profiles of pprof and gperftools")
		}
		return nil, err
	}
	f.settle(p, files)
	return p, nil
}

// settle removes doubtful names and adds the names that debug files provide. In pprof format
// frames keep their offsets, so that they can be named later.
func (f profileFlags) settle(p *profile.Profile, files map[string]profile.ELF) {
	p.Judge(files)
	f.finder.Name(p)
	if f.format != "pprof" {
		p.Distrust(files)
	}
}

// writeProfile writes the profile in the requested format.
func writeProfile(out io.Writer, f profileFlags, now, before profiled, filters []profile.ConfigFilter) error {
	switch f.format {
	case "folded":
		return profile.Merge(now.blocks).WriteFolded(out)
	case "pprof":
		var b bytes.Buffer
		if err := profile.Merge(now.blocks).WritePprof(&b); err != nil {
			return err
		}
		_, err := b.WriteTo(out)
		return err
	}
	keep := f.top
	if keep == 0 {
		keep = 1 << 20
	}
	summary, view := profile.Summarise(now.title, now.blocks, filters, keep)
	if len(before.blocks) > 0 {
		d, err := profile.Compare(before.blocks, now.blocks)
		if err != nil {
			return errs.WithCode(err, errs.CodeUsage)
		}
		summary.Against = &d
		view.AddDiff(d, before.title)
	}
	switch f.format {
	case "html":
		return report.WriteProfilePage(out, summary, view)
	case "json":
		return writeJSON(out, summary)
	}
	return report.RenderProfile(out, summary, f.top, f.on(out))
}
