package components

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// chartServer serves two channels of charts; an archive's text is its name.
func chartServer(t *testing.T, spoil string) *httptest.Server {
	t.Helper()
	digest := func(name string) string {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:])
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		channel, file, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case file == "index.yaml" && channel == "edge":
			fmt.Fprintln(w, "apiVersion: v1\nentries:")
			for _, chart := range []string{linkerdCRDsChart, linkerdControlChart} {
				fmt.Fprintf(w, "  %s:\n", chart)
				for _, n := range []string{"9.2", "10.1", "8.7"} {
					name := chart + "-2025." + n + ".tgz"
					at := name
					if n == "10.1" {
						at = "http://" + r.Host + "/edge/" + name
					}
					fmt.Fprintf(w, "  - {version: 2025.%s, appVersion: edge-25.%s, digest: %s, urls: [%q]}\n", n, n, digest(name), at)
				}
			}
		case file == "index.yaml" && channel == "stable":
			fmt.Fprintf(w, "entries:\n  linkerd-crds:\n  - {version: 1.8.0, digest: %s, urls: [c.tgz]}\n", digest("c.tgz"))
			fmt.Fprintf(w, "  linkerd-control-plane:\n  - {version: 1.16.11, appVersion: stable-2.14.10, digest: %s, urls: [p.tgz]}\n", digest("p.tgz"))
		case file == spoil:
			fmt.Fprint(w, "something else")
		case strings.HasSuffix(file, ".tgz"):
			fmt.Fprint(w, file)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestLinkerdRelease(t *testing.T) {
	server := chartServer(t, "")
	b := &Builder{cache: cache{dir: t.TempDir()}, charts: server.URL + "/"}
	for _, test := range []struct{ release, control string }{
		{"edge", "linkerd-control-plane-2025.10.1.tgz"},
		{"edge-25.8.7", "linkerd-control-plane-2025.8.7.tgz"},
		{"2025.9.2", "linkerd-control-plane-2025.9.2.tgz"},
	} {
		s, err := b.linkerdSource(t.Context(), newMeter(nil), test.release)
		if err != nil {
			t.Errorf("%s: %v", test.release, err)
			continue
		}
		control, err := os.ReadFile(s.control)
		if err != nil || string(control) != test.control {
			t.Errorf("%s: the control plane's chart is %q, %v", test.release, control, err)
		}
		crds, err := os.ReadFile(s.crds)
		if want := strings.Replace(test.control, "control-plane", "crds", 1); err != nil || string(crds) != want {
			t.Errorf("%s: the chart of CRDs is %q, %v, want %s", test.release, crds, err, want)
		}
		if s.programs != nil || s.tag != "" || len(s.versions) != 2 {
			t.Errorf("%s: %+v", test.release, s)
		}
	}
	for release, want := range map[string]string{"edge-25.1.1": "there is no chart linkerd-control-plane of Linkerd's release edge-25.1.1",
		"stable-2.14.10": "there is no chart linkerd-crds of Linkerd's release"} {
		if _, err := b.linkerdSource(t.Context(), newMeter(nil), release); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", release, err)
		}
	}
	// Once downloaded, a release needs its repository no more.
	server.Close()
	if _, err := b.linkerdSource(t.Context(), newMeter(nil), "edge-25.8.7"); err != nil {
		t.Errorf("from the cache: %v", err)
	}
	if _, err := b.linkerdSource(t.Context(), newMeter(nil), "edge"); err == nil || !strings.Contains(errs.Hint(err), "--linkerd DIR") {
		t.Errorf("without the repository: %v (hint %q)", err, errs.Hint(err))
	}
}

func TestLinkerdReleaseSpoiled(t *testing.T) {
	server := chartServer(t, "linkerd-crds-2025.9.2.tgz")
	b := &Builder{cache: cache{dir: t.TempDir()}, charts: server.URL + "/"}
	if _, err := b.linkerdSource(t.Context(), newMeter(nil), "edge-25.9.2"); err == nil || !strings.Contains(err.Error(), "its digest is") {
		t.Errorf("a chart with another digest than the index says: %v", err)
	}
	if left := leftovers(t, b.cache); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCompareVersions(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"2025.10.1", "2025.9.9", 1}, {"2025.9.1", "2025.9.1", 0}, {"2026.1.1", "2025.12.9", 1}, {"1.2", "1.2.1", -1}, {"1.2.3-edge", "1.2.3", -1}} {
		got := compareVersions(test.a, test.b)
		if max(-1, min(1, got)) != test.want || max(-1, min(1, compareVersions(test.b, test.a))) != -test.want {
			t.Errorf("compareVersions(%s, %s) = %d", test.a, test.b, got)
		}
	}
}
