package app

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/studytest"
)

// More nodes hold more pods.
func TestFitsNodes(t *testing.T) {
	plan := studytest.Plan(t, `
name: control
question: Does it fit?
control: {changes: 5}
settings: {services: 30, istiod_replicas: 2, real_pods: 500}
factors: {proxies: [10, 20]}
baseline: {proxies: 10}
blocks: {min: 2, max: 4}
`)
	for nodes, want := range map[int]string{
		1: "502 real pods, and the one node of the lab on this machine takes 230",
		2: "502 real pods, and the 2 nodes of the lab on this machine take 480",
		3: "",
	} {
		err := fitsNodes(plan, nodes)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d nodes: %v", nodes, err)
		}
	}
}
