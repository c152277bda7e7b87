package trial

import (
	"fmt"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/population"
	"github.com/meshtrial/meshtrial/record"
)

func TestLeverEvidence(t *testing.T) {
	c := &controlTrial{out: record.Trial{Control: &record.Control{}}}
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
}
