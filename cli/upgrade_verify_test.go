//go:build verify

package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A namespace moves to another version of Istio and back. The sidecars are of the version of their
// istiod, both istiods' configurations are compared, and once the other istiod is removed, all of
// Istio is as before.
func TestVersionUpgrade(t *testing.T) {
	dir := labtest.Folder(t, "MESHTRIAL_SECOND_ISTIO")
	m := labtest.New(t)
	l := m.Up(t, "--second-istio", dir)
	all := labtest.NewObjects(t, l, func(o *unstructured.Unstructured) bool {
		return o.GetNamespace() == "istio-system" || o.GetNamespace() == "" && strings.Contains(o.GetName(), "istio")
	})
	before := all.Now(t)
	out := filepath.Join(t.TempDir(), "run")
	code, said := m.Run(t, "run", "version-upgrade", "--out", out, "--set", "variant=drain", "--set", "expect={}", "--limit", "unattributed=100%")
	run, _, err := store.Load(t.Context(), out)
	if err != nil || len(run.Trials) != 1 || run.Trials[0].Scenario == nil {
		t.Fatalf("exit code %d, %d trials, %v:\n%s", code, len(run.Trials), err, said)
	}
	for _, e := range run.Events {
		if e.Error != "" {
			t.Errorf("step %s: %s", e.Step, e.Error)
		}
	}
	for _, c := range run.Trials[0].Validity.Checks {
		if slices.Contains([]string{"revisions", "steps", "logs", "account"}, c.Name) && !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	planes := run.Trials[0].Scenario.Planes
	if len(planes) != 1 || !planes[0].Removed || planes[0].Seconds < 30 || planes[0].First.Version == planes[0].Second.Version {
		t.Fatalf("%+v", planes)
	}
	for _, p := range []record.ScenarioPlane{planes[0].First, planes[0].Second} {
		if p.CPU.TotalS() <= 0 || p.MemoryBytes < 1<<20 {
			t.Errorf("%s used %+v", p.Revision, p)
		}
	}
	if c := planes[0].Compared; c == nil || c.Resources == 0 || len(c.Proxies) != 2 || (c.Differing == 0) != (len(c.Differences) == 0) {
		t.Errorf("compared %+v", c)
	}
	files, err := filepath.Glob(filepath.Join(out, store.DirConfigs, "*.xds.gz"))
	must.OK(t, err)
	if len(files) != 4 {
		t.Errorf("recordings %q", files)
	}
	all.Same(t, "without the second istiod", before)
}
