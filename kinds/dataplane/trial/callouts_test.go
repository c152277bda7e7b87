package trial

import (
	"testing"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestCalloutTopology: proxies that ask have a sink, the waypoint's Service knows what it asks, and a
// module reaches only the sidecar of its cell.
func TestCalloutTopology(t *testing.T) {
	s, err := study.Parse([]byte(`
name: a
question: b
factors: {sidecars: [server, waypoint], filters: [none, ext-authz-grpc, wasm-file-mine]}
wasm: {mine: mine.wasm}
`), "a.yaml", nil)
	must.OK(t, err)
	s, err = s.WithFiles(func(string) ([]byte, error) { return []byte("\x00asm\x01\x00\x00\x00"), nil })
	must.OK(t, err)
	plan, err := study.NewPlan(s, 1)
	must.OK(t, err)
	top := newTopology("ns", plan)
	if top.sink == nil {
		t.Fatal("there is nobody to ask")
	}
	waypoints, modules := 0, 0
	for v, w := range top.servers {
		switch level := v.Level(dataplane.FactorFilters); {
		case w.Proxy == nil && level != "":
			waypoints++
			if w.Levels[dataplane.FactorFilters] != "ext-authz-grpc" || w.Set(dataplane.FactorFilters) != "ext-authz-grpc" {
				t.Errorf("%s has the levels %v", w.Name, w.Levels)
			}
		case len(w.Levels) > 0:
			t.Errorf("%s has levels beside its sidecar's: %v", w.Name, w.Levels)
		}
		for _, x := range w.Extensions {
			modules++
			if x.Part != "wasm-file-mine" || v.Level(dataplane.FactorFilters) != x.Part || len(x.Wasm) != 8 {
				t.Errorf("%s has the extension %+v", w.Name, x)
			}
		}
	}
	if waypoints != 1 || modules != 1 {
		t.Errorf("%d Services whose waypoint asks, %d with a module, expected one each", waypoints, modules)
	}
	s, err = study.Parse([]byte("name: a\nquestion: b\nfactors: {filters: [none, lua]}\n"), "a.yaml", nil)
	must.OK(t, err)
	if plan, err = study.NewPlan(s, 1); err != nil || newTopology("ns", plan).sink != nil {
		t.Errorf("a study that asks nobody has a sink (%v)", err)
	}
}
