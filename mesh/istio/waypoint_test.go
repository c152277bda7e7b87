package istio

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The server's Service uses the waypoint, and both pods are in the ambient mesh.
func TestDecorateWaypoint(t *testing.T) {
	pod, m := corev1.PodTemplateSpec{}, &Mesh{}
	if err := m.Decorate(mesh.Workload{Name: "client-waypoint", Carrier: study.SidecarsWaypoint, Client: true}, &pod); err != nil || pod.Labels[dataplaneMode] != ambientMode {
		t.Errorf("labels %v, %v", pod.Labels, err)
	}
	for level, want := range map[string]string{study.SidecarsWaypoint: waypointName, study.SidecarsAmbient: "", study.SidecarsBoth: ""} {
		var s corev1.Service
		m.DecorateService(&s, record.Cell{study.FactorSidecars: level})
		if got := s.Labels["istio.io/use-waypoint"]; got != want {
			t.Errorf("a Service of cells %s uses the waypoint %q", level, got)
		}
	}
}

// A namespace gets one waypoint if it is on a workload's path, and, for an upstream
// Envoy, the filter that removes parts of its configuration.
func TestWaypointObjects(t *testing.T) {
	workloads := []mesh.Workload{{Name: "server-ambient", Namespace: "meshtrial-1", Carrier: study.SidecarsAmbient},
		{Name: "server-waypoint", Namespace: "meshtrial-1", Carrier: study.SidecarsWaypoint}, {Name: "client-waypoint", Namespace: "meshtrial-1", Carrier: study.SidecarsWaypoint, Client: true}}
	if got := (&Mesh{upstream: true}).Policies(workloads[:1]); len(got) > 0 {
		t.Errorf("objects without a waypoint: %v", got)
	}
	kinds := func(m *Mesh) (out []string) {
		for _, o := range m.Policies(workloads) {
			if o.GetNamespace() != "meshtrial-1" {
				t.Errorf("%s is in namespace %q", o.GetKind(), o.GetNamespace())
			}
			out = append(out, o.GetKind())
		}
		return out
	}
	if got := kinds(&Mesh{}); !slices.Equal(got, []string{"Gateway"}) {
		t.Errorf("objects %v", got)
	}
	m := &Mesh{upstream: true, Revision: Revision{Name: "next"}}
	if got := kinds(m); !slices.Equal(got, []string{"EnvoyFilter", "Gateway"}) {
		t.Errorf("objects where Envoy is an upstream one: %v", got)
	}
	gateway := m.Policies(workloads)[1]
	if class, _, _ := unstructured.NestedString(gateway.Object, "spec", "gatewayClassName"); class != "istio-waypoint" || gateway.GetLabels()["istio.io/rev"] != "next" {
		t.Errorf("Gateway %v", gateway)
	}
	text, _, _ := unstructured.NestedString(gateway.Object, "spec", "infrastructure", "annotations", "proxy.istio.io/config")
	var config struct {
		ProxyStatsMatcher struct{ InclusionRegexps []string }
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil || len(config.ProxyStatsMatcher.InclusionRegexps) != 1 {
		t.Fatalf("the proxies' configuration is %s: %v", text, err)
	}
	const counter = "cluster.inbound-vip|8080|http|server-waypoint.meshtrial-1.svc.cluster.local;.upstream_rq_total"
	p := m.Proxies(record.PlaceWaypoint)
	for _, expression := range []string{config.ProxyStatsMatcher.InclusionRegexps[0], p.Stats} {
		if !regexp.MustCompile(expression).MatchString(counter) {
			t.Errorf("%s leaves out %s", expression, counter)
		}
	}
	if p.Namespace != "meshtrial-1" || !slices.Equal(p.Containers, []string{"istio-proxy"}) || !strings.Contains(p.Hint, "-n istio-system logs -l app=istiod,istio.io/rev=next ") ||
		p.Of == nil || p.Of.Resource.GroupVersion().String() != gatewayAPI || p.Of.Name != "waypoint" {
		t.Errorf("waypoints are found as %+v", p)
	}
}

// The filter names what only Istio has, which is all that prevents an upstream Envoy
// from loading a waypoint's listeners.
func TestUpstreamWaypoint(t *testing.T) {
	text, err := yaml.Marshal(upstreamWaypoint("meshtrial-1").Object)
	must.OK(t, err)
	for _, want := range []string{"name: waypoint_downstream_peer_metadata", "name: waypoint_upstream_peer_metadata", "name: connect_authority", "operation: REPLACE",
		"kind: Gateway", "name: inner_connect_originate", "name: outer_connect_originate", "object_key: io.istio.connect_authority", "object_key: envoy.filters.listener.original_dst.local_ip", "factory_key: envoy.hashable_string"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "workloadSelector") || strings.Contains(string(text), "istio.hashable_string") {
		t.Errorf("a waypoint reads no such filter, or Envoy refuses it:\n%s", text)
	}
}

// waypointTrial returns the evidence of a trial with a waypoint that has three
// connections to the server's pod, one of them new.
func waypointTrial(nodes int) mesh.Evidence {
	cell := record.Cell{"sidecars": "waypoint", "protocol": "http1", "payload": "1KiB"}
	e := mesh.Evidence{Cell: cell, Endpoint: mesh.Endpoint{Service: "server-waypoint", Namespace: "meshtrial-1", Port: 8080},
		Requests: requests, Connections: connections, Way: study.WayOf(cell), Proxies: map[string]*mesh.Passed{}, Worker: map[string]float64{"requests": requests}}
	client, server := record.PartClientNode, record.PartServerNode
	if nodes == 1 {
		e.Way = e.Way.OnOneNode()
		client, server = record.PartNode, record.PartNode
	}
	for _, part := range []string{client, server} {
		e.Proxies[part] = &mesh.Passed{Rise: map[string]float64{}}
	}
	for _, s := range []struct {
		part, reporter, to string
		opened             float64
	}{{client, "source", "waypoint", connections}, {server, "destination", "server-waypoint", 1}} {
		rise := e.Proxies[s.part].Rise
		rise[waypointSeries(openedTotal, s.reporter, s.to, "mutual_tls")] = s.opened
		rise[waypointSeries(sentTotal, s.reporter, s.to, "mutual_tls")] = requests * 1100
		rise[waypointSeries(receivedTotal, s.reporter, s.to, "mutual_tls")] = requests * 1200
	}
	e.Proxies[record.PartWaypoint] = &mesh.Passed{Rise: map[string]float64{
		"cluster.inbound-vip|8080|http|server-waypoint.meshtrial-1.svc.cluster.local;.upstream_rq_total": requests,
		"cluster.inbound-vip|8080|http|server-waypoint.meshtrial-1.svc.cluster.local;.upstream_cx_total": 1,
	}}
	return e
}

func waypointSeries(name, reporter, to, policy string) string {
	return observe.Metric{Name: name, Labels: map[string]string{"reporter": reporter, "connection_security_policy": policy,
		"destination_workload": to, "destination_workload_namespace": "meshtrial-1", "destination_service_name": "server-waypoint"}}.Key()
}

func TestVerifyWaypoint(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		client, server := record.PartClientNode, record.PartServerNode
		if nodes == 1 {
			client, server = record.PartNode, record.PartNode
		}
		for name, test := range map[string]struct {
			change func(e *mesh.Evidence)
			want   []string
		}{
			"as it should be": {func(*mesh.Evidence) {}, nil},
			"connections of earlier trials": {func(e *mesh.Evidence) {
				delete(e.Proxies[server].Rise, waypointSeries(openedTotal, "destination", "server-waypoint", "mutual_tls"))
			}, nil},
			"a request by": {func(e *mesh.Evidence) {
				for name := range e.Proxies[record.PartWaypoint].Rise {
					e.Proxies[record.PartWaypoint].Rise[name]--
				}
			}, []string{"waypoint-requests"}},
			"all by, straight to the server's pod": {func(e *mesh.Evidence) {
				for _, name := range []string{openedTotal, sentTotal, receivedTotal} {
					from, to := waypointSeries(name, "source", "waypoint", "mutual_tls"), waypointSeries(name, "source", "server-waypoint", "mutual_tls")
					e.Proxies[client].Rise[to] = e.Proxies[client].Rise[from]
					delete(e.Proxies[client].Rise, from)
				}
				e.Proxies[record.PartWaypoint].Rise = map[string]float64{}
			}, []string{"client-ztunnel", "client-ztunnel-bytes", "waypoint-requests"}},
			"from the waypoint in plain text": {func(e *mesh.Evidence) {
				e.Proxies[server].Rise[waypointSeries(sentTotal, "destination", "server-waypoint", "unknown")] = 5
			}, []string{"server-hbone"}},
			"not by the server's ztunnel": {func(e *mesh.Evidence) {
				for _, name := range []string{openedTotal, sentTotal, receivedTotal} {
					delete(e.Proxies[server].Rise, waypointSeries(name, "destination", "server-waypoint", "mutual_tls"))
				}
			}, []string{"server-ztunnel-bytes"}},
			"closed by the waypoint after each response": {func(e *mesh.Evidence) {
				e.Cell = e.Cell.With(record.Cell{"keep_alive": "false"})
				e.Proxies[client].Rise[waypointSeries(failedTotal, "source", "waypoint", "mutual_tls")] = connections
			}, nil},
			"failed, on connections that are kept": {func(e *mesh.Evidence) {
				e.Proxies[client].Rise[waypointSeries(failedTotal, "source", "waypoint", "mutual_tls")] = 1
			}, []string{"client-ztunnel-failed"}},
			"a waypoint that was not read": {func(e *mesh.Evidence) { delete(e.Proxies, record.PartWaypoint) }, []string{"waypoint-present"}},
		} {
			t.Run(fmt.Sprint(name, " on ", nodes), func(t *testing.T) {
				e := waypointTrial(nodes)
				test.change(&e)
				fails(t, e, test.want...)
			})
		}
	}
	for _, e := range []mesh.Evidence{ambientTrial(1), trial(nil)} {
		for _, c := range (&Mesh{}).Verify(e) {
			if strings.Contains(c.Name, "waypoint") {
				t.Errorf("cell %v has the check %s", e.Cell, c.Name)
			}
		}
	}
}

