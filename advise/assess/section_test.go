package assess

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// A section has what is unknown of it and of the mesh, and nothing of others.
func TestSections(t *testing.T) {
	a := Assessment{Traffic: &Traffic{}, Signals: &signals.Reading{}, Limits: &advice.Report{}, Mesh: Mesh{Nodes: 3, Objects: map[string]int{"Service": 1}},
		Unknown: []Unknown{NotRead.Of("x"), NoPrices.Of(), NoCounters.Of(), NotWatched.Of("y"), Undecided.Of("rule", "z"), SomeProxies.Of(1, 2)}}
	alone := a.TrafficAlone()
	if alone.Traffic == nil || alone.Signals == nil || alone.Limits != nil || alone.Mesh.Nodes != 3 || alone.Mesh.Objects != nil {
		t.Errorf("%+v", alone)
	}
	for gap, want := range map[Gap]bool{NotRead: true, NoCounters: true, NotWatched: true, SomeProxies: true, NoPrices: false, Undecided: false} {
		if gap.In(alone.Unknown) != want {
			t.Errorf("a gap of %s: %v", gap.section, alone.Unknown)
		}
	}
	if got := a.Lacks(SectionLimits); len(got) != 3 || slices.Contains(got, Undecided.Of("rule", "z").What.String()) {
		t.Errorf("%q", got)
	}
}
