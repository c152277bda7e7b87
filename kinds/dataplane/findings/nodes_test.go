package findings

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// onNodes makes a proxy on each of two nodes carry the requests of the cells with sidecars: they
// use 5 thousandths of a CPU each without requests, and 80 us more per request together.
func onNodes(t *record.Trial) {
	idle := 0.005 * t.Window.Seconds
	t.Nodes = map[string]record.NodeAt{record.PartGenerator: {Name: "a"}, record.PartWorker: {Name: "b"}}
	delete(t.CPU, record.PartClientProxy)
	delete(t.CPU, record.PartServerProxy)
	if t.Cell[study.FactorSidecars] == study.SidecarsNone {
		t.CPU[record.PartIdleNode], t.IdleNodes = record.CPU{UserS: 2 * idle}, 2
		return
	}
	t.Way = record.Way{record.PartClientNode, record.PartServerNode}
	for _, part := range t.Way {
		t.CPU[part] = record.CPU{UserS: idle + 40e-6*float64(t.Load.Completed)}
	}
}

// The idle use of node proxies is reported separately from their cost.
func TestProxiesOnNodes(t *testing.T) {
	w := analysistest.Quiet()
	w.Spoil = onNodes
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.RateStudy, 6, 5, w))
	near := func(name string, cell record.Cell, want float64, unit string) {
		t.Helper()
		x := analysistest.Get(t, f, name, cell)
		if math.Abs(x.Estimate-want) > 0.02*want || x.Unit != unit || x.Verdict != record.VerdictMeasured {
			t.Errorf("%s of %v: %+v, want %g %s", name, cell, x, want, unit)
		}
	}
	for _, rate := range []string{"250", "1000", "3000"} {
		near(dataplane.FindingIdleNode, record.Cell{"sidecars": "none", "rate": rate}, 5, "mCPU")
		near(dataplane.FindingNodesNet, record.Cell{"sidecars": "both", "rate": rate}, 80, "us/request")
	}
	// A waypoint connects to the pods' nodes itself: its own node has no proxy on the way.
	w.Spoil = func(t *record.Trial) {
		onNodes(t)
		if len(t.Way) > 0 {
			t.Nodes[record.PartWaypoint] = record.NodeAt{Name: "c"}
		}
	}
	through := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.RateStudy, 6, 5, w))
	for _, rate := range []string{"250", "1000", "3000"} {
		cell := record.Cell{"sidecars": "both", "rate": rate}
		if x := analysistest.Get(t, through, dataplane.FindingNodesNet, cell); math.Abs(x.Estimate-80) > 0.02*80 {
			t.Errorf("past a waypoint on a third node, at %s: %+v", rate, x)
		}
	}
	w.Spoil = onNodes
	for _, x := range f.Findings {
		if x.Name == dataplane.FindingIdleNode && x.Cell["sidecars"] == "both" || x.Name == dataplane.FindingNodesNet && x.Cell["sidecars"] == "none" {
			t.Errorf("%+v", x)
		}
	}
	// Without a cell whose requests pass none, the idle part is unknown.
	text := strings.Replace(strings.Replace(analysistest.RateStudy, "sidecars: [none, both]", "sidecars: [both]", 1), "baseline: {sidecars: none}\n", "", 1)
	f = analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 5, w))
	for _, x := range f.Findings {
		if strings.HasPrefix(x.Name, "cpu_of_") {
			t.Errorf("%+v", x)
		}
	}
}

// What a request takes of the whole machine is only reported for a single machine: of several nodes
// the trial has the server's, unless it knows that they share one.
func TestSizingOnSeveralMachines(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes  map[string]record.NodeAt
		others *record.Others
		told   bool
	}{
		"one node":    {map[string]record.NodeAt{record.PartGenerator: {Name: "a"}, record.PartWorker: {Name: "a"}}, nil, true},
		"two nodes":   {map[string]record.NodeAt{record.PartGenerator: {Name: "a"}, record.PartWorker: {Name: "b"}}, nil, false},
		"one machine": {map[string]record.NodeAt{record.PartGenerator: {Name: "a"}, record.PartWorker: {Name: "b"}}, &record.Others{}, true},
		"not known":   {nil, nil, true},
	} {
		w := carryingWorld()
		carried := w.Spoil
		w.Spoil = func(t *record.Trial) {
			carried(t)
			t.Nodes, t.Others = tt.nodes, tt.others
		}
		z := analysistest.Analyze(t, kinds, analysistest.Simulate(t, sizingStudy, 4, 5, w)).Sizings[0]
		for _, way := range z.Ways {
			if (way.Machine != nil) != tt.told {
				t.Errorf("%s, %s: %+v", name, way.Name, way.Machine)
			}
		}
	}
}
