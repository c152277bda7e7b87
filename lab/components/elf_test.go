package components

import (
	"debug/elf"
	"os"
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
	if err := checkRuns("/bin/sh", debian); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "/bin/sh needs the library "+needs[0]) {
		t.Errorf("a program without its libraries: %v", err)
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
