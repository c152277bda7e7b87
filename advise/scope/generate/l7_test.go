package generate

import (
	"slices"
	"testing"
)

// What decides by what is in requests, or balances them, needs a proxy that reads them; what decides by
// connections does not.
func TestL7(t *testing.T) {
	const host = "cart.shop.svc.cluster.local"
	for name, c := range map[string]struct {
		kind, namespace, spec string
		is                    bool
	}{
		"a route":                  {"VirtualService", "shop", `{"hosts":["cart"],"http":[{}]}`, true},
		"a route of TCP":           {"VirtualService", "shop", `{"hosts":["cart"],"tcp":[{}]}`, false},
		"a route at a gateway":     {"VirtualService", "shop", `{"hosts":["cart"],"gateways":["edge"],"http":[{}]}`, false},
		"a route of another host":  {"VirtualService", "shop", `{"hosts":["front"],"http":[{}]}`, false},
		"outlier detection":        {"DestinationRule", "shop", `{"host":"cart","trafficPolicy":{"outlierDetection":{}}}`, true},
		"balancing of a subset":    {"DestinationRule", "other", `{"host":"cart.shop.svc.cluster.local","subsets":[{"name":"a","trafficPolicy":{"loadBalancer":{"simple":"RANDOM"}}}]}`, true},
		"requests on a connection": {"DestinationRule", "shop", `{"host":"cart","trafficPolicy":{"portLevelSettings":[{"connectionPool":{"http":{"maxRetries":3}}}]}}`, true},
		"mutual TLS":               {"DestinationRule", "shop", `{"host":"cart","trafficPolicy":{"tls":{"mode":"ISTIO_MUTUAL"},"connectionPool":{"tcp":{}}}}`, false},
		"principals":               {"AuthorizationPolicy", "shop", `{"rules":[{"from":[{"source":{"principals":["a"]}}],"to":[{"operation":{"ports":["80"]}}]}]}`, false},
		"paths":                    {"AuthorizationPolicy", "shop", `{"rules":[{"to":[{"operation":{"notPaths":["/a"]}}]}]}`, true},
		"headers":                  {"AuthorizationPolicy", "shop", `{"selector":{"matchLabels":{"app":"cart"}},"rules":[{"when":[{"key":"request.headers[a]"}]}]}`, true},
		"an external authorizer":   {"AuthorizationPolicy", "istio-system", `{"action":"CUSTOM","rules":[{}]}`, true},
		"paths of other pods":      {"AuthorizationPolicy", "shop", `{"selector":{"matchLabels":{"app":"front"}},"rules":[{"to":[{"operation":{"paths":["/a"]}}]}]}`, false},
		"paths elsewhere":          {"AuthorizationPolicy", "other", `{"rules":[{"to":[{"operation":{"paths":["/a"]}}]}]}`, false},
		"paths at a waypoint":      {"AuthorizationPolicy", "shop", `{"targetRefs":[{"kind":"Gateway","name":"waypoint"}],"rules":[{"to":[{"operation":{"paths":["/a"]}}]}]}`, false},
		"paths of a Service":       {"AuthorizationPolicy", "shop", `{"targetRefs":[{"kind":"Service","name":"cart"}],"rules":[{"to":[{"operation":{"paths":["/a"]}}]}]}`, true},
		"tokens":                   {"RequestAuthentication", "shop", `{"jwtRules":[{"issuer":"a"}]}`, true},
		"Wasm":                     {"WasmPlugin", "shop", `{"selector":{"matchLabels":{"app":"cart"}}}`, true},
		"a filter":                 {"EnvoyFilter", "shop", `{"workloadSelector":{"labels":{"app":"cart"}},"configPatches":[{"match":{"context":"SIDECAR_INBOUND"}}]}`, true},
		"a filter of gateways":     {"EnvoyFilter", "istio-system", `{"configPatches":[{"match":{"context":"GATEWAY"}}]}`, false},
	} {
		m := newMesh(t).workload("shop", "cart").workload("shop", "front").has("Service", "shop", "cart", `{"selector":{"app":"cart"},"ports":[{"name":"http","port":80}]}`).has(c.kind, c.namespace, "x", c.spec)
		got := m.inv.L7(host)
		if is := len(got) > 0; is != c.is || is && (len(got) != 1 || got[0].Kind != c.kind || got[0].Name != "x") {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := newMesh(t).service("shop", "cart").service("shop", "a").service("other", "b").inv.Hosts("shop"); !slices.Equal(got, []string{"a.shop.svc.cluster.local", host}) {
		t.Errorf("hosts: %v", got)
	}
}
