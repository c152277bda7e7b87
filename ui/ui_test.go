package ui

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sourcesDigest computes what web/vite.config.ts writes into the page.
func sourcesDigest(t *testing.T) string {
	t.Helper()
	files := []string{"index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"}
	err := filepath.WalkDir("web/src", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(filepath.ToSlash(path), "web/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	all := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join("web", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(all, "%x  %s\n", sha256.Sum256(data), file)
	}
	return hex.EncodeToString(all.Sum(nil))
}

func TestPageIsBuiltFromItsSources(t *testing.T) {
	found := regexp.MustCompile(`<meta name="meshtrial-sources" content="([0-9a-f]{64})">`).FindSubmatch(built)
	if found == nil {
		t.Fatal("dist/index.html does not say what it was built from; build it: make web")
	}
	if want := sourcesDigest(t); string(found[1]) != want {
		t.Error("dist/index.html is older than its sources in web/; build it again: make web")
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
	if err != nil {
		t.Fatal(err)
	}
	// As an encoder that escapes nothing would give it.
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(in); err != nil {
		t.Fatal(err)
	}
	for _, document := range [][]byte{data, raw.Bytes()} {
		var page bytes.Buffer
		if err := WritePage(&page, document); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(lock, []byte(`"resolved"`)) || bytes.Contains(lock, []byte("registry.")) {
		t.Error("web/package-lock.json names a registry; web/.npmrc keeps it out: npm install in that folder")
	}
	if !bytes.Contains(lock, []byte(`"integrity": "sha512-`)) {
		t.Error("web/package-lock.json pins no content")
	}
}
