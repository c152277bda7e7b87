//go:build verify

package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The image that stands alone is small enough, is the same each time, and has in itself all
// that its program looks for, which runs with nothing beside it.
func TestStandaloneImage(t *testing.T) {
	program, dir := labtest.Program(t), t.TempDir()
	var made components.Standalone
	for _, name := range []string{"first.tar", "second.tar"} {
		out, err := exec.Command(program, "lab", "image", "--json", "--out", filepath.Join(dir, name)).Output()
		must.OK(t, err)
		before := made.Digest
		must.OK(t, json.Unmarshal(out, &made))
		if before != "" && made.Digest != before {
			t.Errorf("it is %s, then %s", before, made.Digest)
		}
	}
	t.Logf("%.0f MB, unpacked %.0f MB", float64(made.Size)/1e6, float64(made.Unpacked)/1e6)
	if made.Size > 350e6 || made.Unpacked > 900e6 {
		t.Errorf("it is %d bytes, and unpacked %d", made.Size, made.Unpacked)
	}

	image, err := tarball.ImageFromPath(made.Path, nil)
	must.OK(t, err)
	config, err := image.ConfigFile()
	must.OK(t, err)
	root := filepath.Join(dir, "root")
	must.OK(t, os.Mkdir(root, 0o755))
	files := mutate.Extract(image)
	defer files.Close()
	unpack := exec.Command("tar", "-x", "-C", root)
	unpack.Stdin = files
	must.OK(t, unpack.Run())

	inside := func(path string, args ...string) []byte {
		t.Helper()
		cmd := exec.Command(path, args...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = config.Config.WorkingDir, config.Config.Env, &syscall.SysProcAttr{Chroot: root}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v in the image: %v", path, args, err)
		}
		return out
	}
	var built struct{ Programs []components.Located }
	must.OK(t, json.Unmarshal(inside(config.Config.Entrypoint[0], "lab", "components", "build", "--json"), &built))
	for _, p := range built.Programs {
		if p.Name == "runc" { // which starts itself again without its environment
			inside(p.Path, "--version")
		}
		if !strings.HasPrefix(p.Path, "/usr/local/share/meshtrial/entries/") {
			t.Errorf("%s is at %s", p.Name, p.Path)
		}
	}
	if len(built.Programs) < 15 {
		t.Errorf("only %d programs", len(built.Programs))
	}
	if left, err := os.ReadDir(filepath.Join(root, "meshtrial")); err != nil || len(left) > 0 {
		t.Errorf("written beside the image: %v, %v", left, err)
	}
	for _, tool := range []string{"mount", "umount"} { // with their libraries
		if out := inside("/usr/bin/"+tool, "--version"); !strings.Contains(string(out), "util-linux") {
			t.Errorf("%s says %q", tool, out)
		}
	}
}
