package ui

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/nodetest"
)

// TestPageIsWhatItsSourcesMake builds the page again and compares.
func TestPageIsWhatItsSourcesMake(t *testing.T) {
	vite := nodetest.Program(t, "web", filepath.Join("vite", "bin", "vite.js"))
	nodetest.DependsOn(t, "web/src", "web/index.html", "web/package.json", "web/package-lock.json", "web/tsconfig.json", "web/vite.config.ts")
	out := t.TempDir()
	nodetest.Run(t, "web", vite, "build", "--outDir", out, "--emptyOutDir", "--logLevel", "error")
	again, err := os.ReadFile(filepath.Join(out, "index.html"))
	must.OK(t, err)
	if !bytes.Equal(again, built) {
		t.Errorf("dist/index.html has %d bytes that are not the %d its sources in web/ make; build it again: make web", len(built), len(again))
	}
}

func TestPageStandsAlone(t *testing.T) {
	if len(built) > 400<<10 {
		t.Errorf("the page has %d bytes, over 400 KiB", len(built))
	}
	for _, bad := range []string{"<link", " src=", "@import", "url(http", "sourceMappingURL", "fonts.g"} {
		if bytes.Contains(built, []byte(bad)) {
			t.Errorf("the page refers to something outside itself: %s", bad)
		}
	}
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]+)"`).FindSubmatch(built)
	script := regexp.MustCompile(`(?s)<script type="module">(.*?)</script>`).FindAllSubmatch(built, -1)
	if policy == nil || len(script) != 1 {
		t.Fatalf("policy %v, %d scripts", policy != nil, len(script))
	}
	sum := sha256.Sum256(script[0][1])
	for _, want := range []string{"default-src 'none'", "script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"} {
		if !bytes.Contains(policy[1], []byte(want)) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	if bytes.Contains(policy[1], []byte("connect-src")) {
		t.Error("the policy allows connections")
	}
}

func TestWritePageKeepsDataInItsElement(t *testing.T) {
	in := map[string]string{"a": "</script><script>alert(1)</script><!-- \u2028 & " + slot}
	data, err := json.Marshal(in)
	must.OK(t, err)
	// As an encoder without escaping would write it.
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	must.OK(t, encoder.Encode(in))
	for _, document := range [][]byte{data, raw.Bytes()} {
		var page bytes.Buffer
		must.OK(t, WritePage(&page, document))
		if got, want := bytes.Count(page.Bytes(), []byte("<")), bytes.Count(built, []byte("<")); got != want {
			t.Errorf("data adds markup: %d '<', want %d", got, want)
		}
		_, rest, _ := bytes.Cut(page.Bytes(), []byte(`id="meshtrial-data">`))
		inside, _, _ := bytes.Cut(rest, []byte("</script>"))
		var out map[string]string
		if err := json.Unmarshal(inside, &out); err != nil || out["a"] != in["a"] {
			t.Errorf("data comes back as %q, %v", out, err)
		}
	}
	if err := WritePage(&bytes.Buffer{}, []byte("</script>")); err == nil {
		t.Error("takes data that is not JSON")
	}
}

func TestLockNamesNoHost(t *testing.T) {
	lock, err := os.ReadFile("web/package-lock.json")
	must.OK(t, err)
	if bytes.Contains(lock, []byte(`"resolved"`)) || bytes.Contains(lock, []byte("registry.")) {
		t.Error("web/package-lock.json names a registry; web/.npmrc keeps it out: npm install in that folder")
	}
	if !bytes.Contains(lock, []byte(`"integrity": "sha512-`)) {
		t.Error("web/package-lock.json pins no content")
	}
}
