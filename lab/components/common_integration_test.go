//go:build integration

package components

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// compiledPackage holds everything that determines how a package of a module is
// compiled.
type compiledPackage struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path, Version string }
	GoFiles    []string
}

func listCompiled(t *testing.T, cmd *exec.Cmd, dir string) map[string]compiledPackage {
	t.Helper()
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.Bytes())
	}
	all := map[string]compiledPackage{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p compiledPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if !p.Standard && p.Module != nil && p.Module.Version != "" {
			all[p.ImportPath] = p
		}
	}
}

// A package shared by meshtrial and a component, or by two components, is
// compiled once, from the same files of the same version. pilot-agent's release
// has different build tags, which change Envoy's messages, Istio's own packages
// and the retries of gRPC's middleware.
func TestCommonPackagesAreCompiledOnce(t *testing.T) {
	tools := toolchain{source: "src", arch: "amd64"}
	flags := func(tags string, packages ...string) []string {
		return append([]string{"list", "-deps", "-json=ImportPath,Standard,Module,GoFiles", "-tags=" + tags}, packages...)
	}
	names, by := []string{"meshtrial"}, map[string]map[string]compiledPackage{}
	by["meshtrial"] = listCompiled(t, tools.command(t.Context(), flags(commonTags, "./cmd/meshtrial")...), "../..")
	units, err := unitsOf(nil)
	must.OK(t, err)
	for _, u := range goUnits("amd64") {
		if slices.Contains(units, u.name) {
			names = append(names, u.name)
			by[u.name] = listCompiled(t, tools.command(t.Context(), flags(u.tags, u.packages...)...), tools.source)
		}
	}
	ofAgent := []string{"istio.io/", "github.com/envoyproxy/", "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"}
	for i, one := range names {
		for _, other := range names[:i] {
			common := 0
			for path, p := range by[one] {
				q, both := by[other][path]
				if !both {
					continue
				}
				common++
				if *p.Module == *q.Module && slices.Equal(p.GoFiles, q.GoFiles) {
					continue
				}
				own := func(prefix string) bool { return strings.HasPrefix(path, prefix) }
				if (one == "agent" || other == "agent") && slices.ContainsFunc(ofAgent, own) {
					continue
				}
				t.Errorf("%s: %s compiles %v of %v, %s compiles %v of %v", path, one, p.GoFiles, *p.Module, other, q.GoFiles, *q.Module)
			}
			if common < 30 {
				t.Errorf("%s and %s have only %d packages in common", one, other, common)
			}
		}
	}
}
