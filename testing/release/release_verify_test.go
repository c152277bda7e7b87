//go:build verify

package main

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Two releases of a commit, from clones in different folders, have the same
// bytes.
func TestReleaseIsReproducible(t *testing.T) {
	var sums [2]string
	for i := range sums {
		dir := filepath.Join(t.TempDir(), "release")
		must.OK(t, release(t.Context(), "../..", dir))
		b, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		must.OK(t, err)
		sums[i] = string(b)
	}
	if sums[0] != sums[1] {
		t.Errorf("digests are\n%sthen\n%s", sums[0], sums[1])
	}
	if n := strings.Count(sums[0], "\n"); n != 2*len(processors)+1 {
		t.Errorf("%d files\n%s", n, sums[0])
	}
}

// A released program reports its commit.
func TestReleaseIsStamped(t *testing.T) {
	c, err := clone(t.Context(), "../..", filepath.Join(t.TempDir(), "source"))
	must.OK(t, err)
	revision, err := output(t.Context(), c.dir, "git", "rev-parse", "HEAD")
	must.OK(t, err)
	program := filepath.Join(t.TempDir(), "meshtrial")
	must.OK(t, c.build(t.Context(), "amd64", program))
	info, err := buildinfo.ReadFile(program)
	must.OK(t, err)
	for _, want := range []string{"vcs.revision=" + revision, "vcs.modified=false"} {
		if !slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key+"="+s.Value == want }) {
			t.Errorf("the program has no %s", want)
		}
	}
	name, err := output(t.Context(), c.dir, "git", "describe", "--tags", "--exact-match")
	if err != nil { // no tag
		name = revision[:12]
	}
	if said, err := output(t.Context(), ".", program, "--version"); err != nil || !strings.Contains(said, name) {
		t.Errorf("--version says %q of %s, %v", said, name, err)
	}
}
