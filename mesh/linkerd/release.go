package linkerd

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components"
)

// chartsURL is where the Linkerd project publishes its charts, with a Helm repository
// per channel.
const chartsURL = "https://helm.linkerd.io/"

// findRelease finds a release's charts in the cache, or downloads them.
func findRelease(ctx context.Context, b *components.Builder, from, name string) (*source, error) {
	channel := "edge"
	if strings.HasPrefix(name, "stable") {
		channel = "stable"
	}
	base := cmp.Or(from, chartsURL) + channel + "/"
	if name != channel {
		// A release's charts never change: if they are in the cache, the repository
		// is not needed.
		if dir, ok := b.Made(chartsRecipe(b, base, name, nil)); ok {
			return releaseOf(dir), nil
		}
	}
	b.Say("linkerd", components.PhaseDownload, "the index of charts of "+base)
	index, err := components.ChartRepository(base).Index(ctx)
	if err != nil {
		return nil, noCharts(ctx, base, err)
	}
	control, err := find(index, controlChart, name, name == channel)
	if err != nil {
		return nil, errs.WithHint(err, "%sindex.yaml lists the available releases", base)
	}
	crds, err := find(index, crdsChart, cmp.Or(control.AppVersion, control.Version), false)
	if err != nil {
		// Charts of stable releases have their own versions, and some CRD charts have
		// no app version, so the same chart version is accepted.
		if crds, err = find(index, crdsChart, control.Version, false); err != nil {
			return nil, err
		}
	}
	dir, err := b.Make(ctx, chartsRecipe(b, base, cmp.Or(control.AppVersion, control.Version), map[string]components.ChartEntry{
		controlChart: control, crdsChart: crds}))
	if err != nil {
		return nil, err
	}
	return releaseOf(dir), nil
}

func releaseOf(dir string) *source {
	return &source{crds: filepath.Join(dir, crdsChart+".tgz"), control: filepath.Join(dir, controlChart+".tgz")}
}

// find returns the chart of a release, or the newest overall.
func find(index components.ChartIndex, chart, release string, newest bool) (components.ChartEntry, error) {
	if all := index.Entries[chart]; newest && len(all) > 0 {
		return slices.MaxFunc(all, func(a, b components.ChartEntry) int { return compareVersions(a.Version, b.Version) }), nil
	}
	if e, ok := index.Find(chart, release); ok {
		return e, nil
	}
	return components.ChartEntry{}, errs.Usage("Linkerd's release %s has no chart %s", release, chart)
}

// compareVersions orders semantic versions. Invalid ones are older than all valid
// ones, and ordered as text.
func compareVersions(a, b string) int {
	v, errA := version.ParseSemantic(a)
	w, errB := version.ParseSemantic(b)
	switch {
	case errA != nil && errB != nil:
		return strings.Compare(a, b)
	case errA != nil || errB == nil && v.LessThan(w):
		return -1
	case errB != nil || w.LessThan(v):
		return 1
	}
	return strings.Compare(a, b)
}

// chartsRecipe downloads a release's charts and checks their digests.
func chartsRecipe(b *components.Builder, base, release string, charts map[string]components.ChartEntry) components.Recipe {
	return components.Recipe{Name: "linkerd_charts", Inputs: map[string]any{"repository": base, "release": release},
		Make: func(ctx context.Context, dir string) ([]components.Version, error) {
			var versions []components.Version
			for _, name := range []string{controlChart, crdsChart} {
				e := charts[name]
				b.Say("linkerd", components.PhaseDownload, "the chart "+name+" "+e.Version)
				version, err := components.ChartRepository(base).Get(ctx, e, dir, name)
				if err != nil {
					return nil, noCharts(ctx, base, err)
				}
				versions = append(versions, version)
			}
			return versions, nil
		}}
}

func noCharts(ctx context.Context, base string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errs.WithHint(fmt.Errorf("Linkerd's charts: %w", err),
		"%s must be reachable; if it is not, use a folder with Linkerd's programs and charts (--linkerd DIR)", base)
}