// A cluster without the definition of Gateway is refused before anything starts.
func TestRefuseWaypoint(t *testing.T) {
	kube := fakecluster.New()
	for _, there := range []bool{false, true} {
		if there {
			kube.Clientset.Resources = append(kube.Clientset.Resources, &metav1.APIResourceList{GroupVersion: gatewayAPI, APIResources: []metav1.APIResource{{Name: "gateways", Kind: "Gateway"}}})
		}
		var f AsFound
		must.OK(t, f.readGatewayAPI(t.Context(), kube, mesh.Asked{Waypoint: true}))
		err := f.refuseWaypoint()
		if (err == nil) != there || !there && (errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "lacks the Gateway API's Gateway") ||
			!strings.HasPrefix(errs.Hint(err), "install the Gateway API") || !strings.HasSuffix(errs.Hint(err), "leave waypoint out: --set sidecars=[none,both,ambient]")) {
			t.Errorf("with the definition %v: %v", there, err)
		}
	}
	for image, want := range map[string]bool{"docker.io/istio/pilot:" + components.IstioVersion: true, "docker.io/istio/pilot:1.31.1": false} {
		f := istiodAs(image)
		if f.isUpstream() != want {
			t.Errorf("the proxies of %s are upstream Envoys: %v", image, !want)
		}
		if got := f.ambient(); len(got) > 0 {
			t.Errorf("a run whose requests pass no waypoint names %+v", got)
		}
		f.waypoint = true
		got := f.ambient()
		if len(got) > 1 || (len(got) == 1) != want || want && (got[0].Name != record.PartWaypoint || len(got[0].Lacks) != 1) {
			t.Errorf("with %s a run with a waypoint names %+v", image, got)
		}
	}
}
