package istio

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// outsideServer returns a server outside the mesh.
func outsideServer(destination, carrier string) mesh.Workload {
	name := "server-" + destination
	return mesh.Workload{Name: name, Namespace: "run", Carrier: carrier, Outside: &mesh.Outside{Destination: destination,
		Host: name + ".run.test", Virtual: "198.51.100.7", Address: "10.96.1.2", Name: name + ".run.svc.cluster.local"}}
}

func byKind(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		out[o.GetKind()+"/"+o.GetName()] = o
	}
	return out
}

// Each destination has the objects that Istio documents, and the server is in no mesh.
func TestOutsideObjects(t *testing.T) {
	m := &Mesh{}
	for _, tt := range []struct {
		destination, carrier string
		want                 []string
		entry                []string // parts of the ServiceEntry
	}{
		{study.DestinationOutside, "", nil, nil},
		{study.DestinationStatic, "", []string{"ServiceEntry/server-outside-static"}, []string{`"STATIC"`, `"10.96.1.2"`}},
		{study.DestinationDNS, "", []string{"ServiceEntry/server-outside-dns"}, []string{`"DNS"`, `"server-outside-dns.run.svc.cluster.local"`}},
		{study.DestinationDNS, study.SidecarsWaypoint, []string{"Gateway/waypoint", "ServiceEntry/server-outside-dns"}, []string{`"istio.io/use-waypoint":"waypoint"`}},
		{study.DestinationEgress, "", []string{"Deployment/gateway", "DestinationRule/server-egress-gateway", "Gateway/server-egress-gateway", "Service/gateway",
			"ServiceEntry/server-egress-gateway", "Telemetry/gateway", "VirtualService/server-egress-gateway"}, []string{`"DNS"`}},
	} {
		w := outsideServer(tt.destination, tt.carrier)
		objects := byKind(m.Policies([]mesh.Workload{w}))
		if got := slices.Sorted(maps.Keys(objects)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.destination, got, tt.want)
		}
		if tt.entry != nil {
			text, err := objects["ServiceEntry/"+w.Name].MarshalJSON()
			must.OK(t, err)
			for _, part := range append(tt.entry, `"198.51.100.7"`, `"MESH_EXTERNAL"`, `"protocol":"TCP"`, `"protocol":"HTTPS"`) {
				if !strings.Contains(string(text), part) {
					t.Errorf("%s: the entry lacks %s: %s", tt.destination, part, text)
				}
			}
		}
		pod := corev1.PodTemplateSpec{}
		must.OK(t, m.Decorate(w, &pod))
		if pod.Labels[dataplaneMode] != notInMesh || pod.Labels["sidecar.istio.io/inject"] != "false" {
			t.Errorf("%s: labels %v", tt.destination, pod.Labels)
		}
	}
}

// Requests for a host go from the mesh to the gateway over mutual TLS, and from the gateway to the
// server. A planted bypass leaves the first way out.
func TestEgressRoutes(t *testing.T) {
	for _, bypass := range []bool{false, true} {
		w := outsideServer(study.DestinationEgress, "")
		w.Outside.Bypass = bypass
		objects := byKind(egress(w))
		text, err := objects["VirtualService/"+w.Name].MarshalJSON()
		must.OK(t, err)
		rules, gateways := string(text), "run/server-egress-gateway"
		for _, part := range []string{`"` + gateways + `"`, `"host":"server-egress-gateway.run.test","port":{"number":8080}`, `"port":18083`} {
			if !strings.Contains(rules, part) {
				t.Errorf("bypass %v: the routes lack %s: %s", bypass, part, rules)
			}
		}
		for _, part := range []string{`"mesh"`, `"host":"gateway.run.svc.cluster.local","port":{"number":18080},"subset":"server-egress-gateway"`, `"sniHosts"`} {
			if strings.Contains(rules, part) == bypass {
				t.Errorf("bypass %v: %s: %s", bypass, part, rules)
			}
		}
		rule, err := objects["DestinationRule/"+w.Name].MarshalJSON()
		if err != nil || !strings.Contains(string(rule), `"tls":{"mode":"ISTIO_MUTUAL","sni":"server-egress-gateway.run.test"}`) {
			t.Errorf("%s, %v", rule, err)
		}
	}
}

// outsideTrial returns the evidence of a trial of a client's sidecar with these statistics, and of
// the gateway.
func outsideTrial(destination string, client, gateway map[string]float64) mesh.Evidence {
	cell := record.Cell{"sidecars": "client", "destination": destination}
	e := mesh.Evidence{Cell: cell, Way: study.WayOf(cell), Requests: requests, Connections: connections, Proxies: map[string]*mesh.Passed{
		record.PartClientProxy: {Rise: client, Total: map[string]float64{}}},
		Endpoint: mesh.Endpoint{Service: "server-" + destination, Namespace: "run", Port: 8080, Host: "server-" + destination + ".run.test", Client: "client-sidecar", Unknown: destination == study.DestinationOutside}}
	if gateway != nil {
		e.Proxies[record.PartGateway] = &mesh.Passed{Rise: gateway, Total: map[string]float64{"server.concurrency": mesh.PlainThreads}}
	}
	return e
}

