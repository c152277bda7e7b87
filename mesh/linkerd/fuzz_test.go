package linkerd

import (
	"cmp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/lab/components"
)

// FuzzChartIndex verifies that a chart found in an index belongs to the
// requested release, and that no chart is newer than the newest.
func FuzzChartIndex(f *testing.F) {
	f.Add([]byte("entries:\n  linkerd-control-plane:\n  - {version: 2025.9.2, appVersion: edge-25.9.2, digest: ab, urls: [a.tgz]}\n  - {version: 2025.10.1, appVersion: edge-25.10.1, urls: ['http://x/a.tgz']}\n"), "edge-25.9.2")
	f.Add([]byte("entries:\n  linkerd-control-plane:\n  - {version: 1.0.0-rc.1}\n  - {version: 1.0.0}\n  - {version: ''}\n  - null\n"), "1.0.0")
	f.Add([]byte("entries: {linkerd-control-plane: null}\n"), "")
	f.Add([]byte("a: &a [x,x]\nentries: {linkerd-control-plane: *a}\n"), "x")
	f.Fuzz(func(t *testing.T, text []byte, release string) {
		var index components.ChartIndex
		if yaml.Unmarshal(text, &index) != nil {
			return
		}
		all := index.Entries[controlChart]
		if e, err := find(index, controlChart, release, false); err == nil && e.AppVersion != release && e.Version != release {
			t.Errorf("%q: asked for %q, it finds %+v", text, release, e)
		}
		newest, err := find(index, controlChart, "none", true)
		if err == nil && len(all) == 0 {
			t.Errorf("%q: of no releases %+v is the newest", text, newest)
		}
		for _, e := range all {
			if err == nil && compareVersions(e.Version, newest.Version) > 0 {
				t.Errorf("%q: %q is newer than the newest, %q", text, e.Version, newest.Version)
			}
		}
	})
}

// FuzzCompareVersions verifies that versions are totally ordered.
func FuzzCompareVersions(f *testing.F) {
	f.Add("1.2.3", "1.2.3-rc.1", "1.10")
	f.Add("", "0", "00")
	f.Add("1.x", "1.0", "1.99999999999999999999")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		sign := func(x, y string) int { return cmp.Compare(compareVersions(x, y), 0) }
		if sign(a, a) != 0 || sign(a, b) != -sign(b, a) || a != b && sign(a, b) == 0 {
			t.Errorf("%q and %q: %d, reversed %d", a, b, sign(a, b), sign(b, a))
		}
		if sign(a, b) <= 0 && sign(b, c) <= 0 && sign(a, c) > 0 {
			t.Errorf("%q <= %q <= %q, but the first is newer than the last", a, b, c)
		}
	})
}
