package deptest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/meshtrial/meshtrial"

// layers lists the packages from the bottom up. A package may import any
// package of a lower line, and none of its own line or above; a
// subpackage belongs to its parent's line and may be imported by it.
var layers = [][]string{
	{"internal/errs", "record/rate", "internal/thread"},
	{"record", "record/finding", "testing/golden", "testing/leakcheck", "testing/nodetest", "testing/scriptconn", "internal/wake", "internal/ending", "internal/failpoint", "study/protocol", "lab/journal/fields"},
	{"internal/jsonhttp", "internal/trusted", "internal/rawgrpc", "internal/confile", "internal/yamltree", "internal/kubernetes", "internal/lazyregexp"},
	{"stat", "observe/ledger", "observe/procfs", "analysis/money"},
	{"drive/graph", "observe/profile", "record/probe", "advise/capacity/push", "analysis/sizing", "advise/tuning", "analysis/words"},
	{"drive/fault", "lab/journal", "advise/capacity/model"},
	{"study"},
	{"testing/studytest"},
	{"analysis", "run/store", "study/studies", "drive/load", "drive/worker", "observe", "lab/doctor", "lab/components", "ui", "drive/xds", "advise/scope", "observe/signals", "lab/rights", "advise/capacity/fit", "advise/capacity/plan"},
	{"report", "lab", "drive/population", "advise/advice"},
	{"drive/churn"},
	{"lab/local", "lab/cluster", "mesh"},
	{"mesh/none", "mesh/istio", "mesh/linkerd"},
	{"run/site", "run/verdict"},
	{"run/runner", "run/detached"},
	{"kinds/dataplane", "kinds/controlplane", "kinds/resilience"},
	{"kinds"},
	{"cli", "testing/reporttest"},
	{"cmd/meshtrial", "bench", "testing/deptest", "testing/extending", "testing/testrun", "testing/labtest"},
}

// pure packages take values and return values.
var pure = []string{"record", "stat", "stat/queueing", "study", "analysis", "analysis/carrying", "analysis/comparison", "analysis/words", "report", "report/plot", "advise/scope", "advise/scope/generate", "drive/xds/wire", "drive/fault", "drive/graph", "observe/ledger", "analysis/money", "analysis/sizing", "advise/capacity/push", "advise/capacity/model", "advise/capacity/fit", "advise/capacity/plan",
	"observe/profile", "run/verdict", "kinds/dataplane/verdict", "kinds/controlplane/stages", "kinds/controlplane/verdict", "kinds/resilience/verdict", "drive/load/arrival", "internal/yamltree", "record/finding", "study/protocol", "record/probe",
	"kinds/dataplane/sections", "kinds/controlplane/sections", "kinds/resilience/sections",
	"kinds/dataplane/findings", "kinds/controlplane/findings", "kinds/resilience/findings", "kinds/analyses", "record/rate", "lab/journal/fields", "lab/rights", "advise/advice", "advise/tuning"}

// impure are imports that a pure package has no use for.
var impure = []string{"os", "os/exec", "os/signal", "net", "net/http", "context", "syscall", "log", "log/slog", "golang.org/x/sys/unix"}

type pkg struct {
	ImportPath string
	Doc        string
	Imports    []string
	GoFiles    []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,Imports,GoFiles", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) == 0 {
		t.Fatal("go list found no packages")
	}
	return pkgs
}

// layerOf returns the line a package belongs to and the entry that says so.
func layerOf(path string) (int, string) {
	best, entry := -1, ""
	for i, line := range layers {
		for _, name := range line {
			if (path == name || strings.HasPrefix(path, name+"/")) && len(name) > len(entry) {
				best, entry = i, name
			}
		}
	}
	return best, entry
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		from, fromEntry := layerOf(path)
		if from < 0 {
			t.Errorf("%s is on no line of the layout; add it to layers and to ARCHITECTURE.md", path)
			continue
		}
		for _, imported := range p.Imports {
			target, ok := strings.CutPrefix(imported, module+"/")
			if !ok {
				continue
			}
			to, toEntry := layerOf(target)
			if toEntry == fromEntry {
				continue
			}
			if to >= from {
				t.Errorf("%s imports %s, which is not below it", path, target)
			}
		}
	}
}

func TestPurePackagesStayPure(t *testing.T) {
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains(pure, path) {
			continue
		}
		for _, imported := range p.Imports {
			if slices.Contains(impure, imported) {
				t.Errorf("%s is pure but imports %s", path, imported)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range list(t) {
		if len(p.GoFiles) > 0 && len(strings.Fields(p.Doc)) < 5 {
			t.Errorf("%s has no package comment worth the name", p.ImportPath)
		}
	}
}
