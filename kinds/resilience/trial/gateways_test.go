package trial

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const throughGateway = `
name: through-gateway
question: Does it hold?
mesh: istio
graph:
  services:
    edge: {gateway: true, replicas: 2, calls: [{to: web}]}
    web: {replicas: 3, calls: [{to: bar}]}
    bar: {}
load: {to: edge, clients: 2}
settings: {rate: 100, protocol: http2, keep_alive: false, drain: false}
timeline: {duration: 20s}
blocks: {min: 1, max: 1}
stop: none
`

// Clients of a gateway are outside the mesh. Its pods are only a proxy, and the service behind it
// listens to the clients' protocol too.
func TestGatewayScene(t *testing.T) {
	plan := studytest.Plan(t, throughGateway)
	s := sceneIn(t, plan, plan.Cells[0], sitetest.Istio())
	deployments, err := s.deployments()
	must.OK(t, err)
	for _, d := range deployments {
		spec := d.Spec.Template
		injected := spec.Labels["sidecar.istio.io/inject"] == "true"
		if gateway := d.Name == "edge"; injected == (d.Name == roleClients) || gateway != (spec.Annotations["inject.istio.io/templates"] == "gateway") || len(spec.Spec.Containers) != 1 ||
			gateway != (spec.Spec.Containers[0].Name == "istio-proxy") || spec.Labels[trialMark] != "b000-t00" || *spec.Spec.TerminationGracePeriodSeconds == 0 {
			t.Errorf("%s: labels %v, annotations %v, containers %v", d.Name, spec.Labels, spec.Annotations, spec.Spec.Containers)
		}
	}
	ports := map[string][]int32{}
	for _, service := range s.services() {
		for _, p := range service.Spec.Ports {
			ports[service.Name] = append(ports[service.Name], p.Port)
		}
	}
	if !slices.Equal(ports["edge"], []int32{8081}) || !slices.Equal(ports["web"], []int32{8080, 8081}) || !slices.Equal(ports["bar"], []int32{8080}) {
		t.Errorf("ports %v", ports)
	}
	if route := s.forwarded(s.scenario.Graph.Services[0]); route != (mesh.Route{Name: "web", Namespace: s.namespace, Port: 8081, Via: "edge"}) {
		t.Errorf("forwarded to %+v", route)
	}
	if edge := s.workload(&s.scenario.Graph.Services[0]); !edge.Gateway || !edge.Proxy.Abrupt || s.workload(&s.scenario.Graph.Services[1]).Proxy.Abrupt {
		t.Errorf("%+v", edge)
	}
	var spec load.Spec
	if spec, err = s.loadSpec(0); err != nil || spec.KeepAlive || spec.URL != "http://edge.meshtrial-run.svc.cluster.local:8081/" {
		t.Errorf("%+v, %v", spec, err)
	}
	if o := s.ledgerOptions(); o.ClientProxy || !o.Services["edge"].Gateway || o.Services["web"].Gateway || !o.Services["web"].Sidecar {
		t.Errorf("%+v", o)
	}
}

// Counters count from the first reading of pods that exist at the start, and from zero of those
// that come later or whose proxy restarts.
func TestEntries(t *testing.T) {
	e := entries{map[string]mesh.Entered{}, map[string]mesh.Entered{}}
	count := func(n int64) mesh.Entered { return mesh.Entered{Connections: n, Closed: 2 * n, Requests: 3 * n} }
	first := count(10)
	first.Active = 4
	e.add("a", "a/1", first, false)
	e.add("a", "a/1", count(12), true)
	e.add("b", "b/1", count(4), true)
	e.add("a", "a/2", count(1), true)
	e.add("a", "a/2", count(6), true)
	want := count(8)
	want.Connections += first.Active
	if e.sum["a"] != want || e.sum["b"] != count(4) {
		t.Errorf("%+v", e.sum)
	}
}
