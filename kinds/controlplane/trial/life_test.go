package trial

import (
	"testing"

	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/run/site"
)

func TestLives(t *testing.T) {
	a, b := verdict.Replica{Pod: "istiod-a"}, verdict.Replica{Pod: "istiod-b"}
	if lifeOf([]verdict.Replica{a, b}) != lifeOf([]verdict.Replica{b, a}) {
		t.Error("the order in which pods are listed makes another life")
	}
	again := a
	again.Restarts++
	if one := lifeOf([]verdict.Replica{a}); one == lifeOf([]verdict.Replica{again}) || one == lifeOf([]verdict.Replica{b}) || one == "" {
		t.Errorf("%q is the life of another container too", one)
	}
	trial := &controlTrial{c: &controlPlane{}}
	if got := trial.sidecarLife(); got != "" {
		t.Errorf("no sidecar has the life %q", got)
	}
	trial.c.reals = []site.Pod{{Containers: map[string]string{"worker": "2", "istio-proxy": "1"}}, {Containers: map[string]string{"istio-proxy": "3"}}}
	if got := trial.sidecarLife(); got != "1,2,3" {
		t.Errorf("%q", got)
	}
}
