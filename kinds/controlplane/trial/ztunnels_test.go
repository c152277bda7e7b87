package trial

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
)

// An istiod that turns out not to be in ambient mode gets no ztunnels.
func TestFleetOfZtunnels(t *testing.T) {
	s, _, l := controlCell(t, "proxies=0", "ztunnels=1", "hbone=true")
	if l.Connected() != 2 || sizesOf(controlplane.Of(s), l).Ztunnels != 1 { // there is a gateway
		t.Errorf("%+v", l)
	}
	ids := []population.Identity{{Type: population.Ztunnel, Name: "ztunnel-1", Namespace: population.ZtunnelNamespace, IP: "240.0.0.1", ServiceAccount: population.ServiceAccount, Node: "mm-node-0"}}
	d := mesh.Discovery{Plaintext: "istiod:15010", TLS: "istiod:15012", RootCA: []byte("PEM")}
	if _, err := fleetSpec(controlplane.Of(s), l, ids, d, 3); err == nil || !strings.Contains(err.Error(), "istiod is not in ambient mode") {
		t.Errorf("%v", err)
	}
	d.Ambient = true
	spec, err := fleetSpec(controlplane.Of(s), l, ids, d, 3)
	if err != nil || spec.Proxies[0].Type != xds.NodeZtunnel || !spec.HBONE {
		t.Errorf("%+v, %v", spec, err)
	}
}
