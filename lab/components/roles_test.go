package components

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// programHeader is what a program for a processor begins with.
func programHeader(t *testing.T, machine elf.Machine) string {
	t.Helper()
	var b bytes.Buffer
	h := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT)}
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// staticProgram makes a program that needs no libraries, nor does anything.
func staticProgram(t *testing.T, machine elf.Machine, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "meshtrial")
	if err := os.WriteFile(path, []byte(programHeader(t, machine)+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is pulled is what was pushed: compressed layers, the program inside, and
// the same digest each time.
func TestRolesImage(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	to, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/meshtrial:v1")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("roles ", 10_000)
	for machine, arch := range map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"} {
		program := staticProgram(t, machine, text)
		made, err := RolesImage(program)
		if err != nil {
			t.Fatal(err)
		}
		again, err := RolesImage(program)
		if err != nil || digestOf(again) != digestOf(made) {
			t.Errorf("made twice it is %s and %s, %v", digestOf(made), digestOf(again), err)
		}
		if err := remote.Write(to, made); err != nil {
			t.Fatal(err)
		}
		image, err := remote.Image(to)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(image); err != nil {
			t.Error(err)
		}
		if digestOf(image) != digestOf(made) {
			t.Errorf("pushed was %s, pulled is %s", digestOf(made), digestOf(image))
		}
		if got, h := fileIn(t, image, "usr/local/bin/meshtrial"); got != programHeader(t, machine)+text || h.Mode != 0o755 {
			t.Errorf("the program inside has %d bytes, %+v", len(got), h)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.OS != "linux" || config.Config.User != userRoles ||
			!slices.Equal(config.Config.Entrypoint, []string{"/usr/local/bin/meshtrial"}) || !slices.Equal(config.Config.Env, []string{searchPath}) {
			t.Errorf("%s has the configuration %+v", arch, config)
		}
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		var size int64
		for _, l := range manifest.Layers {
			size += l.Size
			if l.MediaType != types.OCILayer {
				t.Errorf("a layer is of the type %s", l.MediaType)
			}
		}
		if size > int64(len(text)/2) {
			t.Errorf("its layers have %d bytes, the program %d", size, len(text))
		}
	}
}

// The archive and what a registry holds are the same files.
func TestRolesArchive(t *testing.T) {
	b := &Builder{cache: cache{dir: t.TempDir()}}
	program := staticProgram(t, elf.EM_X86_64, "roles")
	images, err := b.Images(t.Context(), ImageOptions{RolesOnly: true, MeshtrialBinary: program})
	if err != nil || len(images) != 1 || images[0].Ref != RolesRef {
		t.Fatalf("made %+v, %v", images, err)
	}
	_, archived := extract(t, images[0].Path)
	checkImage(t, archived)
	pushed, err := RolesImage(program)
	if err != nil {
		t.Fatal(err)
	}
	one, err1 := archived.ConfigFile()
	other, err2 := pushed.ConfigFile()
	if err1 != nil || err2 != nil || !slices.Equal(one.RootFS.DiffIDs, other.RootFS.DiffIDs) || one.Architecture != other.Architecture {
		t.Errorf("the archive holds %+v, the registry %+v", one, other)
	}
}

func TestCheckStatic(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := checkStatic(text); errs.Code(err) != errs.CodeUsage {
		t.Errorf("no program: %v", err)
	}
	if _, err := checkStatic(staticProgram(t, elf.EM_MIPS, "")); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "EM_MIPS") {
		t.Errorf("another processor: %v", err)
	}
	if _, err := os.Stat("/bin/ls"); err != nil {
		t.Skip("no dynamic program at /bin/ls")
	}
	if _, err := checkStatic("/bin/ls"); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "CGO_ENABLED=0") {
		t.Errorf("dynamic program: %v", err)
	}
}
