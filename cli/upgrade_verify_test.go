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
	upgrades(t, []string{"--second-istio", dir}, "version-upgrade", 2, "drain")
}

// The ztunnels and a waypoint of an ambient mesh move, too.
func TestAmbientUpgrade(t *testing.T) {
	dir, ztunnel := labtest.Folder(t, "MESHTRIAL_SECOND_ISTIO"), labtest.Folder(t, "MESHTRIAL_ZTUNNEL")
	upgrades(t, []string{"--second-istio", dir, "--ztunnel", ztunnel}, "ambient-upgrade", 1, "ztunnel", "waypoint")
}

// upgrades runs variants of a study in which both istiods are asked for the configuration of some
// proxies. Afterwards all of Istio is as before.
func upgrades(t *testing.T, lab []string, study string, proxies int, variants ...string) {
	m := labtest.New(t)
	l := m.Up(t, lab...)
	all := labtest.NewObjects(t, l, func(o *unstructured.Unstructured) bool {
		history := o.GetKind() == "ControllerRevision" // of DaemonSets
		return !history && (o.GetNamespace() == "istio-system" || o.GetNamespace() == "" && strings.Contains(o.GetName(), "istio"))
	})
	before := all.Now(t)
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) {
			upgrade(t, m, study, variant, proxies)
			all.Same(t, "without the second istiod", before)
		})
	}
}

func upgrade(t *testing.T, m labtest.Machine, study, variant string, proxies int) {
	out := filepath.Join(t.TempDir(), "run")
	code, said := m.Run(t, "run", study, "--out", out, "--set", "variant="+variant, "--set", "expect={}", "--limit", "unattributed=100%")
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
	if c := planes[0].Compared; c == nil || c.Resources == 0 || len(c.Proxies) != proxies || (c.Differing == 0) != (len(c.Differences) == 0) {
		t.Errorf("compared %+v", c)
	}
	files, err := filepath.Glob(filepath.Join(out, store.DirConfigs, "*.xds.gz"))
	must.OK(t, err)
	if len(files) != 2*proxies {
		t.Errorf("recordings %q", files)
	}
}
