package trial

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const placedStudy = `
name: placed
question: Where?
factors:
  placement: [as-scheduled, same-node, other-node, other-zone]
  sidecars: [none, both]
baseline: {sidecars: none}
`

// Each pod with a place is bound to its node by the node's own label, and no other pod is.
func TestPin(t *testing.T) {
	plan := studytest.Plan(t, placedStudy)
	top := newTopology("ns", plan)
	top.places = dataplane.Places{
		dataplane.PlacementClient: {Name: "a", Host: "host-a"}, dataplane.PlacementSameNode: {Name: "a", Host: "host-a"},
		dataplane.PlacementOtherNode: {Name: "b", Host: "host-b"}, dataplane.PlacementOtherZone: {Name: "c", Host: "host-c"},
	}
	all, err := top.deployments(sitetest.Istio(), sitetest.Images, "run")
	must.OK(t, err)
	pinned := 0
	for _, d := range all {
		want := ""
		switch name := strings.TrimSuffix(d.Name, "-twin"); {
		case strings.HasSuffix(name, "-placed") || strings.HasSuffix(name, "-same-node"):
			want = "host-a"
		case strings.HasSuffix(name, "-other-node"):
			want = "host-b"
		case strings.HasSuffix(name, "-other-zone"):
			want = "host-c"
		}
		got := d.Spec.Template.Spec.NodeSelector
		if got[corev1.LabelHostname] != want || (want == "") != (len(got) == 0) {
			t.Errorf("%s is bound to %v, want %q", d.Name, got, want)
		}
		if want != "" {
			pinned++
		}
		if leaves := len(d.Spec.Template.Spec.Tolerations) > 0; leaves == (want != "") {
			t.Errorf("%s leaves a node that died: %v", d.Name, leaves)
		}
	}
	if pinned != 12 { // clients and three servers, of two kinds, the plain ones twice
		t.Errorf("%d pods have a place", pinned)
	}
	all, err = newTopology("ns", plan).deployments(sitetest.Istio(), sitetest.Images, "run")
	must.OK(t, err)
	for _, d := range all {
		if len(d.Spec.Template.Spec.NodeSelector) > 0 {
			t.Errorf("%s is bound before nodes were chosen", d.Name)
		}
	}
}

// Several generators without a place run on different nodes if possible; those with a place all run
// there.
func TestSpread(t *testing.T) {
	for _, place := range []string{"placement=as-scheduled", "placement=other-node"} {
		top := newTopology("ns", studytest.Plan(t, scatteredStudy, place))
		top.places = dataplane.Places{dataplane.PlacementClient: {Name: "a", Host: "a"}, dataplane.PlacementOtherNode: {Name: "b", Host: "b"}}
		all, err := top.deployments(sitetest.Istio(), sitetest.Images, "run")
		must.OK(t, err)
		several := 0
		for _, d := range all {
			want := *d.Spec.Replicas > 1 && place == "placement=as-scheduled"
			spread := d.Spec.Template.Spec.TopologySpreadConstraints
			if (len(spread) == 1) != want || want && (spread[0].TopologyKey != corev1.LabelHostname || !maps.Equal(spread[0].LabelSelector.MatchLabels, d.Spec.Selector.MatchLabels)) {
				t.Errorf("%s: %d pods of %s are spread: %+v", place, *d.Spec.Replicas, d.Name, spread)
			}
			if *d.Spec.Replicas > 1 {
				several++
			}
		}
		if several == 0 {
			t.Errorf("%s: no workload has several pods", place)
		}
	}
}

const scatteredStudy = `
name: scattered
question: Which way?
settings: {connections: 6}
factors: {sidecars: [none, ambient], generators: [1, 3]}
baseline: {sidecars: none}
`

// Several generators are rejected on several nodes if node proxies carry requests, with the
// position in the study, unless all of them are on one node.
func TestRefuseSpread(t *testing.T) {
	err := refuseSpread(studytest.Plan(t, scatteredStudy), 3)
	if err == nil || !strings.Contains(err.Error(), "3 generators may be scheduled both on the worker's node and on others") || !strings.Contains(err.Error(), "test.yaml:5") {
		t.Errorf("three nodes: %v", err)
	}
	if err := refuseSpread(studytest.Plan(t, scatteredStudy), 1); err != nil {
		t.Errorf("one node: %v", err)
	}
	for _, set := range []string{"placement=other-node", "placement=same-node", "sidecars=[none,both]", "generators=1"} {
		if err := refuseSpread(studytest.Plan(t, scatteredStudy, set), 3); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
}
