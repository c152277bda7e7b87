package perf_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/observe/profile"
)

// A stripped Go program has its names all the same: from the table that its
// runtime needs.
func TestStrippedGo(t *testing.T) {
	tool := needPerf(t)
	path := filepath.Join(t.TempDir(), "stripped")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w -B gobuildid", "-o", path, "./testdata/spin").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := spin(t, path, time.Minute)
	r := record(t, tool, options(cmd.Process.Pid))
	trust := r.Profile.Distrust(r.Files)
	b := r.Profile.Binaries[0]
	if !trust.Enough || b.Type != profile.TypeGo || len(r.Profile.Notes) > 0 {
		t.Errorf("%+v, %+v, notes %q", trust, b, r.Profile.Notes)
	}
	share := 0.0
	for _, c := range r.Profile.TopCumulative(50) {
		if strings.HasSuffix(c.Function, "spinForTheProfile") {
			share = float64(c.Cumulative) / float64(r.Profile.Total())
		}
	}
	if share < 0.5 {
		t.Errorf("it spent %.0f%% where it spends all", 100*share)
	}
}
