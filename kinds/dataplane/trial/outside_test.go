package trial

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
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

// A server is reached when all requests of an attempt are answered. Otherwise the error names what
// failed, and the hint what the way there depends on.
func TestReach(t *testing.T) {
	api := served(t, loadcontrol.NewServer(t.Context(), "test").Handler())
	status := http.StatusServiceUnavailable
	server := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	must.OK(t, err)
	number, err := strconv.Atoi(port)
	must.OK(t, err)

	plan := studytest.Plan(t, outsideStudy)
	cell := plan.Cells[0]
	worker := &workerRole{Workload: newTopology("ns", plan).servers[dataplane.ServerVariant(cell)], pod: site.Pod{NodeAddress: host}}
	client := &loadRole{pod: site.Pod{Name: "client-plain-1"}, api: loadcontrol.NewClient(api.URL, nil)}
	d := deployed{topology: topology{cells: plan.Cells}, Site: &site.Site{Namespace: "ns"}, o: &runner.Options{Study: plan.Study},
		nodePorts: map[string]map[int]int{worker.Name: {8080: number}}}
	err = d.reach(t.Context(), 800*time.Millisecond, cell, client, worker)
	for _, part := range []string{"client-plain-1", "server-outside", "status 6"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("a server that fails: %v, without %q", err, part)
		}
	}
	if hint := errs.Hint(err); !strings.Contains(hint, "30000 to 32767") {
		t.Errorf("hint %q", hint)
	}
	status = http.StatusOK
	must.OK(t, d.reach(t.Context(), 20*time.Second, cell, client, worker))
}

// Hints name what the path of requests depends on.
func TestReachHint(t *testing.T) {
	o := &mesh.Outside{Name: "server.ns.svc.cluster.local"}
	for destination, want := range map[string]string{
		study.DestinationOutside: "ALLOW_ANY", study.DestinationStatic: "get serviceentries", study.DestinationDNS: "server.ns.svc.cluster.local resolves",
		study.DestinationEgress: "proxy-config listeners deploy/gateway"} {
		o.Destination = destination
		if got := reachHint(record.Cell{study.FactorSidecars: study.SidecarsClient, study.FactorDestination: destination}, "ns", o); !strings.Contains(got, want) {
			t.Errorf("%s: %q", destination, got)
		}
	}
}
