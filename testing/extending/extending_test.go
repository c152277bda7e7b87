package extending

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// change is a change shown in docs/extending.md, as a patch below
// docs/extending.
type change struct {
	patch string
	// files is the maximum number of files it may touch besides tests; own lists
	// its own folders, whose files do not count.
	files int
	own   []string
	// tests are the packages whose tests must pass with it.
	tests []string
}

var changes = []change{
	{"factor", 3, nil, []string{"./kinds/dataplane", "./mesh/istio"}},
	{"lever", 2, nil, []string{"./kinds/controlplane", "./mesh/istio"}},
	{"probe", 4, nil, []string{"./record/probe", "./study", "./analysis"}},
	{"protocol", 4, nil, []string{"./study/protocol", "./drive/load", "./drive/worker"}},
	{"fault-step", 3, nil, []string{"./drive/fault/...", "./study", "./kinds/resilience/trial"}},
	{"section", 3, nil, []string{"./kinds/dataplane/sections"}},
	{"mesh", 1, []string{"mesh/shared"}, []string{"./mesh/shared", "./study"}},
	{"kind", 2, []string{"kinds/noise"}, []string{"./kinds/noise/...", "./kinds"}},
}

const root = "../.."

func (c change) path() string { return filepath.Join("docs", "extending", c.patch+".patch") }

var reFile = regexp.MustCompile(`(?m)^diff --git a/(\S+) b/`)

// touched returns the files that a patch changes, except tests and its own
// folders.
func (c change) touched(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, c.path()))
	must.OK(t, err)
	var out []string
	for _, m := range reFile.FindAllStringSubmatch(string(text), -1) {
		if file := m[1]; !strings.HasSuffix(file, "_test.go") && !slices.ContainsFunc(c.own, func(folder string) bool { return strings.HasPrefix(file, folder+"/") }) {
			out = append(out, file)
		}
	}
	return out
}

// Each change applies to the current program and touches few files, which the
// document names.
func TestChangesApply(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "extending.md"))
	must.OK(t, err)
	patches, err := filepath.Glob(filepath.Join(root, "docs", "extending", "*.patch"))
	if err != nil || len(patches) != len(changes) {
		t.Errorf("%d patches for %d changes (%v)", len(patches), len(changes), err)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git, which applies the changes")
	}
	for _, c := range changes {
		t.Run(c.patch, func(t *testing.T) {
			check := exec.Command("git", "apply", "--check", c.path())
			check.Dir = root
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s does not apply any more; make it anew: %v\n%s", c.path(), err, out)
			}
			touched := c.touched(t)
			if len(touched) == 0 || len(touched) > c.files {
				t.Errorf("%s touches %d files, at most %d are right: %v", c.patch, len(touched), c.files, touched)
			}
			for _, words := range append(touched, "extending/"+c.patch+".patch") {
				if !strings.Contains(string(text), words) {
					t.Errorf("docs/extending.md does not name %s", words)
				}
			}
		})
	}
}