// wayChecks are those that prove a way out of the mesh.
var wayChecks = []string{"client-requests", "gateway-requests", "egress-bypass"}

// Proxies' counters show which way requests left the mesh, and a bypass of the gateway has a code.
func TestOutsideChecks(t *testing.T) {
	const (
		toServer  = "cluster.outbound|8080||server-egress-gateway.run.test;.upstream_"
		toGateway = "cluster.outbound|18080|server-egress-gateway|gateway.run.svc.cluster.local;.upstream_"
	)
	for name, tt := range map[string]struct {
		e    mesh.Evidence
		want []string // that fail
	}{
		"passthrough":         {outsideTrial(study.DestinationOutside, map[string]float64{"cluster.PassthroughCluster.upstream_cx_total": connections}, nil), nil},
		"none passed":         {outsideTrial(study.DestinationOutside, map[string]float64{}, nil), []string{"client-requests"}},
		"static":              {outsideTrial(study.DestinationStatic, map[string]float64{"cluster.outbound|8080||server-outside-static.run.test;.upstream_rq_total": requests}, nil), nil},
		"passed as unknown":   {outsideTrial(study.DestinationDNS, map[string]float64{"cluster.PassthroughCluster.upstream_cx_total": connections}, nil), []string{"client-requests"}},
		"through the gateway": {outsideTrial(study.DestinationEgress, map[string]float64{toGateway + "rq_total": requests}, map[string]float64{toServer + "rq_total": requests}), nil},
		"all went past the gateway": {outsideTrial(study.DestinationEgress, map[string]float64{toServer + "rq_total": requests, toServer + "cx_total": connections}, map[string]float64{}),
			[]string{"client-requests", "egress-bypass", "gateway-requests"}},
		"one went past the gateway, on an old connection": {outsideTrial(study.DestinationEgress, map[string]float64{toGateway + "rq_total": requests - 1, toServer + "rq_total": 1}, map[string]float64{toServer + "rq_total": requests - 1}),
			[]string{"client-requests", "egress-bypass", "gateway-requests"}},
	} {
		bad := slices.DeleteFunc(failed((&Mesh{}).Verify(tt.e)), func(check string) bool { return !slices.Contains(wayChecks, check) })
		if !slices.Equal(bad, tt.want) {
			t.Errorf("%s: %v fail, want %v", name, bad, tt.want)
		}
	}
}

// ztunnel on the client's node carries connections to a server outside unencrypted. It knows one
// with a ServiceEntry, and otherwise only the client.
func TestOutsideAmbient(t *testing.T) {
	const opened, policy = openedTotal, "connection_security_policy"
	key := func(name string, labels map[string]string) string {
		return observe.Metric{Name: name, Labels: labels}.Key()
	}
	for _, destination := range []string{study.DestinationOutside, study.DestinationStatic} {
		labels := map[string]string{"reporter": asSource, "source_workload": "client-ambient", "source_workload_namespace": "run", "destination_workload": ztunnelUnknown, policy: "unknown"}
		if destination != study.DestinationOutside {
			labels["destination_workload"], labels["destination_workload_namespace"] = "server-"+destination, "run"
		}
		for name, tt := range map[string]struct {
			connections float64
			policy      string
			worker      float64
			want        []string
		}{
			"all":                    {connections, "unknown", connections, nil},
			"one passed by":          {connections - 1, "unknown", connections, []string{"client-ztunnel", "worker-connections"}},
			"encrypted":              {connections, "mutual_tls", connections, []string{"client-hbone"}},
			"one more at the worker": {connections, "unknown", connections + 1, []string{"worker-connections"}},
		} {
			labels[policy] = tt.policy
			cell := record.Cell{"sidecars": "ambient", "destination": destination, "payload": "1KiB"}
			e := outsideTrial(destination, nil, nil)
			e.Cell, e.Way, e.Endpoint.Client = cell, study.WayOf(cell).OnOneNode(), "client-ambient"
			e.Wire, e.Worker = &mesh.Wire{Sent: requests * 1200, Read: requests * 1100}, map[string]float64{"connections": tt.worker}
			e.Proxies = map[string]*mesh.Passed{record.PartNode: {Total: map[string]float64{}, Rise: map[string]float64{
				key(opened, labels): tt.connections, key(receivedTotal, labels): requests * 1200, key(sentTotal, labels): requests * 1100}}}
			t.Run(destination+" "+name, func(t *testing.T) { fails(t, e, tt.want...) })
		}
	}
}

// Sidecars that reject unknown addresses are found before anything starts.
func TestRefuseUnknown(t *testing.T) {
	f := AsFound{}
	f.config.OutboundTrafficPolicy.Mode = "REGISTRY_ONLY"
	if err := f.refuseUnknown(mesh.Asked{Unknown: true}); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Errorf("%v, hint %q", err, errs.Hint(err))
	}
	must.OK(t, f.refuseUnknown(mesh.Asked{}))
	must.OK(t, AsFound{}.refuseUnknown(mesh.Asked{Unknown: true}))
}
