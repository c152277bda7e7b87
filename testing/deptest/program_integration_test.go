//go:build integration

package deptest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// outside lists packages, including what is below them, that the program must
// not contain: each adds megabytes, and often further packages.
var outside = []string{
	"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/discovery", "k8s.io/client-go/restmapper",
	"k8s.io/client-go/gentype", "html/template", "golang.org/x/net/trace",
	"github.com/aws/", "github.com/Azure/", "cloud.google.com/", "google.golang.org/api/",
}

// outsideAlone lists packages that it must not contain, while those below them
// are permitted.
var outsideAlone = []string{"github.com/prometheus/prometheus/tsdb"}

// unlinked lists functions that must not be reachable in the program, though
// their package is imported: cobra imports templates, which call methods by
// name, so the linker keeps every method of every type once a template is
// executed.
var unlinked = []string{"text/template.(*Template).Execute"}

func TestProgramReachesNoTemplates(t *testing.T) {
	program := labtest.Program(t)
	image, err := os.ReadFile(program)
	must.OK(t, err)
	for _, function := range unlinked {
		if bytes.Contains(image, []byte(function)) {
			t.Errorf("the program can reach %s", function)
		}
	}
	if !bytes.Contains(image, []byte(module+"/cli.Main")) {
		t.Error("the program has no names of functions to look for")
	}
}

func TestProgramLeavesOutWhatIsLarge(t *testing.T) {
	environment, err := exec.Command("make", "--no-print-directory", "-C", "../..", "environment").Output()
	must.OK(t, err)
	out, err := exec.Command("bash", "-c", string(environment)+"go list -deps ../../cmd/meshtrial").Output()
	must.OK(t, err)
	imported := strings.Fields(string(out))
	if len(imported) < 500 {
		t.Fatalf("the program imports only %d packages", len(imported))
	}
	for _, path := range imported {
		for _, large := range outside {
			if strings.HasPrefix(path+"/", strings.TrimSuffix(large, "/")+"/") {
				t.Errorf("the program imports %s; `go mod why %s` says by what", path, path)
			}
		}
		for _, large := range outsideAlone {
			if path == large {
				t.Errorf("the program imports %s; `go mod why %s` says by what", path, path)
			}
		}
	}
}
