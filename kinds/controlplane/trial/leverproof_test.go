package trial

import (
	"fmt"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

func TestLeverEvidence(t *testing.T) {
	c := &controlTrial{c: &controlPlane{}, out: record.Trial{Control: &record.Control{}}}
	for i := range 9 {
		c.ids = append(c.ids, population.Identity{Type: population.Sidecar, Name: fmt.Sprint("p", i), Namespace: population.Namespace(i % 3), Workload: fmt.Sprint("svc-", i)})
	}
	c.levers = mesh.Levers{Namespaces: []string{population.Namespace(1)}, Workload: map[string]string{population.AppLabel: "svc-4"}}
	var ids []string
	for _, p := range c.leverEvidence().Proxies {
		ids = append(ids, p.ID)
	}
	// One of each namespace, and the workload that a Sidecar may select.
	if !slices.Equal(ids, []string{"p0.mm-0", "p1.mm-1", "p2.mm-2", "p4.mm-1"}) {
		t.Errorf("asks for %v", ids)
	}
	// In a cell without simulated proxies a real one proves the levers.
	s, _, _ := controlCell(t)
	controlplane.Of(s).RealEndpoints = true
	alone := &controlTrial{c: &controlPlane{study: s, reals: []site.Pod{{Name: "r0", Namespace: population.Namespace(0)}, {Name: "r1", Namespace: population.Namespace(0)}}},
		out: c.out, levels: controlplane.Levels{Services: 3}, known: mesh.Levers{Workload: map[string]string{population.AppLabel: "svc-0"}}}
	if p := alone.leverEvidence().Proxies; len(p) != 1 || p[0].ID != "r0.mm-0" || p[0].Namespace != "mm-0" || p[0].Labels[population.AppLabel] != "svc-0" || p[0].Gateway {
		t.Errorf("asks for %+v", p)
	}
}
