package deptest

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/meshtrial/meshtrial"

// folders lists the top-level folders from the top down, and packages with a separate
// position: what a kind supplies to study files is below labs and meshes, which query it. A
// package may import its own folder and those below it.
var folders = []string{"cmd", "bench", "testing", "cli", "app", "kinds", "run", "report", "ui", "advise", "analysis", "mesh", "lab", "kinds/dataplane", "kinds/controlplane", "kinds/resilience", "kinds/ingress", "drive", "observe", "study", "record", "stat", "internal"}

// peers lists packages, including what is below them, that must not import each other.
var peers = [][]string{
	{"kinds/dataplane", "kinds/controlplane", "kinds/resilience", "kinds/ingress"},
	{"mesh/none", "mesh/istio", "mesh/linkerd", "mesh/envoygateway"},
	{"lab/local", "lab/cluster"},
}

// pure lists packages that take and return values.
var pure = []string{"record", "stat", "stat/queueing", "study", "analysis", "analysis/carrying", "analysis/comparison", "analysis/words", "report", "advise/scope", "advise/scope/generate", "drive/xds/wire", "drive/fault", "drive/graph", "observe/ledger", "stat/money", "stat/sizing", "advise/capacity/push", "advise/capacity/model", "advise/capacity/fit", "advise/capacity/plan",
	"observe/profile", "run/verdict", "kinds/dataplane/verdict", "kinds/controlplane/stages", "kinds/controlplane/verdict", "kinds/resilience/verdict", "kinds/ingress/verdict", "drive/load/arrival", "internal/yamltree", "record/finding", "study/protocol", "record/probe", "internal/accesslog", "internal/note",
	"kinds/dataplane/sections", "kinds/controlplane/sections", "kinds/resilience/sections", "kinds/ingress/sections",
	"kinds/dataplane/findings", "kinds/controlplane/findings", "kinds/resilience/findings", "kinds/ingress/findings", "kinds/analyses", "kinds/dataplane", "kinds/controlplane", "kinds/resilience", "kinds/ingress", "record/rate", "lab/journal/fields", "lab/rights", "advise/advice", "advise/assess", "stat/tuning"}

// terminal lists imports that only the command line needs.
var terminal = []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys/unix", "os/signal", "text/tabwriter"}

// impure lists imports that pure packages must not have.
var impure = []string{"os", "os/exec", "os/signal", "net", "net/http", "context", "syscall", "log", "log/slog", "golang.org/x/sys/unix"}

type pkg struct {
	ImportPath string
	Doc        string
	Imports    []string
	GoFiles    []string
}

// listed lists the packages once.
var listed = sync.OnceValues(func() (pkgs []pkg, err error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,Imports,GoFiles", module+"/...").Output()
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
	return pkgs, nil
})

func list(t *testing.T) []pkg {
	t.Helper()
	pkgs, err := listed()
	if err != nil || len(pkgs) == 0 {
		t.Fatalf("go list: %d packages, %v", len(pkgs), err)
	}
	return pkgs
}

func below(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

// peerOf returns the package of a group to which path belongs, or "".
func peerOf(path string, group []string) string {
	for _, name := range group {
		if below(path, name) {
			return name
		}
	}
	return ""
}

func folderOf(path string) string {
	if slices.Contains(folders, path) {
		return path
	}
	folder, _, _ := strings.Cut(path, "/")
	return folder
}

// Imports point down, and peers do not import each other. Code that needs a mesh gets it from the
// table of meshes. Pure packages stay pure. Only the command line and benches call the application,
// which knows neither flags nor a terminal.
func TestImports(t *testing.T) {
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		from := slices.Index(folders, folderOf(path))
		if from < 0 {
			t.Errorf("%s is in no folder of the layout: add it to folders and to ARCHITECTURE.md", path)
			continue
		}
		for _, imported := range p.Imports {
			if slices.Contains(pure, path) && slices.Contains(impure, imported) {
				t.Errorf("%s is pure but imports %s", path, imported)
			}
			if path == "app" && slices.Contains(terminal, imported) {
				t.Errorf("%s imports %s", path, imported)
			}
			target, ok := strings.CutPrefix(imported, module+"/")
			if !ok {
				continue
			}
			if slices.Index(folders, folderOf(target)) < from {
				t.Errorf("%s imports %s, which is above it", path, target)
			}
			for _, group := range peers {
				if a, b := peerOf(path, group), peerOf(target, group); a != "" && b != "" && a != b {
					t.Errorf("%s imports its peer %s", path, target)
				}
			}
			if name := peerOf(target, peers[1]); name != "" && path != name && path != "mesh/meshes" && !strings.HasSuffix(path, "test") {
				t.Errorf("%s imports %s: mesh/meshes has the table", path, name)
			}
			if target == "app" && path != "cli" && !strings.HasPrefix(path, "bench/") {
				t.Errorf("%s imports app", path)
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
