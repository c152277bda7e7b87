package components

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/meshtrial/meshtrial/internal/errs"
)

func TestOfficial(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	hub := strings.TrimPrefix(server.URL, "http://") + "/istio"
	pushed := map[string]string{}
	for _, ref := range (istioRelease{tag: "1.2.3"}).refs(hub) {
		image, err := random.Image(1000, 3)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := name.ParseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(parsed, image); err != nil {
			t.Fatal(err)
		}
		pushed[ref] = digestOf(image)
	}
	b := &Builder{cache: cache{dir: t.TempDir()}}
	o := ImageOptions{Official: true, Hub: hub, Tag: "1.2.3"}
	images, err := b.official(t.Context(), newMeter(nil), o)
	if err != nil {
		t.Fatal(err)
	}
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
	// Once pulled, the registry is not needed any more.
	server.Close()
	again, err := b.official(t.Context(), newMeter(nil), o)
	if err != nil || !slices.Equal(again, images) {
		t.Errorf("again: %+v, %v", again, err)
	}
	o.Tag = "1.2.4"
	_, err = b.official(t.Context(), newMeter(nil), o)
	if err == nil || !strings.Contains(err.Error(), hub+"/pilot:1.2.4") || !strings.Contains(errs.Hint(err), "--images built") ||
		!strings.Contains(errs.Hint(err), "the registry "+strings.TrimSuffix(hub, "/istio")+" must be reachable") {
		t.Errorf("without the registry: %v (hint %q)", err, errs.Hint(err))
	}
	if left := leftovers(t, b.cache); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	o.ByReference = true
	named, err := b.official(t.Context(), newMeter(nil), o)
	if err != nil || len(named) != 2 || named[0] != (Image{Ref: hub + "/pilot:1.2.4"}) {
		t.Errorf("by reference: %+v, %v", named, err)
	}
	o.Tag = "no tag"
	if _, err := b.official(t.Context(), newMeter(nil), o); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a tag that is none: %v", err)
	}
}

func TestOfficialDefaults(t *testing.T) {
	want := []string{"docker.io/istio/pilot:" + istioOfficial, "docker.io/istio/proxyv2:" + istioOfficial}
	r, err := parseRelease("")
	if got := r.refs(""); err != nil || !slices.Equal(got, want) || r.pins("") != nil {
		t.Errorf("default references %q, want %q; %v", got, want, err)
	}
}

// A layer that stops in the middle must not pass for an image.
func TestOfficialBrokenOff(t *testing.T) {
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(handler)
	defer server.Close()
	hub := strings.TrimPrefix(server.URL, "http://") + "/istio"
	ref := (istioRelease{tag: "1"}).refs(hub)[0]
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(1000, 1)
	if err == nil {
		err = remote.Write(parsed, image)
	}
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = corrupt{handler, digest.String()}
	b := &Builder{cache: cache{dir: t.TempDir()}}
	if _, err := b.official(t.Context(), newMeter(nil), ImageOptions{Hub: hub, Tag: "1"}); err == nil {
		t.Error("a corrupted layer was taken")
	}
	if left := leftovers(t, b.cache); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestManifestSettings(t *testing.T) {
	settings := func(o ManifestOptions) []string {
		s, err := o.settings()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	built := settings(ManifestOptions{Set: []string{"values.pilot.env.PILOT_DEBOUNCE_AFTER=2500ms"}})
	for _, want := range []string{"profile=minimal", "hub=docker.io/istio", "tag=" + IstioTag, "values.telemetry.enabled=false",
		"values.pilot.env.PILOT_ENABLE_METADATA_EXCHANGE=false", "values.pilot.env.PILOT_ENABLE_ALPN_FILTER=false"} {
		if !slices.Contains(built, want) {
			t.Errorf("settings %q lack %s", built, want)
		}
	}
	if built[len(built)-1] != "values.pilot.env.PILOT_DEBOUNCE_AFTER=2500ms" {
		t.Error("the user's settings do not come last")
	}
	official := strings.Join(settings(ManifestOptions{Official: true, Hub: "example.org/istio/", Tag: "1"}), "\n")
	for _, bad := range []string{"telemetry", "METADATA_EXCHANGE", "ALPN"} {
		if strings.Contains(official, bad) {
			t.Errorf("Istio's own Envoy is limited by %s", bad)
		}
	}
	if !strings.Contains(official, "hub=example.org/istio\ntag=1") {
		t.Errorf("official settings are %s", official)
	}
}

// A tag that moves takes nobody along who gave digests.
func TestOfficialByDigest(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	hub := strings.TrimPrefix(server.URL, "http://") + "/istio"
	push := func() (digests []string) {
		for _, ref := range (istioRelease{tag: "1"}).refs(hub) {
			image, err := random.Image(1000, 1)
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := name.ParseReference(ref)
			if err == nil {
				err = remote.Write(parsed, image)
			}
			if err != nil {
				t.Fatal(err)
			}
			digests = append(digests, digestOf(image))
		}
		return digests
	}
	first := push()
	tag := "1@" + first[0] + "," + first[1]
	second := push()
	b := &Builder{cache: cache{dir: t.TempDir()}}
	pull := func(tag string, byReference bool) []Image {
		images, err := b.official(t.Context(), newMeter(nil), ImageOptions{Official: true, Hub: hub, Tag: tag, ByReference: byReference})
		if err != nil || len(images) != 2 {
			t.Fatalf("%s: %v", tag, err)
		}
		return images
	}
	moved, pinned, named := pull("1", false), pull(tag, false), pull(tag, true)
	for i, image := range []string{"/pilot", "/proxyv2"} {
		if moved[i].Digest != second[i] || pinned[i].Digest != first[i] || pinned[i].Ref != hub+image+":1" || named[i].Ref != hub+image+":1@"+first[i] {
			t.Errorf("by tag %+v, by digest %+v, named %+v; pushed %s, then %s", moved[i], pinned[i], named[i], first[i], second[i])
		}
		if ref, held := extract(t, pinned[i].Path); ref != pinned[i].Ref || digestOf(held) != first[i] {
			t.Errorf("the archive holds %s %s", ref, digestOf(held))
		}
	}
	// A digest that the registry does not have is no reason to take another.
	none := "1@sha256:" + strings.Repeat("0", 64) + "," + first[1]
	if _, err := b.official(t.Context(), newMeter(nil), ImageOptions{Official: true, Hub: hub, Tag: none}); err == nil || !strings.Contains(err.Error(), "/pilot:1@sha256:000") {
		t.Errorf("a digest of nothing: %v", err)
	}
	for byReference, want := range map[bool][]string{false: {"hub=" + hub, "tag=1"}, true: {"hub=" + hub, "tag=1", "values.pilot.image=" + hub + "/pilot:1@" + first[0],
		"values.global.proxy.image=" + hub + "/proxyv2:1@" + first[1], "values.global.proxy_init.image=" + hub + "/proxyv2:1@" + first[1]}} {
		r, err := parseRelease(tag)
		if got := r.settings(hub, byReference); err != nil || !slices.Equal(got, want) {
			t.Errorf("settings by reference %v: %q, want %q; %v", byReference, got, want, err)
		}
	}
}

func TestCheckTag(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, good := range []string{"", "1.31.1", "1@" + digest + "," + digest} {
		if err := CheckTag(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"1@", "1@" + digest, "1@" + digest + ",", "1@," + digest, "@" + digest + "," + digest, "1@" + digest[:70] + "," + digest,
		"1@" + digest + "," + digest + "," + digest, "1@" + strings.ToUpper(digest) + "," + digest} {
		if err := CheckTag(bad); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("%q: %v", bad, err)
		}
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
