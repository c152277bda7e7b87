package trial

import (
	"maps"
	"testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
)

// A trial says where all pods were that its figures are of, those of the real gateway and
// behind it too.
func TestFindNodes(t *testing.T) {
	trial := &controlTrial{fleet: &fleet{Hands: hands.Hands{Pods: []site.Pod{{Node: "b"}, {Node: "a"}}}},
		c: &controlPlane{Site: &site.Site{Kube: fakecluster.New()}, mesh: &actedPlane{left: []mesh.ControlPod{{Node: "a"}}}, reals: []site.Pod{{Node: "c"}}}}
	named := func(node string) record.NodeAt { return record.NodeAt{Name: node} }
	want := map[string]record.NodeAt{record.PartControl: named("a"), record.PartSimulator: named("a"), record.OfHand(record.PartSimulator, 1): named("b"), record.PartServerProxy: named("c")}
	if err := trial.findNodes(t.Context()); err != nil || !maps.Equal(trial.out.Nodes, want) {
		t.Errorf("%+v, %v", trial.out.Nodes, err)
	}
	trial.c.gateway = &gateway{pod: site.Pod{Node: "d"}, backend: site.Pod{Node: "e"}}
	want[record.PartGateway], want[record.PartWorker] = named("d"), named("e")
	if err := trial.findNodes(t.Context()); err != nil || !maps.Equal(trial.out.Nodes, want) {
		t.Errorf("with a gateway: %+v, %v", trial.out.Nodes, err)
	}
}
