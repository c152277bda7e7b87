package trial

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// An istiod that turns out not to be in ambient mode is asked by no ztunnel.
func TestFleetOfZtunnels(t *testing.T) {
	s, _, l := controlCell(t, "proxies=0", "ztunnels=1", "hbone=true")
	if l.Connected() != 2 || sizesOf(s.Control, l).Ztunnels != 1 { // there is a gateway
		t.Errorf("%+v", l)
	}
	ids := []population.Identity{{Type: population.Ztunnel, Name: "ztunnel-1", Namespace: population.ZtunnelNamespace, IP: "240.0.0.1", ServiceAccount: population.ServiceAccount, Node: "mm-node-0"}}
	d := mesh.Discovery{Plaintext: "istiod:15010", TLS: "istiod:15012", RootCA: []byte("PEM")}
	if _, err := fleetSpec(s.Control, l, ids, d, 3); err == nil || !strings.Contains(err.Error(), "istiod is not in ambient mode") {
		t.Errorf("%v", err)
	}
	d.Ambient = true
	spec, err := fleetSpec(s.Control, l, ids, d, 3)
	if err != nil || spec.Proxies[0].Type != xds.NodeZtunnel || !spec.HBONE {
		t.Errorf("%+v, %v", spec, err)
	}
}

// Where a cell leaves ambient mode as installed, its ztunnels are asked of the
// installation.
func TestAsksForZtunnels(t *testing.T) {
	for sets, want := range map[string]bool{"": false, "ztunnels=1": true, "ztunnels=1 istiod_env=PILOT_ENABLE_AMBIENT=true": false, "ztunnels=1 istiod_env=PILOT_ENABLE_CDS_CACHE=false": true} {
		asked, err := Asks(studytest.Plan(t, controlText, strings.Fields(sets)...))
		if err != nil || asked.Ztunnels != want {
			t.Errorf("%s: %v, %v", sets, asked.Ztunnels, err)
		}
	}
}

// HBONE of real sidecars and of a real gateway is asked of the installation, that of
// simulated ones of nobody.
func TestAsksForHBONE(t *testing.T) {
	for sets, want := range map[string]bool{"hbone=true": false, "real_pods=2": false, "hbone=true real_pods=2": true, "hbone=false real_pods=2": false,
		"change=gateway-route control.gateway.probes=3": false, "change=gateway-route control.gateway.probes=3 hbone=true": true} {
		asked, err := Asks(studytest.Plan(t, controlText, strings.Fields(sets)...))
		if err != nil || asked.HBONE != want {
			t.Errorf("%s: %v, %v", sets, asked.HBONE, err)
		}
	}
}
