//go:build integration

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestAssessOfALab assesses a mesh of one workload, with what is planted there: an idle sidecar, a route,
// and a Service that nobody calls.
func TestAssessOfALab(t *testing.T) {
	newScopedShop(t)
	dir := t.TempDir()
	out, _ := succeeds(t, "assess", "--duration", "25s", "--out", dir, "--core-month", "40", "--format", "json")
	var a assess.Assessment
	must.OK(t, json.Unmarshal([]byte(out), &a))
	of := func(kind assess.Kind) assess.Use {
		i := slices.IndexFunc(a.Cost.Uses, func(u assess.Use) bool { return u.Kind == kind })
		if i < 0 {
			t.Fatalf("no %s: %+v", kind, a.Cost.Uses)
		}
		return a.Cost.Uses[i]
	}
	for _, kind := range []assess.Kind{assess.Sidecar, assess.Istiod} {
		if u := of(kind); u.Count < 1 || u.Measured != u.Count || !(u.Used.Cores > 0 && u.Used.Cores < 2) || !(u.Used.Bytes > 10e6) || !(u.Month > 0) {
			t.Errorf("%s: %+v", kind, u)
		}
	}
	if !slices.ContainsFunc(a.Cost.Workloads, func(w assess.WorkloadUse) bool { return w.Namespace == "scoped" && w.Workload == "shop" }) {
		t.Errorf("workloads: %+v", a.Cost.Workloads)
	}
	if o := a.Mesh.Objects; o["VirtualService"] < 1 || o["ServiceEntry"] < 1 || o["Service"] < 2 {
		t.Errorf("objects: %v", o)
	}
	if a.Mesh.Istiod == "" || a.Limits == nil || a.Signals == nil || a.Configuration == nil || a.Traffic == nil || a.Traffic.Read != a.Traffic.Sidecars {
		t.Errorf("istiod %q, limits %v, configuration %v, traffic %+v", a.Mesh.Istiod, a.Limits != nil, a.Configuration != nil, a.Traffic)
	}
	if assess.NoUnitCosts.In(a.Unknown) || !assess.TooYoung.In(a.Unknown) { // unit costs ship
		t.Errorf("unknown: %v", a.Unknown)
	}
	for _, s := range a.Settle {
		data, err := os.ReadFile(filepath.Join(dir, "studies", s.Name+".yaml"))
		must.OK(t, err)
		if _, err := study.Parse(data, s.Name, nil); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	must.OK(t, err)
	if !bytes.Contains(page, []byte("scoped/shop")) {
		t.Error("the page lacks the workload")
	}
}
