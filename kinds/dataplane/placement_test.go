package dataplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// placedPlan returns a plan with these levels of the factor placement.
func placedPlan(t *testing.T, levels ...string) *study.Plan {
	t.Helper()
	return studytest.Plan(t, "name: x\nquestion: x\nmesh: istio\nfactors: {placement: ["+strings.Join(levels, ", ")+"], sidecars: [none, both]}\nbaseline: {sidecars: none}\n")
}

// nodesAt parses nodes, each as NAME, NAME@ZONE or NAME@ZONE:KIND.
func nodesAt(text string) []NodeAt {
	var out []NodeAt
	for _, one := range strings.Fields(text) {
		one, kind, _ := strings.Cut(one, ":")
		name, zone, _ := strings.Cut(one, "@")
		out = append(out, NodeAt{Name: name, Host: name, Zone: zone, Kind: kind})
	}
	return out
}

func TestPlaces(t *testing.T) {
	const same, node, zone, free = PlacementSameNode, PlacementOtherNode, PlacementOtherZone, PlacementScheduled
	for _, c := range []struct {
		levels []string
		nodes  string
		want   string // client, then each level's node; the error's text after !
	}{
		{[]string{free}, "a b", ""},
		{[]string{same}, "", "!there is no schedulable node"},
		{[]string{same, node}, "a", "!placement: same-node, other-node takes 2 nodes, and there is one schedulable node: a in no zone"},
		{[]string{same, node}, "a b", "a same-node=a other-node=b"},
		{[]string{node}, "a@x b@y c@x", "a other-node=c"},
		{[]string{node}, "a@x:8 b@y:8 c@z:8 d@z:4", "c other-node=d"},
		{[]string{zone}, "a@x b@y", "a other-zone=b"},
		{[]string{zone}, "a@x b@x", "!other-zone takes 2 nodes in different zones, and there are 2 schedulable nodes: a in zone x, b in zone x"},
		{[]string{zone}, "a@x:8 b@y:4 c@z:8", "a other-zone=c"},
		{[]string{same, node, zone}, "a@x b@y c@x", "a same-node=a other-node=c other-zone=b"},
		{[]string{same, node, zone}, "a@x b@y c@z", "!3 nodes, of which 2 are in one zone and 1 in another, and there are 3 schedulable nodes"},
		{[]string{zone}, "a b c d e f g h i j", "!h in no zone, and 2 more"},
	} {
		p := placedPlan(t, c.levels...)
		got, err := ChoosePlaces(p, nodesAt(c.nodes), nil, "buy some")
		if says, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "test.yaml:4:") {
				t.Errorf("%v on %q: %v, want %q", c.levels, c.nodes, err, says)
			}
			continue
		}
		words := []string{got[PlacementClient].Name}
		for _, level := range placementFactor.Levels {
			if at, ok := got[level]; ok {
				words = append(words, level+"="+at.Name)
			}
		}
		if text := strings.Join(words, " "); err != nil || text != c.want || Placed(p) != (c.want != "") {
			t.Errorf("%v on %q: %q, %v; want %q", c.levels, c.nodes, text, err, c.want)
		}
	}
}

// A resumed run has the nodes of its earlier trials, or none.
func TestPlacesKept(t *testing.T) {
	p := placedPlan(t, PlacementSameNode, PlacementOtherNode)
	trial := func(level, client, server string, valid bool) record.Trial {
		return record.Trial{Cell: record.Cell{FactorPlacement: level}, Validity: record.Validity{Valid: valid},
			Nodes: map[string]record.NodeAt{record.PartGenerator: {Name: client}, record.PartWorker: {Name: server}}}
	}
	keep := PlacesKept([]record.Trial{trial(PlacementOtherNode, "c", "d", true), trial(PlacementSameNode, "a", "b", false), trial(PlacementScheduled, "a", "a", true)})
	got, err := ChoosePlaces(p, nodesAt("a b c d"), keep, "")
	if err != nil || got[PlacementClient].Name != "c" || got[PlacementSameNode].Name != "c" || got[PlacementOtherNode].Name != "d" {
		t.Errorf("%v, %v", got, err)
	}
	const says = "the run's trials so far had clients on c, other-node on d, and now there are 3 schedulable nodes"
	if _, err = ChoosePlaces(p, nodesAt("a b d"), keep, ""); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("without one of them: %v", err)
	}
	if keep = PlacesKept(nil); len(keep) != 0 {
		t.Errorf("a new run keeps %v", keep)
	}
}

func TestSpread(t *testing.T) {
	for want, levels := range map[string][]string{
		"1 1": {PlacementScheduled, PlacementSameNode}, "2 1": {PlacementSameNode, PlacementOtherNode},
		"2 2": {PlacementOtherZone}, "3 2": {PlacementOtherNode, PlacementOtherZone},
	} {
		if nodes, zones := placedPlan(t, levels...).Spread(); fmt.Sprint(nodes, zones) != want {
			t.Errorf("%v: %d nodes, %d zones; want %s", levels, nodes, zones, want)
		}
	}
}

// Servers have pods for each place, clients one for all of them: only the server moves.
func TestPlacedVariants(t *testing.T) {
	p := placedPlan(t, PlacementScheduled, PlacementSameNode, PlacementOtherNode, PlacementOtherZone)
	names := func(variants []Variant) (out []string) {
		for _, v := range variants {
			if !v.Twin {
				out = append(out, v.Name()+" "+v.Place())
			}
		}
		slices.Sort(out)
		return out
	}
	if got, want := names(ClientVariants(p)), []string{"plain ", "plain-placed placed", "sidecar ", "sidecar-placed placed"}; !slices.Equal(got, want) {
		t.Errorf("clients %q", got)
	}
	var want []string
	for _, kind := range []string{"plain", "sidecar"} {
		want = append(want, kind+" ")
		for _, level := range placementFactor.Levels[1:] {
			want = append(want, kind+"-"+level+" "+level)
		}
	}
	slices.Sort(want)
	if got := names(ServerVariants(p)); !slices.Equal(got, want) {
		t.Errorf("servers %q, want %q", got, want)
	}
}
