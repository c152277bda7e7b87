//go:build integration

package deptest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/labtest"
)

// mostBytes is how large the program may be: it is the image of every pod. What is
// above 49 million is what being a guest takes: journal, Lease, keeper, table of
// rights, pushing of images, meshes of others; above 49.8 million it is advice with its
// rules, the generation of Sidecars, models of capacity, and kubelets as a source; above
// 51.1 million it is tuning; above 51.5 million what is asked to stay in a cluster, what
// others have laid down mesh-wide, and the plots of capacity; above 52 million labs of
// several nodes, soaks, and sidecars without traffic; above 52.4 million placement,
// several generators, disruptions and detached runs; above 53 million the client of
// stores that speak S3, and above 54.2 million several simulators, two revisions of istiod,
// what detached runs meet, and an ambient mesh in the lab; above 54.8 million waypoints,
// simulated ztunnels, and what ways of carrying requests take in a stated mesh; above
// 55.3 million gateways; above 55.5 million faults of ambient meshes, machines that
// differ, and runs whose machine stood still; above 55.8 million what waits for ambient pods,
// waypoints and gateways, and says why they do not come; above 56.1 million errors of studies,
// kubeconfigs and clusters that say what to do, and agents that end within a trial; above
// 56.4 million what proxies of a stated mesh take by the rate that each carries.
const mostBytes = 56_600_000

// outside are packages, with what is below them, that the program does without:
// each brings megabytes, and often others after it.
var outside = []string{
	"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/discovery", "k8s.io/client-go/restmapper",
	"k8s.io/client-go/gentype", "html/template", "golang.org/x/net/trace",
	"github.com/aws/", "github.com/Azure/", "cloud.google.com/", "google.golang.org/api/",
}

// outsideAlone are packages that it does without, unlike those below them.
var outsideAlone = []string{"github.com/prometheus/prometheus/tsdb"}

// unlinked are functions that nothing in the program may reach, though the
// package is imported: cobra imports templates, which call methods by name, so
// that the linker keeps every method of every type once one is executed.
var unlinked = []string{"text/template.(*Template).Execute"}

func TestProgramStaysSmall(t *testing.T) {
	program := labtest.Program(t)
	image, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s has %d bytes", program, len(image))
	if len(image) > mostBytes {
		t.Errorf("%s has %d bytes, more than %d: `go tool nm -size -sort size` of a build without -s says what they are", program, len(image), mostBytes)
	}
	for _, function := range unlinked {
		if bytes.Contains(image, []byte(function)) {
			t.Errorf("the program can reach %s", function)
		}
	}
	if !bytes.Contains(image, []byte(module+"/internal/cli.Main")) {
		t.Error("the program has no names of functions to look for")
	}
}

func TestProgramLeavesOutWhatIsLarge(t *testing.T) {
	environment, err := exec.Command("make", "--no-print-directory", "-C", "../..", "environment").Output()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("bash", "-c", string(environment)+"go list -deps ../../cmd/meshtrial").Output()
	if err != nil {
		t.Fatal(err)
	}
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
