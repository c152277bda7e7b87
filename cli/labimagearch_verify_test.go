//go:build verify

package cli_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/module"
	"github.com/meshtrial/meshtrial/testing/must"
)

// An image for another processor is built from the same components, and each program and library
// in it is for that processor. None of them is run.
func TestStandaloneImageForAnotherProcessor(t *testing.T) {
	arch, machine := "arm64", elf.EM_AARCH64
	if runtime.GOARCH == arch {
		arch, machine = "amd64", elf.EM_X86_64
	}
	root, err := module.Root()
	must.OK(t, err)
	program, other := labtest.Program(t), filepath.Join(t.TempDir(), "meshtrial")
	build := exec.Command("make", "-C", root, "build", "BIN="+other)
	build.Env = append(os.Environ(), "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program, "lab", "image", "--json", "--program", other, "--out", filepath.Join(t.TempDir(), "image.tar")).Output()
	must.OK(t, err)
	var made components.Standalone
	must.OK(t, json.Unmarshal(out, &made))

	image, err := tarball.ImageFromPath(made.Path, nil)
	must.OK(t, err)
	config, err := image.ConfigFile()
	must.OK(t, err)
	if made.Platform != "linux/"+arch || config.OS != "linux" || config.Architecture != arch {
		t.Errorf("it says %s, its configuration %s/%s", made.Platform, config.OS, config.Architecture)
	}
	files := mutate.Extract(image)
	defer files.Close()
	names, programs := map[string]bool{}, 0 // of files and links
	for archive := tar.NewReader(files); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.OK(t, err)
		names[path.Base(h.Name)] = true
		data, err := io.ReadAll(archive)
		must.OK(t, err)
		f, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			continue // no program
		}
		if programs++; f.Machine != machine {
			t.Errorf("%s is for %v", h.Name, f.Machine)
		}
	}
	for _, c := range components.Table() {
		for _, p := range c.Programs {
			if file, _, _ := strings.Cut(p, "@"); !c.Optional && !names[file] { // envoy@VERSION is envoy
				t.Errorf("%s is missing", file)
			}
		}
	}
	t.Logf("%d programs and libraries, %.0f MB, unpacked %.0f MB", programs, float64(made.Size)/1e6, float64(made.Unpacked)/1e6)
	if programs < 100 {
		t.Errorf("only %d programs and libraries", programs)
	}
}
