package trial

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/drive/load"
	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const outsideStudy = `
name: x
question: y?
variants:
  bare: {sidecars: none, destination: outside}
  unknown: {sidecars: client, destination: outside}
  static: {sidecars: client, destination: outside-static}
  gateway: {sidecars: client, destination: egress-gateway}
baseline: {variant: bare}
`

// Servers outside the mesh have names and virtual addresses, which clients resolve; only one at an
// unknown address has ports on its node, where the URL then leads.
func TestOutsideTopology(t *testing.T) {
	plan := studytest.Plan(t, outsideStudy)
	topo := newTopology("ns", plan)
	d := deployed{topology: topo, Site: &site.Site{}, nodePorts: map[string]map[int]int{}}
	for i, s := range topo.services(&istio.Mesh{}, "run") {
		s.Spec.ClusterIP = "10.0.0." + strconv.Itoa(i+1)
		unknown := strings.HasPrefix(s.Name, "server-outside") && s.Name != "server-outside-static"
		if (s.Spec.Type == corev1.ServiceTypeNodePort) != unknown {
			t.Errorf("Service %s has type %q", s.Name, s.Spec.Type)
		}
		for j := range s.Spec.Ports {
			if unknown {
				s.Spec.Ports[j].NodePort = s.Spec.Ports[j].Port + 22000
			}
		}
		d.locate(s)
	}
	urls := map[string]string{}
	for _, cell := range plan.Cells {
		server := topo.servers[dataplane.ServerVariant(cell)]
		role := &workerRole{Workload: server, pod: site.Pod{NodeAddress: "172.16.0.9"}}
		urls[cell[study.FactorVariant]] = url(server, d.placeOf(role), cell, plan.Study.Load)
		if server.Outside.Address == "" || server.Proxy != nil {
			t.Errorf("%s: %+v", cell.Key(), server)
		}
	}
	for variant, want := range map[string]string{"bare": "http://172.16.0.9:30080/", "unknown": "http://172.16.0.9:30080/",
		"static": "http://server-outside-static.ns.test:8080/", "gateway": "http://server-egress-gateway.ns.test:8080/"} {
		if urls[variant] != want {
			t.Errorf("%s: %s, want %s", variant, urls[variant], want)
		}
	}
	deployments, err := topo.deployments(&istio.Mesh{}, lab.Images{}, "run")
	must.OK(t, err)
	for _, dep := range deployments {
		var names []string
		for _, a := range dep.Spec.Template.Spec.HostAliases {
			if !strings.HasPrefix(a.IP, virtualPrefix) {
				t.Errorf("%s: %v", dep.Name, a)
			}
			names = append(names, a.Hostnames...)
		}
		slices.Sort(names)
		if client := strings.HasPrefix(dep.Name, "client-"); client != slices.Equal(names, []string{"server-egress-gateway.ns.test", "server-outside-static.ns.test"}) {
			t.Errorf("%s resolves %v", dep.Name, names)
		}
	}
	if asked := Asks(plan); !asked.Unknown || len(asked.Proxies) == 0 {
		t.Errorf("%+v", asked)
	}
}

// A server is reached when all requests of an attempt are answered. Otherwise the error has what
// failed.
func TestTryReach(t *testing.T) {
	api := httptest.NewServer(loadcontrol.NewServer(t.Context(), "test").Handler())
	defer api.Close()
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	spec := load.DefaultSpec(server.URL)
	spec.Connections, spec.Arrival, spec.Rate, spec.DurationS, spec.IntervalS = 1, load.Uniform, reachRate, reachFor.Seconds(), reachFor.Seconds()
	role := &loadRole{api: loadcontrol.NewClient(api.URL, nil)}
	d := deployed{}
	if err := d.tryReach(t.Context(), role, spec); err == nil || !strings.Contains(err.Error(), "status") {
		t.Errorf("a server that fails: %v", err)
	}
	status = http.StatusOK
	must.OK(t, d.tryReach(t.Context(), role, spec))
}
