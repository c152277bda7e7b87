package linkerd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components"
)

// chartsURL is where the Linkerd project publishes its charts, with a Helm repository
// per channel.
const chartsURL = "https://helm.linkerd.io/"

// Limits on responses of a chart repository.
const (
	maxChartIndex = 64 << 20
	maxChart      = 16 << 20
	chartTimeout  = 2 * time.Minute
)

// chartIndex is the index.yaml of a chart repository.
type chartIndex struct {
	Entries map[string][]chartEntry `json:"entries"`
}

type chartEntry struct {
	Version    string   `json:"version"`
	AppVersion string   `json:"appVersion"`
	Digest     string   `json:"digest"` // SHA-256 of the archive, in hex
	URLs       []string `json:"urls"`
}

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
		if dir, versions, ok := b.Made(chartsRecipe(b, base, name, nil)); ok {
			return releaseOf(dir, versions), nil
		}
	}
	b.Say("linkerd", components.PhaseDownload, "the index of charts of "+base)
	raw, err := download(ctx, base+"index.yaml", maxChartIndex)
	if err != nil {
		return nil, noCharts(ctx, base, err)
	}
	var index chartIndex
	if err := yaml.Unmarshal(raw, &index); err != nil {
		return nil, fmt.Errorf("%sindex.yaml: %w", base, err)
	}
	control, err := index.find(controlChart, name, name == channel)
	if err != nil {
		return nil, errs.WithHint(err, "%sindex.yaml lists the available releases", base)
	}
	crds, err := index.find(crdsChart, cmp.Or(control.AppVersion, control.Version), false)
	if err != nil {
		// Charts of stable releases have their own versions, and some CRD charts have
		// no app version, so the same chart version is accepted.
		if crds, err = index.find(crdsChart, control.Version, false); err != nil {
			return nil, err
		}
	}
	dir, versions, err := b.Make(ctx, chartsRecipe(b, base, cmp.Or(control.AppVersion, control.Version), map[string]chartEntry{
		controlChart: control, crdsChart: crds}))
	if err != nil {
		return nil, err
	}
	return releaseOf(dir, versions), nil
}

func releaseOf(dir string, versions []components.Version) *source {
	return &source{crds: filepath.Join(dir, crdsChart+".tgz"), control: filepath.Join(dir, controlChart+".tgz"), versions: versions}
}

// find returns the chart of a release, or the newest overall.
func (i chartIndex) find(chart, release string, newest bool) (chartEntry, error) {
	all := i.Entries[chart]
	if newest && len(all) > 0 {
		return slices.MaxFunc(all, func(a, b chartEntry) int { return compareVersions(a.Version, b.Version) }), nil
	}
	for _, e := range all {
		if e.AppVersion == release || e.Version == release {
			return e, nil
		}
	}
	return chartEntry{}, errs.Usage("Linkerd's release %s has no chart %s", release, chart)
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
func chartsRecipe(b *components.Builder, base, release string, charts map[string]chartEntry) components.Recipe {
	return components.Recipe{Name: "linkerd_charts", Inputs: map[string]any{"repository": base, "release": release},
		Make: func(ctx context.Context, dir string) ([]components.Version, error) {
			var versions []components.Version
			for _, name := range []string{controlChart, crdsChart} {
				e := charts[name]
				b.Say("linkerd", components.PhaseDownload, "the chart "+name+" "+e.Version)
				if len(e.URLs) == 0 {
					return nil, fmt.Errorf("%sindex.yaml has no address for chart %s %s", base, name, e.Version)
				}
				at, err := address(base, e.URLs[0])
				if err != nil {
					return nil, err
				}
				text, err := download(ctx, at, maxChart)
				if err != nil {
					return nil, noCharts(ctx, base, err)
				}
				sum := sha256.Sum256(text)
				if got := hex.EncodeToString(sum[:]); got != e.Digest {
					return nil, fmt.Errorf("%s: its digest is %s, the index says %q", at, got, e.Digest)
				}
				if err := os.WriteFile(filepath.Join(dir, name+".tgz"), text, 0o644); err != nil {
					return nil, err
				}
				versions = append(versions, components.Version{Name: name, Version: cmp.Or(e.AppVersion, e.Version), Source: at, Digest: "sha256:" + e.Digest})
			}
			return versions, nil
		}}
}

// address resolves a chart's address, which may be relative to the index.
func address(base, chart string) (string, error) {
	from, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	to, err := from.Parse(chart)
	if err != nil {
		return "", fmt.Errorf("address of a chart in %sindex.yaml: %w", base, err)
	}
	return to.String(), nil
}

func noCharts(ctx context.Context, base string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errs.WithHint(fmt.Errorf("Linkerd's charts: %w", err),
		"%s must be reachable; if it is not, use a folder with Linkerd's programs and charts (--linkerd DIR)", base)
}

// download reads at most limit bytes from an address.
func download(ctx context.Context, at string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, chartTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", at, response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("GET %s: more than %d MiB", at, limit>>20)
	}
	return text, err
}
