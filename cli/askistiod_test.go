package cli

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// --istiod names a file, the image in question, or another image. The program is extracted from
// an image and run.
func TestAskImage(t *testing.T) {
	home := t.TempDir()
	for _, v := range []string{"HOME", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"} { // a user without credentials
		t.Setenv(v, home)
	}
	t.Setenv("MESHTRIAL_CACHE", filepath.Join(home, "cache"))
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	script := "#!/bin/sh\ncase $1 in\ncollateral) printf '<h2 id=\"envvars\">\\n<tr id=a>\\n<td>PILOT_A</td>\\n<td>String</td>\\n<td></td>\\n<td>a</td>\\n</tr>\\n' >\"$4/pilot.html\" ;;\nversion) echo client version: 9.9 ;;\nesac\n"
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must.OK(t, w.WriteHeader(&tar.Header{Name: inImage, Mode: 0o755, Typeflag: tar.TypeReg,
		Size: int64(len(script))}))
	must.OK(t, must.Err(w.Write([]byte(script))))
	must.OK(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	})
	must.OK(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	must.OK(t, err)
	ref := strings.TrimPrefix(server.URL, "http://") + "/istio/pilot:9.9"
	parsed, err := name.ParseReference(ref)
	must.OK(t, err)
	must.OK(t, remote.Write(parsed, image))
	for _, c := range []struct{ named, image, version, note string }{
		{"oci://" + ref, "", "", ""},
		{"image", ref, "9.9", ""},
		{"image", ref, "9.8", "the settings are those of istiod 9.9, but istiod 9.8 was measured"},
	} {
		known, note, err := askIstiod(t.Context(), c.named, c.version, c.image)
		if err != nil || known.Version != "9.9" || !strings.Contains(known.Source, "/istio/pilot@sha256:") ||
			len(known.Variables) != 1 || note != c.note {
			t.Errorf("%+v: %+v, %q, %v", c, known, note, err)
		}
	}
	for _, image := range []string{"", study.LevelDefault} {
		if _, _, err := askIstiod(t.Context(), "image", "9.9", image); errs.Code(err) != errs.CodeUsage {
			t.Errorf("image %q: %v", image, err)
		}
	}
}

func TestImageOf(t *testing.T) {
	found := record.Trial{Control: &record.Control{Installed: record.Cell{controlplane.FactorIstiod: "r/pilot:2"}}}
	for want, run := range map[string]record.Run{
		"":          {Trials: []record.Trial{{Cell: record.Cell{controlplane.FactorIstiod: study.LevelDefault}}}},
		"r/pilot:2": {Trials: []record.Trial{{}, found}},
		"r/pilot:1": {Trials: []record.Trial{{Cell: record.Cell{controlplane.FactorIstiod: "r/pilot:1"}}}},
	} {
		if got := imageOf(run); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
