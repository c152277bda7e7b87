package cli

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// sourceFlags say which mesh is assessed, running or from files, and how. All parts of an
// assessment have them.
type sourceFlags struct {
	istiodFlags
	istiod             string // its program
	duration, interval time.Duration
	proxies            int
	from               []string
	apart              time.Duration
}

func (f *sourceFlags) register(flags *pflag.FlagSet) {
	f.istiodFlags.register(flags)
	flags.IntVar(&f.proxies, "proxies", 50, "read the configuration and counters of at most this many proxies, 0 for all")
	flags.StringArrayVar(&f.from, "from", nil, "read this `FILE` instead of a running mesh, - for standard input; more may follow")
}

// registerWatch registers the flags of those who watch the mesh for a while.
func (f *sourceFlags) registerWatch(flags *pflag.FlagSet) {
	flags.DurationVar(&f.duration, "duration", 2*time.Minute, "how long to watch the mesh")
	flags.DurationVar(&f.interval, "interval", 5*time.Second, "time between readings of istiod")
	flags.DurationVar(&f.apart, "apart", 0, "with --from: time between two pages of an istiod or a proxy that do not tell it, in their order")
}

// registerProgram registers the flag that names istiod's program.
func (f *sourceFlags) registerProgram(flags *pflag.FlagSet) {
	flags.StringVar(&f.istiod, "istiod", "", istiodUsage+" (default: the local lab's, if it is the same version)")
}

// ofRunning are the flags for a running mesh.
var ofRunning = []string{"lab", "kubeconfig", "context", "istio-namespace", "revision", "duration", "interval", "proxies", "namespace", "selector", "apply"}

// check returns an error for flags that do not go together, and the directory of a run if args
// names one; after --from they name more files.
func (f *sourceFlags) check(changed func(string) bool, args []string) (run string, err error) {
	if f.duration == 0 && !changed("duration") { // it is not watched
		f.duration, f.interval = time.Minute, time.Second
	}
	what := ""
	switch {
	case len(f.from) > 0:
		f.from, what = append(f.from, args...), "--from"
	case len(args) > 1:
		return "", errs.WithHint(errs.Usage("unexpected argument %q", args[1]), "name files with --from FILE...")
	case len(args) == 1:
		run, what = args[0], "a run"
	}
	if i := slices.IndexFunc(ofRunning, changed); i >= 0 && what != "" {
		return "", errs.Usage("--%s applies only to a running mesh, not to %s", ofRunning[i], what)
	}
	switch {
	case f.apart != 0 && len(f.from) == 0:
		return "", errs.Usage("--apart requires --from")
	case f.apart < 0 || f.proxies < 0:
		return "", errs.Usage("--apart and --proxies must not be negative")
	case f.interval < 100*time.Millisecond || f.duration < 2*f.interval || f.duration > 24*time.Hour:
		return "", errs.Usage("--duration %s with --interval %s: the interval must be at least 100ms, and the duration between two intervals and 24h", f.duration, f.interval)
	}
	return run, f.Check()
}

// read assesses the mesh, or one section alone.
func (f *sourceFlags) read(ctx context.Context, env *Env, o app.Assessment) (assess.Assessment, app.Made, error) {
	line := newProgress(env.Stderr)
	defer line.Clear()
	o.Istiod, o.Most, o.Apart, o.Warn = f.Istiod, f.proxies, f.apart, env.warn
	o.IstiodWatch = app.IstiodWatch{Interval: f.interval, Duration: f.duration, Say: func(text string) { line.Say("%s", text) },
		Ask: func(ctx context.Context, version string) (*variables.Known, string, error) {
			return askIstiod(ctx, f.istiod, version)
		}}
	if len(f.from) > 0 {
		return o.FromFiles(ctx, f.from, env.openFile)
	}
	return o.Assess(ctx)
}

// openFile passes f the contents of a file; see [withFile].
func (env *Env) openFile(ctx context.Context, name string, f func(io.Reader) error) error {
	return withFile(ctx, env, name, f)
}
