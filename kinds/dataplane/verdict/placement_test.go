package verdict

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// Pods that ran elsewhere than the cell requires, or at an unknown place, make a trial invalid.
func TestCheckPlacement(t *testing.T) {
	const same, node, zone, free = dataplane.PlacementSameNode, dataplane.PlacementOtherNode, dataplane.PlacementOtherZone, dataplane.PlacementScheduled
	at := func(text string) record.NodeAt {
		name, zone, _ := strings.Cut(text, "@")
		return record.NodeAt{Name: name, Zone: zone}
	}
	for _, c := range []struct{ level, client, server, want string }{
		{"", "", "", ""}, {free, "", "", ""}, {free, "a", "b", ""},
		{same, "a@x", "a@x", "true"}, {same, "a@x", "b@x", "false"}, {same, "", "", "false"},
		{node, "a", "b", "true"}, {node, "a@x", "b@y", "true"}, {node, "a", "a", "false"}, {node, "a", "", "false"},
		{zone, "a@x", "b@y", "true"}, {zone, "a@x", "b@x", "false"}, {zone, "a@x", "b", "false"}, {zone, "a", "b@y", "false"},
	} {
		var s verdict.Sheet
		checkPlacement(&s, record.Trial{Cell: record.Cell{dataplane.FactorPlacement: c.level},
			Nodes: map[string]record.NodeAt{record.PartGenerator: at(c.client), record.PartWorker: at(c.server)}})
		checks, got := s.Validity().Checks, ""
		if len(checks) == 1 {
			got = map[bool]string{true: "true", false: "false"}[checks[0].OK]
			if !strings.Contains(checks[0].Detail, "the client ran on node") && c.client != "" {
				t.Errorf("it says %q", checks[0].Detail)
			}
		}
		if got != c.want {
			t.Errorf("%s, client on %q, server on %q: %q, want %q", c.level, c.client, c.server, got, c.want)
		}
	}
}

// All generators run on the client's node.
func TestCheckPlacementOfHands(t *testing.T) {
	for second, want := range map[string]bool{"a": true, "b": false} {
		var s verdict.Sheet
		checkPlacement(&s, record.Trial{Cell: record.Cell{dataplane.FactorPlacement: dataplane.PlacementOtherNode}, Hands: []record.Hand{{Node: "a"}, {Pod: "two", Node: second}},
			Nodes: map[string]record.NodeAt{record.PartGenerator: {Name: "a"}, record.PartWorker: {Name: "b"}}})
		if c := s.Validity().Checks[0]; c.OK != want || strings.HasSuffix(c.Detail, ", and the generator of pod two on node b") == want {
			t.Errorf("the second on %s: %+v", second, c)
		}
	}
}
