package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat/sizing"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

var ratesStudy = strings.Replace(analysistest.RateStudy, "[latency, cpu]", "[latency, cpu, memory]", 1) + "\nsizing: {pods: 100, nodes: 10, rps: 1000, l7: 20%, waypoints: 2}\n"

// writtenCosts writes a run's unit costs into a file.
func writtenCosts(t *testing.T) (run record.Run, file string) {
	t.Helper()
	run = analysistest.Simulate(t, ratesStudy, 6, 8, analysistest.Quiet())
	run.Header.Components = []record.Component{{Name: "istiod", Version: "1.30"}}
	data, err := packed(run)
	must.OK(t, err)
	file = filepath.Join(t.TempDir(), "costs")
	must.OK(t, os.WriteFile(file, data, 0o600))
	return run, file
}

// A file of unit costs says of a mesh what its run says, and of an assessed mesh how its requests could
// be carried.
func TestUnitCosts(t *testing.T) {
	run, file := writtenCosts(t)
	m := sizing.Mesh{Pods: 40, Nodes: 4, RPS: 500, L7: 0.25, Waypoints: 2}
	want, err := sized(run, m)
	must.OK(t, err)
	thin, err := measured(t.Context(), file, func(string) {})
	must.OK(t, err)
	got, err := sized(thin.Run, m)
	must.OK(t, err)
	if len(got) != 1 || len(got[0].Sizing.Ways) == 0 {
		t.Fatalf("%+v", got)
	}
	if a, b := asJSON(t, got[0].Sizing), asJSON(t, want[0].Sizing); a != b {
		t.Errorf("the file says\n%s\nand its run\n%s", a, b)
	}
	if !strings.Contains(got[0].Sizing.Mesh, "40 pods on 4 nodes, 500 requests per second") {
		t.Error(got[0].Sizing.Mesh)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	must.OK(t, err)
	return string(data)
}

// An assessment takes unit costs only for a mesh whose requests are all known, and says where they are
// of another version.
func TestAssessWithUnitCosts(t *testing.T) {
	_, file := writtenCosts(t)
	o := Assessment{Runs: []string{file}, Warn: func(string) {}}
	e := assess.Evidence{Istiod: "1.31", Nodes: 2, Proxies: []assess.Proxy{{Kind: assess.Sidecar, Called: new(20.0), Served: new(20.0), Connections: new(0.0)}, {Kind: assess.Sidecar, Called: new(1.0), Served: new(1.0), Connections: new(0.0)}}}
	a, err := o.concludedIn(t, e)
	must.OK(t, err)
	if len(a.Modes) != 1 || a.Modes[0].Shipped || !assess.OtherBuild.In(a.Unknown) || assess.NoUnitCosts.In(a.Unknown) {
		t.Errorf("%d modes, %v", len(a.Modes), a.Unknown)
	}
	if l := a.Cost.Latency; len(l) != 1 || l[0].Rate != 250 || l[0].Cell[study.FactorSidecars] != study.SidecarsBoth || l[0].P50 == nil || !(l[0].P50.Low > 0) || l[0].Shipped || assess.NoLatency.In(a.Unknown) {
		t.Errorf("latency: %+v", l)
	}
	e.Proxies[1].Called = nil
	a, err = o.concludedIn(t, e)
	must.OK(t, err)
	if len(a.Modes) != 0 || !assess.NoStated.In(a.Unknown) || assess.NoUnitCosts.In(a.Unknown) {
		t.Errorf("of a mesh half known: %d modes, %v", len(a.Modes), a.Unknown)
	}
}

// A namespace whose sidecars were all read is sized, even where the mesh as a whole is not known.
func TestAssessNamespacesWithUnitCosts(t *testing.T) {
	_, file := writtenCosts(t)
	e := assess.Evidence{Nodes: 2, Hosts: []assess.Host{}, Proxies: []assess.Proxy{{Kind: assess.Sidecar, Namespace: "read", Node: "one", Called: new(20.0), Served: new(40.0), Connections: new(0.0)}, {Kind: assess.Sidecar, Namespace: "not", Node: "one"}}}
	a, err := Assessment{Runs: []string{file}, Warn: func(string) {}}.concludedIn(t, e)
	must.OK(t, err)
	if len(a.Modes) != 1 || len(a.Modes[0].Sizing.Ways) != 0 || len(a.Modes[0].Namespaces) != 1 || !assess.NoStated.In(a.Unknown) {
		t.Fatalf("%+v, %v", a.Modes, a.Unknown)
	}
	n := a.Modes[0].Namespaces[0]
	if n.Namespace != "read" || len(n.Sizing.Ways) == 0 || !strings.Contains(n.Sizing.Mesh, "1 pods on 1 nodes, 30 requests per second") {
		t.Errorf("%+v", n)
	}
}

// What ships can be read.
func TestShippedUnitCosts(t *testing.T) {
	runs, err := shipped()
	must.OK(t, err)
	if len(runs) == 0 {
		t.Error("none ship")
	}
	for _, run := range runs {
		if len(run.latency) == 0 {
			t.Errorf("run %s: no latency", run.Header.RunID)
		}
		a, err := Assessment{}.conclude(assess.Evidence{Proxies: []assess.Proxy{{Kind: assess.Sidecar, Called: new(20.0), Served: new(20.0), Connections: new(0.0)}, {Kind: assess.Istiod, Version: "1.28.1-distroless"}}}, runs)
		must.OK(t, err)
		if l := a.Cost.Latency; len(l) == 0 || !l[0].Shipped || len(l[0].Lacking) == 0 || a.Mesh.Istiod != "1.28.1" || !assess.OtherBuild.In(a.Unknown) {
			t.Errorf("run %s, for istiod %q: latency %+v, %v", run.Header.RunID, a.Mesh.Istiod, l, a.Unknown)
		}
		if _, err := sized(run.Run, sizing.Default()); err != nil {
			t.Errorf("run %s: %v", run.Header.RunID, err)
		}
	}
}

func FuzzUnitCosts(f *testing.F) {
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if run, err := readUnitCosts(data); err == nil && len(run.Trials) > 0 && run.StudyYAML == nil {
			t.Error("trials of no study")
		}
	})
}

// concludedIn concludes with the runs that are given.
func (o Assessment) concludedIn(t *testing.T, e assess.Evidence) (assess.Assessment, error) {
	t.Helper()
	runs, err := o.unitCosts(t.Context())
	must.OK(t, err)
	return o.conclude(e, runs)
}
