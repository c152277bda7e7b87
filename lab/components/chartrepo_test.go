package components

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// The chart of a release is found by its own version or its app's, and must have the digest that the
// index has.
func TestFetchCharts(t *testing.T) {
	const archive = "an archive"
	sum := sha256.Sum256([]byte(archive))
	digest := hex.EncodeToString(sum[:])
	index := func(version, app, digest, urls string) string {
		return fmt.Sprintf("entries: {base: [{name: base, version: 9.9.9, urls: [none.tgz]}, {name: base, version: %q, appVersion: %q, digest: %q, urls: [%s]}]}", version, app, digest, urls)
	}
	for name, tt := range map[string]struct{ index, says string }{ // says: part of the error; "" for none
		"by its version":       {index("1.30.2", "", digest, "base.tgz"), ""},
		"by its app's version": {index("3.0.0", "1.30.2", digest, "base.tgz"), ""},
		"at another path":      {index("1.30.2", "", digest, "/charts/base.tgz"), ""},
		"another release":      {index("1.30.1", "1.30.1", digest, "base.tgz"), "release 1.30.2 has no chart base"},
		"another digest":       {index("1.30.2", "", strings.Repeat("0", 64), "base.tgz"), "its digest is " + digest},
		"no digest":            {index("1.30.2", "", "", "base.tgz"), "its digest is " + digest},
		"no address":           {index("1.30.2", "", digest, ""), "has no address for chart base"},
		"an address elsewhere": {index("1.30.2", "", digest, "oci://example.com/base"), "unsupported protocol scheme"},
		"gone":                 {index("1.30.2", "", digest, "gone.tgz"), "404 Not Found"},
		"not an index":         {"[", "charts of 1.30.2: "},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/charts/index.yaml", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.index) })
			mux.HandleFunc("/charts/base.tgz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, archive) })
			server := httptest.NewServer(mux)
			defer server.Close()
			dir := t.TempDir()
			got, err := ChartRepository(server.URL+"/charts/").Fetch(t.Context(), dir, "1.30.2", "base")
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			must.OK(t, err)
			text, err := os.ReadFile(filepath.Join(dir, "base.tgz"))
			if err != nil || string(text) != archive || len(got) != 1 || got[0].Version != "1.30.2" || got[0].Digest != "sha256:"+digest {
				t.Errorf("%q, %+v, %v", text, got, err)
			}
		})
	}
}
