package trial

import (
	"maps"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const placedStudy = `
name: placed
question: Where?
factors:
  placement: [as-scheduled, same-node, other-node, other-zone]
  sidecars: [none, both]
baseline: {sidecars: none}
`

// Each pod that has a place is bound to its node by the node's own label, and no
// other pod is.
func TestPin(t *testing.T) {
	plan := studytest.Plan(t, placedStudy)
	top := newTopology("ns", plan)
	top.places = study.Places{
		study.PlacementClient: {Name: "a", Host: "host-a"}, study.PlacementSameNode: {Name: "a", Host: "host-a"},
		study.PlacementOtherNode: {Name: "b", Host: "host-b"}, study.PlacementOtherZone: {Name: "c", Host: "host-c"},
	}
	all, err := top.deployments(sitetest.Istio(), sitetest.Images, "run")
	if err != nil {
		t.Fatal(err)
	}
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
	if all, err = newTopology("ns", plan).deployments(sitetest.Istio(), sitetest.Images, "run"); err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if len(d.Spec.Template.Spec.NodeSelector) > 0 {
			t.Errorf("%s is bound before nodes were chosen", d.Name)
		}
	}
}

// Several generators that may run anywhere run on different nodes as far as there are any;
// those that have a place are there, all of them.
func TestSpread(t *testing.T) {
	for _, place := range []string{"placement=as-scheduled", "placement=other-node"} {
		top := newTopology("ns", studytest.Plan(t, scatteredStudy, place))
		top.places = study.Places{study.PlacementClient: {Name: "a", Host: "a"}, study.PlacementOtherNode: {Name: "b", Host: "b"}}
		all, err := top.deployments(sitetest.Istio(), sitetest.Images, "run")
		if err != nil {
			t.Fatal(err)
		}
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

// aNode is one that is ready, with what is done to it.
func aNode(change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "h", corev1.LabelTopologyRegion: "eu", corev1.LabelTopologyZone: "a", corev1.LabelInstanceTypeStable: "m5"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}, NodeInfo: corev1.NodeSystemInfo{Architecture: "amd64", KernelVersion: "6.1"}},
	}
	if change != nil {
		change(n)
	}
	return n
}

func TestNodeAt(t *testing.T) {
	if got, want := nodeAt(aNode(nil)), (study.NodeAt{Name: "n", Host: "h", Zone: "eu/a", Kind: "m5, amd64, 8 CPUs, Linux 6.1"}); got != want {
		t.Errorf("%+v", got)
	}
	if got := site.Zone(aNode(func(n *corev1.Node) { delete(n.Labels, corev1.LabelTopologyRegion) })); got != "a" {
		t.Errorf("without a region: %q", got)
	}
	if got := site.Zone(aNode(func(n *corev1.Node) { delete(n.Labels, corev1.LabelTopologyZone) })); got != "" {
		t.Errorf("without a zone: %q", got)
	}
}

const scatteredStudy = `
name: scattered
question: Which way?
settings: {connections: 6}
factors: {sidecars: [none, ambient], generators: [1, 3]}
baseline: {sidecars: none}
`

// Several generators where proxies on nodes carry requests are refused on several nodes,
// with their place in the study, unless all of them are on one.
func TestRefuseSpread(t *testing.T) {
	err := refuseSpread(studytest.Plan(t, scatteredStudy), 3)
	if err == nil || !strings.Contains(err.Error(), "3 generators may come to be on the worker's node and on others") || !strings.Contains(err.Error(), "test.yaml:5") {
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
