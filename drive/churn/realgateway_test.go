package churn

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func realSpec(kind string) Spec {
	return Spec{Trial: "t", Kind: kind, Arrival: ArrivalUniform, Shape: rate(1), Count: 3,
		Population: population.Sizes{Namespaces: 2, Gateways: 1},
		Gateway:    &Gateway{Service: population.Service{Namespace: population.GatewayNamespace, Name: "edge"}, Backend: population.Service{Namespace: population.GatewayNamespace, Name: "behind"}}}
}

// Each route has its own host, which its marker shows only to gateways and which requests
// ask for, and leads to the pod behind the gateway. The resource to which routes are
// attached exists before them, with one route.
func TestEdgeRoutes(t *testing.T) {
	for kind, want := range map[string]struct{ apiVersion, object string }{
		KindGatewayRoute: {"networking.istio.io/v1", "VirtualService"},
		KindHTTPRoute:    {"gateway.networking.k8s.io/v1", "HTTPRoute"},
	} {
		p, err := NewPlan(realSpec(kind))
		must.OK(t, err)
		namespace, name := p.RealGateway()
		if len(p.prepare) != 2 || p.prepare[0].GetKind() != "Gateway" || p.prepare[0].GetName() != name || p.prepare[0].GetNamespace() != namespace || p.prepare[1].GetKind() != want.object {
			t.Errorf("%s: prepared %v", kind, p.prepare)
		}
		hosts := map[string]bool{p.GatewayHost(): true}
		for _, c := range p.Changes {
			if c.Host == "" || hosts[c.Host] || len(c.Markers) != 1 || c.Markers[0].Type != "rds" || c.Markers[0].Text != c.Host || !c.Scope.Gateways || c.Scope.Sidecars {
				t.Errorf("%s: %+v", kind, c)
			}
			hosts[c.Host] = true
			o := c.writes[0].object
			if o.GetAPIVersion() != want.apiVersion || o.GetKind() != want.object || o.GetNamespace() != population.GatewayNamespace {
				t.Errorf("%s: %v", kind, o)
			}
			text, err := o.MarshalJSON()
			if err != nil || !strings.Contains(string(text), "behind") || !strings.Contains(string(text), name) || !strings.Contains(string(text), c.Host) {
				t.Errorf("%s: %s, %v", kind, text, err)
			}
			must.OK(t, must.Err(population.ResourceOf(o)))
		}
	}
}

// The Gateways of changes select the gateways of the population and of the study. Other
// ingress gateways open no port for them and get no route.
func TestGatewaysSelectOurOwn(t *testing.T) {
	for _, kind := range []string{KindPublished, KindGateway, KindGatewayRoute} {
		p, err := NewPlan(realSpec(kind))
		must.OK(t, err)
		found := 0
		for _, o := range append(p.written(), p.prepare...) {
			if o.GetKind() != "Gateway" {
				continue
			}
			found++
			selector, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector")
			if err != nil || len(selector) != 1 || selector[population.GatewayLabel] != "true" {
				t.Errorf("%s: Gateway %s selects %v, %v", kind, o.GetName(), selector, err)
			}
		}
		if found == 0 {
			t.Errorf("%s: no Gateway", kind)
		}
	}
}

// The Gateway of the Gateway API names the existing gateways: without them istiod would
// create another.
func TestEdgeAddresses(t *testing.T) {
	for gateways, want := range map[int]string{1: "edge.mm-gateways.svc.cluster.local gateway.mm-gateways.svc.cluster.local", 0: "edge.mm-gateways.svc.cluster.local"} {
		s := realSpec(KindHTTPRoute)
		s.Population.Gateways = gateways
		p, err := NewPlan(s)
		must.OK(t, err)
		list, _, err := unstructured.NestedSlice(p.prepare[0].Object, "spec", "addresses")
		var got []string
		for _, a := range list {
			got = append(got, a.(map[string]any)["value"].(string))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%d simulated gateways: addresses %v, %v", gateways, got, err)
		}
	}
}

func TestEdgeRefuses(t *testing.T) {
	for name, spoil := range map[string]func(s *Spec){
		"no gateway":           func(s *Spec) { s.Gateway = nil },
		"elsewhere behind":     func(s *Spec) { s.Gateway.Backend.Namespace = "mm-1" },
		"elsewhere in reverse": func(s *Spec) { s.Gateway.Service.Namespace = "mm-1" },
		"not where others are": func(s *Spec) { s.Gateway.Service.Namespace, s.Gateway.Backend.Namespace = "mm-1", "mm-1" },
	} {
		s := realSpec(KindHTTPRoute)
		spoil(&s)
		if _, err := NewPlan(s); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}
