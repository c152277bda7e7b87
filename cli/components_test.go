package cli

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestComponentProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.Component(components.Event{Component: "kubernetes", Phase: components.PhaseBuild, Detail: "k8s.io/api", Left: time.Minute})
	p.Component(components.Event{Component: "kubernetes", Phase: components.PhaseReady})
	if out.Len() > 0 {
		t.Errorf("%q for nobody to look at", out.String())
	}
	p.Component(components.Event{Component: "debian", Phase: components.PhaseNote, Detail: "runc is 2"})
	if out.String() != "debian: runc is 2\n" {
		t.Errorf("the note came out as %q", out.String())
	}
	out.Reset()
	p.width = 60
	p.Component(components.Event{Component: "kubernetes", Phase: components.PhaseBuild, Detail: "k8s.io/" + strings.Repeat("x", 80), Left: 61 * time.Second})
	if !strings.Contains(out.String(), "build kubernetes (about 1m1s left)  k8s.io/") || strings.Contains(out.String(), "\n") {
		t.Errorf("on a terminal it came out as %q", out.String())
	}
}

// --push prints exactly what --image takes, and nothing else.
func TestPushRoles(t *testing.T) {
	home := t.TempDir()
	for _, v := range []string{"HOME", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"} { // a user without credentials
		t.Setenv(v, home)
	}
	t.Setenv("MESHTRIAL_CACHE", filepath.Join(home, "cache"))
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://") + "/tools/meshtrial"
	program := filepath.Join(home, "program")
	var b bytes.Buffer
	h := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT)}
	must.OK(t, errors.Join(binary.Write(&b, binary.LittleEndian, h), os.WriteFile(program, b.Bytes(), 0o755)))
	push := func(args ...string) string {
		t.Helper()
		out, _ := succeeds(t, append([]string{"lab", "components", "images", "--program", program, "--push", at + ":mine"}, args...)...)
		return out
	}
	ref := strings.TrimSuffix(push(), "\n")
	if !regexp.MustCompile("^" + regexp.QuoteMeta(at) + "@sha256:[0-9a-f]{64}$").MatchString(ref) {
		t.Errorf("printed %q", ref)
	}
	if parsed, err := name.NewDigest(ref); err != nil {
		t.Error(err)
	} else if _, err := remote.Image(parsed); err != nil {
		t.Errorf("pulling %s: %v", ref, err)
	}
	var printed struct{ Schema, Image, Digest string }
	if err := json.Unmarshal([]byte(push("--json")), &printed); err != nil || printed.Schema != componentsSchema ||
		printed.Image != ref || printed.Digest != ref[len(at)+1:] {
		t.Errorf("as JSON %+v, %v", printed, err)
	}
	if _, err := os.Stat(filepath.Join(home, "cache")); err == nil {
		t.Error("a push made a cache")
	}
}
