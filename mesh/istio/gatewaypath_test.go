package istio

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Servers behind the gateway share one gateway. Their Services lead to it, and it
// forwards each host's requests to that host's pods.
func TestGatewayPath(t *testing.T) {
	m := &Mesh{}
	server := func(name string) mesh.Workload {
		return mesh.Workload{Name: name, Namespace: "run", Carrier: study.SidecarsGateway}
	}
	client := mesh.Workload{Name: "client-gateway", Namespace: "run", Carrier: study.SidecarsGateway, Client: true}
	objects := m.Policies([]mesh.Workload{server("server-gateway"), server("server-other"), client, {Name: "server-none", Namespace: "run"}})
	byName := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		byName[o.GetKind()+"/"+o.GetName()] = o
		if o.GetNamespace() != "run" {
			t.Errorf("%s is in namespace %q", o.GetName(), o.GetNamespace())
		}
	}
	want := []string{"Deployment/gateway", "Gateway/gateway", "Service/direct-server-gateway", "Service/direct-server-other", "Telemetry/gateway", "VirtualService/server-gateway", "VirtualService/server-other"}
	if got := slices.Sorted(maps.Keys(byName)); !slices.Equal(got, want) || len(objects) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	labels, _, err := unstructured.NestedStringMap(byName["Deployment/gateway"].Object, "spec", "template", "metadata", "labels")
	if err != nil || labels[mesh.AppLabel] != "gateway" || labels["sidecar.istio.io/inject"] != "true" || labels["istio"] != "" {
		t.Errorf("labels of the gateway's pod: %v, %v", labels, err)
	}
	annotations, _, err := unstructured.NestedStringMap(byName["Deployment/gateway"].Object, "spec", "template", "metadata", "annotations")
	if err != nil || annotations["inject.istio.io/templates"] != "gateway" {
		t.Errorf("annotations of the gateway's pod: %v, %v", annotations, err)
	}
	leaves, _, err := unstructured.NestedSlice(byName["Deployment/gateway"].Object, "spec", "template", "spec", "tolerations")
	if err != nil || len(leaves) != 2 {
		t.Errorf("the gateway's pod leaves a node that died: %v, %v", leaves, err)
	}
	route, err := byName["VirtualService/server-gateway"].MarshalJSON()
	for _, part := range []string{`"server-gateway.run.svc.cluster.local"`, `"direct-server-gateway.run.svc.cluster.local"`, `"run/gateway"`, `"port":8080`, `"port":8082`} {
		if err != nil || !strings.Contains(string(route), part) {
			t.Errorf("the route lacks %s: %s, %v", part, route, err)
		}
	}
	for sidecars, leads := range map[string]string{study.SidecarsGateway: "gateway", study.SidecarsNone: "server-x"} {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{mesh.AppLabel: "server-x"}}}
		m.DecorateService(s, record.Cell{study.FactorSidecars: sidecars})
		if got := s.Spec.Selector[mesh.AppLabel]; got != leads {
			t.Errorf("with sidecars %s the Service leads to %s", sidecars, got)
		}
	}
	if p := m.Proxies(record.PlaceGateway); len(p.Containers) != 1 || p.Selector != mesh.AppLabel+"=gateway" || p.Namespace != "" {
		t.Errorf("%+v", p)
	}
	if got := m.Policies([]mesh.Workload{{Name: "server-none", Namespace: "run"}, client}); len(got) != 0 {
		t.Errorf("without a server behind it there is %v", got)
	}
}

// Each request of the generator must be among those that the gateway forwarded.
func TestGatewayPathChecks(t *testing.T) {
	const passedOn = "cluster.outbound|8080||direct-server-gateway.run.svc.cluster.local;.upstream_rq_total"
	for name, tt := range map[string]struct {
		rise map[string]float64
		ok   bool
	}{
		"all":            {map[string]float64{passedOn: 102, "cluster.outbound|8080||server-none.run.svc.cluster.local;.upstream_rq_total": 7}, true},
		"some went by":   {map[string]float64{passedOn: 90}, false},
		"none was there": {map[string]float64{}, false},
	} {
		e := mesh.Evidence{Way: record.Way{record.PartGateway}, Requests: 100, Unknown: 4, Proxies: map[string]*mesh.Passed{record.PartGateway: {Rise: tt.rise, Total: map[string]float64{"server.concurrency": 2}}},
			Endpoint: mesh.Endpoint{Service: "server-gateway", Namespace: "run", Port: 8080}}
		got := gatewayChecks(e)
		if len(got) != 2 || got[0].Name != "gateway-requests" || got[0].OK != tt.ok || got[1].Name != "gateway-concurrency" || !got[1].OK {
			t.Errorf("%s: %+v", name, got)
		}
		e.Way = nil
		if got := gatewayChecks(e); got != nil {
			t.Errorf("%s, not on the way: %+v", name, got)
		}
	}
}
