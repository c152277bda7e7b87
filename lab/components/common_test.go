package components

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// ownVersions are the modules of which meshtrial requires a different version
// than the components, and why. Packages shared with the components are then
// compiled twice.
var ownVersions = map[string]string{}

// goMod is the content of a go.mod file as printed by go mod edit.
type goMod struct {
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func readGoMod(t *testing.T, path string) goMod {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json", path).Output()
	if err != nil {
		t.Fatalf("go mod edit %s: %v", path, err)
	}
	var m goMod
	must.OK(t, json.Unmarshal(out, &m))
	return m
}

// A module required by both meshtrial and the components has one version and no
// replacement, so that its packages are compiled once.
func TestCommonModulesHaveOneVersion(t *testing.T) {
	ours, theirs := readGoMod(t, "../../go.mod"), readGoMod(t, "src/go.mod")
	versions, replaced := map[string]string{}, map[string]string{}
	for _, m := range theirs.Require {
		versions[m.Path] = m.Version
	}
	for _, r := range theirs.Replace {
		replaced[r.Old.Path] = r.New.Version
	}
	common := 0
	for _, m := range ours.Require {
		version, both := versions[m.Path]
		if !both {
			continue
		}
		common++
		differs := version != m.Version || replaced[m.Path] != "" && replaced[m.Path] != version
		switch _, allowed := ownVersions[m.Path]; {
		case differs && !allowed:
			t.Errorf("%s: meshtrial requires %s, the components %s (replaced: %q): have one, or say in ownVersions why not",
				m.Path, m.Version, version, replaced[m.Path])
		case !differs && allowed:
			t.Errorf("%s has one version: it is no exception any more", m.Path)
		}
	}
	if common < 80 {
		t.Errorf("only %d modules in common", common)
	}
}

// The Makefile uses the same compiler settings as the components.
func TestMakefileCompilesAlike(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	must.OK(t, err)
	for _, want := range []string{
		`TAGS := ` + commonTags,
		`export CGO_ENABLED := 0`,
		`export GOFLAGS +:= -trimpath -gcflags=all=-dwarf=false -tags=\$\(TAGS\)`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).Match(makefile) {
			t.Errorf("the Makefile has no line %s", want)
		}
	}
	// Settings that affect compilation, besides tags; the others are for the
	// linker, or say where sources come from.
	compiler := []string{"-trimpath", "-gcflags"}
	for _, u := range goUnits("amd64") {
		for _, flag := range u.flags() {
			name, _, _ := strings.Cut(flag, "=")
			if !slices.Contains(compiler, name) && !slices.Contains([]string{"-buildvcs", "-mod", "-tags", "-ldflags"}, name) {
				t.Errorf("%s is built with %s, which the Makefile does not know", u.name, flag)
			}
		}
	}
}
