package components

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// serveRegistry serves an empty registry; hub is a folder in it.
func serveRegistry(t *testing.T) (server *httptest.Server, hub string) {
	t.Helper()
	server = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return server, strings.TrimPrefix(server.URL, "http://") + "/istio"
}

// pushRandom pushes a new random image to a registry.
func pushRandom(t *testing.T, ref string) v1.Image {
	t.Helper()
	image, err := random.Image(1000, 2)
	must.OK(t, err)
	parsed, err := name.ParseReference(ref)
	must.OK(t, err)
	must.OK(t, remote.Write(parsed, image))
	return image
}

func TestPull(t *testing.T) {
	server, hub := serveRegistry(t)
	pushed := map[string]string{}
	for _, ref := range []string{hub + "/pilot:1.2.3", hub + "/proxyv2:1.2.3"} {
		pushed[ref] = digestOf(pushRandom(t, ref))
	}
	b := &Builder{cache: cache{dir: t.TempDir()}}
	o := Pull{Refs: []string{hub + "/pilot:1.2.3", hub + "/proxyv2:1.2.3"}, Hint: "--images built"}
	images, err := b.Pull(t.Context(), o)
	must.OK(t, err)
	if len(images) != 2 || images[0].Ref != hub+"/pilot:1.2.3" || images[1].Ref != hub+"/proxyv2:1.2.3" {
		t.Fatalf("pulled %+v", images)
	}
	for _, i := range images {
		ref, image := extract(t, i.Path)
		if err := validate.Image(image); err != nil {
			t.Error(err)
		}
		if ref != i.Ref || i.Digest != pushed[ref] || digestOf(image) != i.Digest {
			t.Errorf("%+v holds %s %s, pushed was %s", i, ref, digestOf(image), pushed[ref])
		}
	}
	// After the pull, the registry is no longer needed.
	server.Close()
	again, err := b.Pull(t.Context(), o)
	if err != nil || !slices.Equal(again, images) {
		t.Errorf("again: %+v, %v", again, err)
	}
	o.Refs = []string{hub + "/pilot:1.2.4"}
	_, err = b.Pull(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), hub+"/pilot:1.2.4") || !strings.Contains(errs.Hint(err), "--images built") ||
		!strings.Contains(errs.Hint(err), "registry "+strings.TrimSuffix(hub, "/istio")+" must be reachable") {
		t.Errorf("without the registry: %v (hint %q)", err, errs.Hint(err))
	}
	nothingLeft(t, b.cache)
	o.Refs = []string{hub + "/pilot:no tag"}
	if _, err := b.Pull(t.Context(), o); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a tag that is none: %v", err)
	}
}

// A truncated layer must not count as an image.
func TestPullBrokenOff(t *testing.T) {
	server, hub := serveRegistry(t)
	ref := hub + "/pilot:1"
	image := pushRandom(t, ref)
	layers, err := image.Layers()
	must.OK(t, err)
	digest, err := layers[0].Digest()
	must.OK(t, err)
	server.Config.Handler = corrupt{server.Config.Handler, digest.String()}
	b := &Builder{cache: cache{dir: t.TempDir()}}
	if _, err := b.Pull(t.Context(), Pull{Refs: []string{ref}}); err == nil {
		t.Error("a corrupted layer was taken")
	}
	nothingLeft(t, b.cache)
}

// A pull by digest does not follow a moved tag.
func TestPullByDigest(t *testing.T) {
	_, hub := serveRegistry(t)
	push := func() (digests []string) {
		for _, ref := range []string{hub + "/pilot:1", hub + "/proxyv2:1"} {
			digests = append(digests, digestOf(pushRandom(t, ref)))
		}
		return digests
	}
	refs := []string{hub + "/pilot:1", hub + "/proxyv2:1"}
	first := push()
	pins := map[string]string{refs[0]: first[0], refs[1]: first[1]}
	second := push()
	b := &Builder{cache: cache{dir: t.TempDir()}}
	pull := func(p Pull) []Image {
		images, err := b.Pull(t.Context(), p)
		if err != nil || len(images) != 2 {
			t.Fatalf("%+v: %v", p, err)
		}
		return images
	}
	moved, pinned := pull(Pull{Refs: refs}), pull(Pull{Refs: refs, Pins: pins})
	for i, image := range []string{"/pilot", "/proxyv2"} {
		if moved[i].Digest != second[i] || pinned[i].Digest != first[i] || pinned[i].Ref != hub+image+":1" {
			t.Errorf("by tag %+v, by digest %+v; pushed %s, then %s", moved[i], pinned[i], first[i], second[i])
		}
		if ref, held := extract(t, pinned[i].Path); ref != pinned[i].Ref || digestOf(held) != first[i] {
			t.Errorf("the archive holds %s %s", ref, digestOf(held))
		}
	}
	// If the registry lacks a digest, the pull does not fall back to another.
	pins[refs[0]] = "sha256:" + strings.Repeat("0", 64)
	if _, err := b.Pull(t.Context(), Pull{Refs: refs, Pins: pins}); err == nil || !strings.Contains(err.Error(), "/pilot:1@sha256:000") {
		t.Errorf("a digest of nothing: %v", err)
	}
}

// corrupt is a registry that serves one blob with a bit flipped.
type corrupt struct {
	http.Handler
	digest string
}

func (c corrupt) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, c.digest) {
		c.Handler.ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	c.Handler.ServeHTTP(rec, r)
	b := rec.Body.Bytes()
	b[len(b)/2] ^= 1
	w.WriteHeader(rec.Code)
	_, _ = w.Write(b)
}

// A chart is pulled once, and stays available without the registry.
func TestPullChart(t *testing.T) {
	server, hub := serveRegistry(t)
	push := func(ref string, layers ...v1.Layer) {
		t.Helper()
		image, err := mutate.AppendLayers(empty.Image, layers...)
		must.OK(t, err)
		parsed, err := name.ParseReference(ref)
		must.OK(t, err)
		must.OK(t, remote.Write(parsed, image))
	}
	push(hub+"/gateway-helm:v1.2.3", static.NewLayer([]byte("{}"), "application/json"), static.NewLayer([]byte("an archive"), chartLayer))
	push(hub+"/no-chart:v1", static.NewLayer([]byte("x"), "application/json"))
	b := &Builder{cache: cache{dir: t.TempDir()}}
	path, versions, err := b.PullChart(t.Context(), hub+"/gateway-helm:v1.2.3", "")
	must.OK(t, err)
	if text, err := os.ReadFile(path); err != nil || string(text) != "an archive" || len(versions) != 1 || versions[0].Version != "v1.2.3" {
		t.Errorf("%q, %v; %+v", text, err, versions)
	}
	if _, _, err := b.PullChart(t.Context(), hub+"/no-chart:v1", ""); err == nil || !strings.Contains(err.Error(), "no layer with a Helm chart") {
		t.Errorf("an image without a chart: %v", err)
	}
	server.Close()
	if again, _, err := b.PullChart(t.Context(), hub+"/gateway-helm:v1.2.3", ""); err != nil || again != path {
		t.Errorf("again: %s, %v", again, err)
	}
	if _, _, err := b.PullChart(t.Context(), hub+"/gateway-helm:v1.2.4", "--envoy-gateway DIR"); err == nil || !strings.Contains(errs.Hint(err), "--envoy-gateway DIR") {
		t.Errorf("without the registry: %v (hint %q)", err, errs.Hint(err))
	}
	nothingLeft(t, b.cache)
}
