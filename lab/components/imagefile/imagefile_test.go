package imagefile

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// layerWith returns a layer of files: names and contents; a name ending in @ is a
// link.
func layerWith(t *testing.T, pairs ...string) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		h := &tar.Header{Name: pairs[i], Mode: 0o755, Typeflag: tar.TypeReg, Size: int64(len(pairs[i+1]))}
		if link, ok := strings.CutSuffix(pairs[i], "@"); ok {
			h = &tar.Header{Name: link, Typeflag: tar.TypeSymlink, Linkname: pairs[i+1]}
		}
		must.OK(t, w.WriteHeader(h))
		if h.Typeflag == tar.TypeReg {
			must.OK(t, must.Err(w.Write([]byte(pairs[i+1]))))
		}
	}
	must.OK(t, w.Close())
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	must.OK(t, err)
	return l
}

// A program is extracted from the topmost layer of the image that has it.
func TestTake(t *testing.T) {
	home := t.TempDir()
	for _, v := range []string{"HOME", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"} { // a user without credentials
		t.Setenv(v, home)
	}
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	forged := "" // the blob that is replaced by another
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forged == "" || r.Method != http.MethodGet || path.Base(r.URL.Path) != forged {
			store.ServeHTTP(w, r)
			return
		}
		w.(http.Flusher).Flush() // so that the length is not known beforehand
		blob, err := layerWith(t, "usr/local/bin/istiod", "evil").Compressed()
		if err == nil {
			_, err = io.Copy(w, blob)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	const file = "usr/local/bin/istiod"
	for tag, c := range map[string]struct {
		layers []v1.Layer
		want   string // content, or part of the error
		fails  bool
	}{
		"one":     {[]v1.Layer{layerWith(t, "etc/other", "x", "./usr/local/bin/istiod", "one")}, "one", false},
		"two":     {[]v1.Layer{layerWith(t, file, "below"), layerWith(t, file, "above"), layerWith(t, "etc/other", "x")}, "above", false},
		"none":    {[]v1.Layer{layerWith(t, "etc/other", "x")}, "it has no usr/local/bin/istiod", true},
		"gone":    {[]v1.Layer{layerWith(t, file, "below"), layerWith(t, "usr/local/bin/.wh.istiod", "")}, "it has no", true},
		"folder":  {[]v1.Layer{layerWith(t, file, "below"), layerWith(t, "usr/.wh.local", "")}, "it has no", true},
		"opaque":  {[]v1.Layer{layerWith(t, file, "below"), layerWith(t, "usr/local/.wh..wh..opq", "", file, "anew")}, "anew", false},
		"link":    {[]v1.Layer{layerWith(t, file+"@", "/etc/passwd")}, "is not a file", true},
		"another": {[]v1.Layer{layerWith(t, file, "here"), layerWith(t, "usr/local/bin/.wh.other", "")}, "here", false},
	} {
		image, err := mutate.AppendLayers(empty.Image, c.layers...)
		must.OK(t, err)
		ref := strings.TrimPrefix(server.URL, "http://") + "/istio/pilot:" + tag
		parsed, err := name.ParseReference(ref)
		must.OK(t, err)
		must.OK(t, remote.Write(parsed, image))
		path, of, err := Take(t.Context(), ref, file, t.TempDir())
		if c.fails {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", tag, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tag, err)
			continue
		}
		got, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || string(got) != c.want || info.Mode()&0o111 == 0 {
			t.Errorf("%s: %q, %v", tag, got, err)
		}
		if !strings.Contains(of, "/istio/pilot@sha256:") {
			t.Errorf("%s: of %s", tag, of)
		}
	}
	large := filepath.Join(t.TempDir(), "large")
	if found, err := fromLayer(layerWith(t, file, "12345"), file, large, 4); !found || err == nil {
		t.Errorf("a program over the limit: %v", err)
	}
	digest, err := layerWith(t, "etc/other", "x", "./usr/local/bin/istiod", "one").Digest()
	must.OK(t, err)
	forged = digest.String()
	if _, _, err := Take(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/istio/pilot:one", file, t.TempDir()); err == nil || !strings.Contains(err.Error(), "verify") {
		t.Errorf("a layer that is not what its digest says: %v", err)
	}
	server.Close()
	if _, _, err := Take(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/istio/pilot:one", file, t.TempDir()); err == nil {
		t.Error("a registry that does not answer")
	}
	if _, _, err := Take(t.Context(), "not an image", file, t.TempDir()); errs.Code(err) != errs.CodeUsage {
		t.Error("no name of an image")
	}
}
