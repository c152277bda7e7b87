package local

import (
	"testing"

	"github.com/meshtrial/meshtrial/components"
)

func TestImagesOf(t *testing.T) {
	u := &starter{images: []components.Image{{Ref: components.PauseRef}, {Ref: "docker.io/istio/pilot:1"}}}
	plain := u.imagesOf()
	if plain.Istiod != "docker.io/istio/pilot:1" || plain.Hub != "docker.io/istio" || plain.Proxy != "docker.io/istio/proxyv2:1" || plain.Meshtrial != components.RolesRef {
		t.Errorf("%+v", plain)
	}
	if plain.LinkerdVersion != "" || plain.LinkerdProxy != "" || plain.LinkerdController != "" {
		t.Errorf("a lab without Linkerd has %+v", plain)
	}
	u.linkerd = &components.Linkerd{Version: "edge-1", Controller: "c:edge-1", Proxy: "p:edge-1"}
	u.o.Official = true
	if got := u.imagesOf(); got.LinkerdVersion != "edge-1" || got.LinkerdProxy != "p:edge-1" || got.LinkerdController != "c:edge-1" || got.Istiod != plain.Istiod {
		t.Errorf("%+v", got)
	}
}
