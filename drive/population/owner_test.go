package population

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Every object of a population is deleted with its owner: directly, with its
// namespace, or (nodes) with the first namespace. Nothing is owned twice.
func TestOwnership(t *testing.T) {
	sizes := Sizes{Namespaces: 2, Services: 3, EndpointsPerService: 2, Proxies: 6, Gateways: 1, ServiceEntries: 2, VirtualServices: 1, DummyNamespace: "istio-system", AuthorizationPolicies: 2}
	want, err := sizes.Objects(nil)
	must.OK(t, err)
	namespace := func(uid string, ending bool) map[string]*unstructured.Unstructured {
		o := Object{APIVersion: "v1", Kind: "Namespace", Name: Namespace(0)}.Unstructured()
		o.SetUID(types.UID(uid))
		if ending {
			now := metav1.Now()
			o.SetDeletionTimestamp(&now)
		}
		return map[string]*unstructured.Unstructured{Key(o): o}
	}
	if (&World{}).ownership(want, nil) != nil {
		t.Error("a population without an owner belongs to somebody")
	}
	w := &World{}
	w.Own(metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "meshtrial-r", UID: "run"})
	if w.ownership(nil, nil) != nil {
		t.Error("what is removed is taken over first")
	}
	for _, c := range []struct {
		name   string
		have   map[string]*unstructured.Unstructured
		anchor types.UID
	}{
		{"nothing is there", nil, "run"},
		{"the namespace is there", namespace("ns", false), "ns"},
		{"it is on its way out", namespace("ns", true), "run"},
	} {
		b := w.ownership(want, c.have)
		kinds := map[string]int{}
		for _, o := range want {
			owner := types.UID("")
			switch {
			case o.GetKind() == "Node":
				owner = c.anchor
			case o.GetKind() == "Namespace", o.GetNamespace() == "istio-system":
				owner = "run"
			}
			got := uids(b.of(o))
			if owner == "" && len(got) > 0 || owner != "" && (len(got) != 1 || got[0] != owner) {
				t.Errorf("%s: %s belongs to %v, want %q", c.name, Key(o), got, owner)
			}
			if owner != "" {
				kinds[o.GetKind()]++
			}
		}
		if kinds["Namespace"] != 3 || kinds["Node"] == 0 || kinds["ServiceEntry"] != 2 || kinds["VirtualService"] != 1 || len(kinds) != 4 {
			t.Errorf("%s: owned are %v", c.name, kinds)
		}
	}
}
