package components

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
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// ChartRepository is the address of a Helm repository, with a slash at the end.
type ChartRepository string

// ChartIndex is the index.yaml of a repository.
type ChartIndex struct {
	Entries map[string][]ChartEntry `json:"entries"` // by chart
}

// ChartEntry is a version of a chart.
type ChartEntry struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	AppVersion string   `json:"appVersion"`
	Digest     string   `json:"digest"` // SHA-256 of the archive, in hex
	URLs       []string `json:"urls"`
}

// Limits on responses of a repository.
const (
	maxChartIndex = 64 << 20
	maxChart      = 16 << 20
	chartTimeout  = 2 * time.Minute
)

// Index downloads the index.
func (r ChartRepository) Index(ctx context.Context) (ChartIndex, error) {
	var index ChartIndex
	raw, err := download(ctx, string(r)+"index.yaml", maxChartIndex)
	if err != nil {
		return index, err
	}
	if err := yaml.Unmarshal(raw, &index); err != nil {
		return index, fmt.Errorf("%sindex.yaml: %w", r, err)
	}
	return index, nil
}

// Find returns a chart by its own version or its app's.
func (i ChartIndex) Find(chart, version string) (ChartEntry, bool) {
	for _, e := range i.Entries[chart] {
		if e.AppVersion == version || e.Version == version {
			return e, true
		}
	}
	return ChartEntry{}, false
}

// Get downloads the archive of a chart as dir/name.tgz and checks its digest.
func (r ChartRepository) Get(ctx context.Context, e ChartEntry, dir, name string) (Version, error) {
	if len(e.URLs) == 0 {
		return Version{}, fmt.Errorf("%sindex.yaml has no address for chart %s %s", r, name, e.Version)
	}
	at, err := r.address(e.URLs[0])
	if err != nil {
		return Version{}, err
	}
	text, err := download(ctx, at, maxChart)
	if err != nil {
		return Version{}, err
	}
	sum := sha256.Sum256(text)
	if got := hex.EncodeToString(sum[:]); got != e.Digest {
		return Version{}, fmt.Errorf("%s: its digest is %s, the index says %q", at, got, e.Digest)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".tgz"), text, 0o644); err != nil {
		return Version{}, err
	}
	return Version{Name: name, Version: cmp.Or(e.AppVersion, e.Version), Source: at, Digest: "sha256:" + e.Digest}, nil
}

// Fetch downloads charts of a release into dir.
func (r ChartRepository) Fetch(ctx context.Context, dir, release string, charts ...string) ([]Version, error) {
	index, err := r.Index(ctx)
	if err != nil {
		return nil, errs.WithHint(fmt.Errorf("charts of %s: %w", release, err), "%s must be reachable", r)
	}
	var out []Version
	for _, name := range charts {
		e, ok := index.Find(name, release)
		if !ok {
			return nil, errs.WithHint(errs.Usage("release %s has no chart %s", release, name), "%sindex.yaml lists the available releases", r)
		}
		v, err := r.Get(ctx, e, dir, name)
		if err != nil {
			return nil, fmt.Errorf("chart %s of %s: %w", name, release, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// address resolves a chart's address, which may be relative to the index.
func (r ChartRepository) address(chart string) (string, error) {
	from, err := url.Parse(string(r))
	if err != nil {
		return "", err
	}
	to, err := from.Parse(chart)
	if err != nil {
		return "", fmt.Errorf("address of a chart in %sindex.yaml: %w", r, err)
	}
	return to.String(), nil
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
