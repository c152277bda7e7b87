package extending

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// change is a change shown in docs/extending.md, as a patch below
// docs/extending.
type change struct {
	patch string
	// own lists its own folders, whose files the document does not count.
	own []string
	// tests are the packages whose tests must pass with it.
	tests []string
}

var changes = []change{
	{"factor", nil, []string{"./kinds", "./kinds/dataplane", "./mesh/istio"}},
	{"lever", nil, []string{"./kinds", "./kinds/controlplane", "./mesh/istio"}},
	{"probe", nil, []string{"./record/probe", "./study", "./analysis"}},
	{"protocol", nil, []string{"./study/protocol", "./drive/load", "./drive/worker"}},
	{"fault-step", nil, []string{"./drive/fault/...", "./study", "./kinds/resilience/trial", "./lab/rights"}},
	{"section", nil, []string{"./kinds/dataplane/sections"}},
	{"mesh", []string{"mesh/shared"}, []string{"./mesh/shared", "./study"}},
	{"kind", []string{"kinds/noise"}, []string{"./kinds/noise/...", "./kinds"}},
}

const root = "../.."

func (c change) path() string { return filepath.Join("docs", "extending", c.patch+".patch") }

var (
	reFile = regexp.MustCompile(`(?m)^diff --git a/(\S+) b/`)
	// reRow matches a row of the document's table: how many files a change touches, and its patch.
	reRow = regexp.MustCompile(`(?m)^\| [^|]+ \| (\d+)[^|]*\| \[extending/(.+)\.patch\]`)
)

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

// Each change applies to the current program and touches as many files as the
// document says, which it names.
func TestChangesApply(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "extending.md"))
	must.OK(t, err)
	patches, err := filepath.Glob(filepath.Join(root, "docs", "extending", "*.patch"))
	if err != nil || len(patches) != len(changes) {
		t.Errorf("%d patches for %d changes (%v)", len(patches), len(changes), err)
	}
	said := map[string]string{}
	for _, m := range reRow.FindAllStringSubmatch(string(text), -1) {
		said[m[2]] = m[1]
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
			if strconv.Itoa(len(touched)) != said[c.patch] {
				t.Errorf("%s touches %d files, and the document says %q: %v", c.patch, len(touched), said[c.patch], touched)
			}
			for _, words := range append(touched, "extending/"+c.patch+".patch") {
				if !strings.Contains(string(text), words) {
					t.Errorf("docs/extending.md does not name %s", words)
				}
			}
		})
	}
}
