package components

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A program whose libraries are not in the image would not start there.
func TestCheckRuns(t *testing.T) {
	f, err := elf.Open("/bin/sh")
	if err != nil {
		t.Skip("no program with libraries to try")
	}
	defer f.Close()
	needs, _ := f.ImportedLibraries()
	if len(needs) == 0 {
		t.Skip("/bin/sh needs no libraries")
	}
	debian := entry{dir: t.TempDir()}
	must.OK(t, os.Mkdir(debian.path("image"), 0o755))
	if err := checkRuns("/bin/sh", debian); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "/bin/sh needs library "+needs[0]) {
		t.Errorf("a program without its libraries: %v", err)
	}
}

// A tool's libraries are among the tools, or among the Debian files that the image has
// anyway.
func TestCheckTools(t *testing.T) {
	f, err := elf.Open("/bin/sh")
	if err != nil {
		t.Skip("no program with libraries to try")
	}
	defer f.Close()
	needs, _ := f.ImportedLibraries()
	program, err := os.ReadFile("/bin/sh")
	must.OK(t, err)
	debian := entry{dir: t.TempDir()}
	must.OK(t, errors.Join(os.Mkdir(debian.path("image"), 0o755), os.Mkdir(debian.path("tools"), 0o755), os.WriteFile(debian.path("tools/sh"), program, 0o755)))
	for i, library := range needs {
		if err := debian.checkTools(); err == nil || !strings.Contains(err.Error(), "needs library "+library) {
			t.Errorf("without %s: %v", library, err)
		}
		must.OK(t, os.WriteFile(filepath.Join(debian.path([]string{"image", "tools"}[i%2]), library), nil, 0o644))
	}
	if err := debian.checkTools(); err != nil {
		t.Errorf("with all libraries: %v", err)
	}
}

func TestNewer(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{{"2.36", "2.36", false}, {"2.4", "2.36", false}, {"2.38", "2.36", true}, {"2.36.1", "2.36", true}, {"2.2.5", "2.36", false}, {"PRIVATE", "2.36", false}} {
		if got := newer(test.a, test.b); got != test.want {
			t.Errorf("newer(%s, %s) = %t", test.a, test.b, got)
		}
	}
}
