package record

import (
	"fmt"
	"slices"
	"testing"
)

func TestWay(t *testing.T) {
	w := Way{PartClientNode, PartWaypoint, PartServerNode}
	if got := w.At(PlaceNode); !slices.Equal(got, []string{PartClientNode, PartServerNode}) {
		t.Errorf("on nodes: %v", got)
	}
	one := w.OnOneNode()
	if !slices.Equal(one, Way{PartNode, PartWaypoint, PartNode}) || w[0] != PartClientNode {
		t.Errorf("on one node: %v, made of %v", one, w)
	}
	if got := one.At(PlaceNode); !slices.Equal(got, []string{PartNode}) {
		t.Errorf("on the one node: %v", got)
	}
	if !one.Shared() || (Way{PartClientProxy, PartServerProxy}).Shared() || (Way{}).Shared() {
		t.Error("shared ways")
	}
	if got := one.Parts(); !slices.Equal(got, []string{PartNode, PartWaypoint}) {
		t.Errorf("parts: %v", got)
	}
	if one.Has(PartClientProxy) || !one.Has(PartWaypoint) || (Way{}).Has("") {
		t.Error("what is on the way")
	}
	if got := Way(nil).Parts(); len(got) > 0 {
		t.Errorf("without proxies: %v", got)
	}
}

// Each proxy has a distinct part and distinct words.
func TestProxies(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Proxies {
		for i, word := range []string{p.Part, p.Name, p.Noun} {
			if key := fmt.Sprint(i, word); word == "" || seen[key] {
				t.Errorf("%+v: %q", p, word)
			} else {
				seen[key] = true
			}
		}
		if got, ok := ProxyOf(p.Part); !ok || got != p {
			t.Errorf("%s: %+v", p.Part, got)
		}
		if p.Place.Shared() == (p.Place == PlaceSidecar) {
			t.Errorf("%s: shared %v", p.Part, p.Place.Shared())
		}
	}
	if _, ok := ProxyOf(PartWorker); ok {
		t.Error("the workload is a proxy")
	}
}
